#include "tar_stream.h"

#include <archive.h>
#include <archive_entry.h>
#include <unistd.h>

#include <array>

#include <fmt/format.h>

#include "pons/base/unique_handle.h"
#include "sha256.h"

namespace pons::templates {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{128} << 10;
constexpr std::uint64_t kProgressBytes = 8ULL << 20;

struct ArchiveTraits {
  using Value = archive*;
  static archive* empty() { return nullptr; }
  static void close(archive* reader) noexcept { archive_read_free(reader); }
};
using UniqueArchive = UniqueHandle<ArchiveTraits>;

Error archive_error(const char* step, archive* reader) {
  const char* words = archive_error_string(reader);
  return make_error(ErrorCode::kInvalid, step, words == nullptr ? "not a tar archive" : words);
}

Error too_large(const TreeLimits& limits) {
  return make_error(
      ErrorCode::kLimit, "extract layer",
      fmt::format("more than {} bytes or {} files unpacked", limits.bytes, limits.files));
}

// Removes the compression and takes the digest of what comes out.
class Decompressor {
 public:
  Decompressor(int fd, const TreeLimits& limits, const std::function<void(std::uint64_t)>& progress)
      // Headers and padding come on top of the content.
      : bytes_max_(limits.bytes + limits.bytes / 4 + (64ULL << 20)),
        progress_(progress),
        raw_(archive_read_new()) {
    archive_read_support_filter_gzip(raw_.get());
    archive_read_support_filter_zstd(raw_.get());
    archive_read_support_format_raw(raw_.get());
    archive_entry* entry = nullptr;
    ready_ = archive_read_open_fd(raw_.get(), fd, kBlockBytes) == ARCHIVE_OK &&
             archive_read_next_header(raw_.get(), &entry) == ARCHIVE_OK;
  }

  Result<void> check() const {
    if (!ready_) return archive_error("open layer", raw_.get());
    return {};
  }

  // Bytes, 0 at the end, or a negative number.
  la_ssize_t next(const void** block) {
    const la_ssize_t got = archive_read_data(raw_.get(), block_.data(), block_.size());
    if (got <= 0) return got;
    bytes_ += static_cast<std::uint64_t>(got);
    if (bytes_ > bytes_max_) {
      exceeded_ = true;
      return -1;
    }
    hash_.add({block_.data(), static_cast<std::size_t>(got)});
    if (bytes_ / kProgressBytes != told_) {
      told_ = bytes_ / kProgressBytes;
      progress_(bytes_);
    }
    *block = block_.data();
    return got;
  }

  // What follows the archive's end mark belongs to the digest too.
  Result<std::string> finish() {
    const void* block = nullptr;
    la_ssize_t got = 0;
    do {
      got = next(&block);
    } while (got > 0);
    if (got < 0) return archive_error("read layer", raw_.get());
    return hash_.finish_hex();
  }

  bool exceeded() const { return exceeded_; }

 private:
  std::uint64_t bytes_max_;
  const std::function<void(std::uint64_t)>& progress_;
  UniqueArchive raw_;
  bool ready_ = false;
  bool exceeded_ = false;
  std::uint64_t bytes_ = 0;
  std::uint64_t told_ = 0;
  Sha256 hash_;
  std::array<char, kBlockBytes> block_;
};

la_ssize_t read_decompressed(archive*, void* source, const void** block) {
  return static_cast<Decompressor*>(source)->next(block);
}

Result<void> copy_content(archive* tar, int fd) {
  for (;;) {
    const void* block = nullptr;
    std::size_t size = 0;
    la_int64_t offset = 0;
    const int outcome = archive_read_data_block(tar, &block, &size, &offset);
    if (outcome == ARCHIVE_EOF) return {};
    if (outcome != ARCHIVE_OK) return archive_error("read layer", tar);
    const char* bytes = static_cast<const char*>(block);
    while (size > 0) {
      const ssize_t wrote = pwrite(fd, bytes, size, offset);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return os_error("write file");
      bytes += wrote;
      offset += wrote;
      size -= static_cast<std::size_t>(wrote);
    }
  }
}

Result<void> copy_entries(archive* tar, LayerWriter& writer, const TreeLimits& limits) {
  for (;;) {
    archive_entry* entry = nullptr;
    const int outcome = archive_read_next_header(tar, &entry);
    if (outcome == ARCHIVE_EOF) return {};
    // A warning is a name or value that could not be read as it is meant.
    if (outcome != ARCHIVE_OK) return archive_error("read layer", tar);
    if (archive_entry_size(entry) < 0 ||
        static_cast<std::uint64_t>(archive_entry_size(entry)) > limits.bytes)
      return too_large(limits);
    const int fd = TRY(writer.begin(entry));
    if (writer.counts().bytes > limits.bytes || writer.counts().files > limits.files)
      return too_large(limits);
    if (fd >= 0) TRY_VOID(copy_content(tar, fd));
    TRY_VOID(writer.end(entry));
  }
}

}  // namespace

Result<std::string> unpack_tar(int input_fd, LayerWriter& writer, const TreeLimits& limits,
                               const std::function<void(std::uint64_t)>& progress) {
  const auto source = std::make_unique<Decompressor>(input_fd, limits, progress);
  TRY_VOID(source->check());
  const UniqueArchive tar(archive_read_new());
  archive_read_support_format_tar(tar.get());
  Result<void> copied = {};
  if (archive_read_open(tar.get(), source.get(), nullptr, read_decompressed, nullptr) != ARCHIVE_OK)
    copied = archive_error("open layer", tar.get());
  else
    copied = copy_entries(tar.get(), writer, limits);
  if (source->exceeded()) return too_large(limits);
  if (!copied) return std::move(copied).error();
  return source->finish();
}

}  // namespace pons::templates
