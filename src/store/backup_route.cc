#include "pons/store/backup_route.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pons/http/error_status.h"
#include "pons/linux/fd.h"

namespace pons::store {

namespace {

constexpr std::size_t kPieceBytes = 256 * 1024;

struct Copy {
  linux::UniqueFd file;
  std::uint64_t bytes = 0;
};

// A file without a name: nothing is left behind, however this ends.
Task<Result<Copy>> make_copy(SqliteStore& store) {
  auto copied = co_await store.copy_to(kBackupFile);
  Result<Copy> copy = Copy();
  if (copied) {
    auto file = linux::open_file(kBackupFile, O_RDONLY | O_NOFOLLOW);
    struct stat info{};
    if (!file)
      copied = file.error();
    else if (fstat(file->get(), &info) != 0)
      copied = os_error("back up", kBackupFile);
    else
      copy = Copy{.file = std::move(*file), .bytes = static_cast<std::uint64_t>(info.st_size)};
  }
  unlink(kBackupFile);
  if (!copied) co_return copied.error();
  co_return copy;
}

}  // namespace

Task<> answer_backup(SqliteStore& store, http::Exchange& exchange) {
  auto copy = co_await make_copy(store);
  if (!copy) {
    exchange.respond(http::error_response(copy.error()));
    co_return;
  }
  if (!co_await exchange.start(
          {.content_type = "application/octet-stream", .content_length = copy->bytes}))
    co_return;
  std::string piece(kPieceBytes, '\0');
  for (std::uint64_t sent = 0; sent < copy->bytes;) {
    const ssize_t got = read(copy->file.get(), piece.data(), piece.size());
    if (got <= 0) {
      exchange.abort();
      co_return;
    }
    if (!co_await exchange.write(std::string_view(piece).substr(0, static_cast<std::size_t>(got))))
      co_return;
    sent += static_cast<std::uint64_t>(got);
  }
  (void)co_await exchange.finish();
}

}  // namespace pons::store
