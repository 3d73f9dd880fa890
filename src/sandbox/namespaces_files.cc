// The files of NamespacesProvider: programs of the cell do the work, inside the sandbox.

#include <fmt/format.h>

#include "builtin_job.h"
#include "cell_reply.h"
#include "pons/sandbox/namespaces.h"

namespace pons::sandbox {

namespace {

constexpr std::size_t kListBytesMax = 12ULL << 20;  // 100,000 files with short names
constexpr std::size_t kRecordBytesMax = 256 * 1024;
constexpr std::size_t kPieceBytesMax = 1ULL << 20;
constexpr Duration kReadStall = std::chrono::seconds(60);

using BuiltinPointer = std::unique_ptr<BuiltinJob>;

Result<void> check_path(std::string_view path) {
  if (!path.empty() && path.size() <= 4095 && path.find('\0') == std::string_view::npos) return {};
  return make_error(ErrorCode::kInvalid, "use file",
                    "a path has 1 to 4095 bytes and no zero byte in it");
}

Task<Result<BuiltinPointer>> begin(Fleet& fleet, std::string id, BuiltinJob::Words words) {
  CO_TRY(auto call, co_await fleet.enter(std::move(id)));
  co_return co_await BuiltinJob::start(fleet, std::move(call), std::move(words));
}

Task<Result<std::string>> run(Fleet& fleet, std::string id, BuiltinJob::Words words,
                              std::size_t bytes_max) {
  CO_TRY(const auto job, co_await begin(fleet, std::move(id), std::move(words)));
  co_return co_await job->read_all(bytes_max);
}

std::string below(const std::string& path, const std::string& name) {
  if (name.empty()) return path;
  return path.ends_with('/') ? path + name : path + "/" + name;
}

Error senseless() {
  return make_error(ErrorCode::kIo, "use file", "the sandbox described its files in no known form");
}

Result<std::vector<FileInfo>> parse_files(std::string_view bytes, const std::string& path) {
  std::vector<FileInfo> files;
  while (!bytes.empty()) {
    FileInfo info;
    const RecordParse parse = parse_file_record(bytes, info);
    if (parse.state != RecordParse::State::kRecord) return senseless();
    bytes.remove_prefix(parse.consumed);
    info.path = below(path, info.path);
    files.push_back(std::move(info));
  }
  return files;
}

Task<Result<FileInfo>> describe(Fleet& fleet, std::string id, BuiltinJob::Words words,
                                std::string path) {
  CO_TRY(const auto bytes, co_await run(fleet, std::move(id), std::move(words), kRecordBytesMax));
  CO_TRY(auto files, parse_files(bytes, path));
  if (files.size() != 1) co_return senseless();
  files.front().path = path;
  co_return std::move(files.front());
}

class FileSource final : public ByteSource {
 public:
  FileSource(Fleet& fleet, BuiltinPointer job, std::string first)
      : fleet_(fleet), job_(std::move(job)), first_(std::move(first)) {}
  Task<Result<std::string>> next() override {
    if (!first_.empty()) co_return std::exchange(first_, {});
    co_return co_await job_->read(fleet_.loop().now() + kReadStall);
  }

 private:
  Fleet& fleet_;
  BuiltinPointer job_;
  std::string first_;
};

class FileChanges final : public ChangeStream {
 public:
  FileChanges(BuiltinPointer job, std::string path)
      : job_(std::move(job)), path_(std::move(path)) {}
  Task<Result<FileChange>> next(std::chrono::steady_clock::time_point deadline) override {
    for (;;) {
      FileChange change;
      const RecordParse parse = parse_watch_record(bytes_, change);
      if (parse.state == RecordParse::State::kRefused) co_return senseless();
      if (parse.state == RecordParse::State::kRecord) {
        bytes_.erase(0, parse.consumed);
        change.path = below(path_, change.path);
        co_return change;
      }
      CO_TRY(const auto piece, co_await job_->read(deadline));
      if (piece.empty())
        co_return make_error(ErrorCode::kNotFound, "watch files", "the directory is gone");
      bytes_ += piece;
    }
  }

 private:
  BuiltinPointer job_;
  std::string path_;
  std::string bytes_;
};

std::string write_flags(const WriteOptions& options) {
  std::string flags;
  if (options.create_parents) flags += 'c';
  if (options.append) flags += 'a';
  if (options.must_not_exist) flags += 'x';
  // A reader sees the old file or the new one, and never a part.
  if (!options.append && !options.must_not_exist && !options.in_place) flags += 's';
  return flags;
}

Result<BuiltinJob::Words> write_words(const std::string& path, const WriteOptions& options) {
  BuiltinJob::Words words{.argv = {"write", path, fmt::format("{:o}", options.mode),
                                   write_flags(options), options.owner},
                          .user = options.user,
                          .has_input = true};
  std::size_t bytes = 0;
  for (const auto& [name, value] : options.attributes) {
    if (!name.starts_with("user."))
      return make_error(ErrorCode::kInvalid, "write file", "attributes are named \"user.…\"");
    bytes += name.size() + value.size() + 2;
    words.argv.insert(words.argv.end(), {name, value});
  }
  if (bytes > cell::kAttributesBytesMax)
    return make_error(
        ErrorCode::kLimit, "write file",
        fmt::format("attributes have {} bytes and may have {}", bytes, cell::kAttributesBytesMax));
  return words;
}

}  // namespace

Task<Result<std::unique_ptr<ByteSource>>> NamespacesProvider::read_file(
    std::string id, std::string path, std::string user, std::uint64_t offset, std::uint64_t size) {
  CO_TRY_VOID(check_path(path));
  CO_TRY(auto job,
         co_await begin(*fleet_, std::move(id),
                        {.argv = {"read", path, fmt::format("{}", offset), fmt::format("{}", size)},
                         .user = std::move(user)}));
  // The first piece at once, so that a file that cannot be read is an error here.
  CO_TRY(auto first, co_await job->read(fleet_->loop().now() + kReadStall));
  co_return std::unique_ptr<ByteSource>(
      std::make_unique<FileSource>(*fleet_, std::move(job), std::move(first)));
}

Task<Result<FileInfo>> NamespacesProvider::write_file(std::string id, std::string path,
                                                      WriteOptions options,
                                                      std::unique_ptr<ByteSource> bytes) {
  CO_TRY_VOID(check_path(path));
  if (options.mode > 07777)
    co_return make_error(ErrorCode::kInvalid, "write file", "mode has permission bits only");
  {
    CO_TRY(auto words, write_words(path, options));
    CO_TRY(const auto job, co_await begin(*fleet_, id, std::move(words)));
    for (;;) {
      CO_TRY(auto piece, co_await bytes->next());
      if (piece.empty()) break;
      if (piece.size() > kPieceBytesMax)
        co_return make_error(ErrorCode::kLimit, "write file", "a piece of it is too large");
      CO_TRY(const bool taken, co_await job->write(std::move(piece)));
      if (!taken) break;
    }
    CO_TRY_VOID(co_await job->close_input());
    CO_TRY_VOID(co_await job->read_all(kRecordBytesMax));
  }
  co_return co_await stat_file(std::move(id), std::move(path), options.user);
}

Task<Result<FileInfo>> NamespacesProvider::stat_file(std::string id, std::string path,
                                                     std::string user) {
  CO_TRY_VOID(check_path(path));
  co_return co_await describe(*fleet_, std::move(id),
                              {.argv = {"stat", path}, .user = std::move(user)}, path);
}

Task<Result<std::vector<FileInfo>>> NamespacesProvider::list_files(std::string id, std::string path,
                                                                   std::string user,
                                                                   std::uint32_t depth) {
  CO_TRY_VOID(check_path(path));
  CO_TRY(const auto bytes,
         co_await run(*fleet_, std::move(id),
                      {.argv = {"list", path, fmt::format("{}", depth)}, .user = std::move(user)},
                      kListBytesMax));
  co_return parse_files(bytes, path);
}

Task<Result<FileInfo>> NamespacesProvider::make_directory(std::string id, std::string path,
                                                          std::string user, std::string owner) {
  CO_TRY_VOID(check_path(path));
  co_return co_await describe(
      *fleet_, std::move(id),
      {.argv = {"mkdir", path, "755", std::move(owner)}, .user = std::move(user)}, path);
}

Task<Result<void>> NamespacesProvider::remove_file(std::string id, std::string path,
                                                   std::string user) {
  CO_TRY_VOID(check_path(path));
  CO_TRY_VOID(co_await run(*fleet_, std::move(id),
                           {.argv = {"remove", path}, .user = std::move(user)}, kRecordBytesMax));
  co_return {};
}

Task<Result<FileInfo>> NamespacesProvider::rename_file(std::string id, std::string from,
                                                       std::string to, std::string user) {
  CO_TRY_VOID(check_path(from));
  CO_TRY_VOID(check_path(to));
  co_return co_await describe(*fleet_, std::move(id),
                              {.argv = {"rename", from, to}, .user = std::move(user)}, to);
}

Task<Result<std::unique_ptr<ChangeStream>>> NamespacesProvider::watch_files(std::string id,
                                                                            std::string path,
                                                                            std::string user,
                                                                            bool recursive) {
  CO_TRY_VOID(check_path(path));
  CO_TRY(auto job,
         co_await begin(*fleet_, std::move(id),
                        {.argv = {"watch", path, recursive ? "1" : "0"}, .user = std::move(user)}));
  co_return std::unique_ptr<ChangeStream>(
      std::make_unique<FileChanges>(std::move(job), std::move(path)));
}

}  // namespace pons::sandbox
