#include "extract.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "pons/templates/layer_store.h"
#include "tar_stream.h"

namespace pons::templates {
namespace {

// What the process in the jail says. Fixed size and below PIPE_BUF, so that one write is one
// report. It reads hostile archives: whatever it says is checked like input.
struct Report {
  enum class Kind : std::uint32_t { kProgress = 1, kDone = 2, kFailed = 3 };
  Kind kind = Kind::kProgress;
  std::int32_t os_error = 0;
  std::int32_t code = 0;
  std::uint32_t reserved = 0;
  std::uint64_t bytes_done = 0;
  WriterCounts counts;
  char digest[64] = {};
  char message[512] = {};
};
static_assert(sizeof(Report) < 4096);

void put(char* field, std::size_t size, std::string_view text) {
  std::memcpy(field, text.data(), std::min(size, text.size()));
}

std::string take(const char* field, std::size_t size) {
  std::string text(field, strnlen(field, size));
  std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20 || c > 0x7E; }, '?');
  return text;
}

void send(const Report& report) {
  [[maybe_unused]] const ssize_t wrote = write(Jail::kReport, &report, sizeof report);
}

int unpack_in_jail(const TreeLimits& limits) {
  Report report;
  linux::UniqueFd root(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  LayerWriter writer(std::move(root));
  const auto digest = unpack_tar(Jail::kInput, writer, limits, [&](std::uint64_t bytes) {
    send({.kind = Report::Kind::kProgress, .bytes_done = bytes});
  });
  report.counts = writer.counts();
  if (digest) {
    report.kind = Report::Kind::kDone;
    put(report.digest, sizeof report.digest, *digest);
  } else {
    report.kind = Report::Kind::kFailed;
    report.os_error = digest.error().os_error;
    report.code = static_cast<std::int32_t>(digest.error().code);
    put(report.message, sizeof report.message - 1,
        std::string(digest.error().step) +
            (digest.error().message.empty() ? "" : ": " + digest.error().message));
  }
  send(report);
  return 0;
}

Error error_of(const Report& report) {
  const bool known = report.code >= 0 && report.code <= static_cast<int>(ErrorCode::kInternal);
  return Error{.code = known ? static_cast<ErrorCode>(report.code) : ErrorCode::kInvalid,
               .step = "extract archive",
               .os_error = std::clamp(report.os_error, 0, 4095),
               .message = take(report.message, sizeof report.message)};
}

Error ended_early() {
  return make_error(ErrorCode::kInvalid, "extract archive",
                    "the process that unpacks it ended early");
}

// Nothing at the end of the stream.
Result<std::optional<Report>> read_report(int fd) {
  Report report;
  std::size_t have = 0;
  while (have < sizeof report) {
    const ssize_t got = read(fd, reinterpret_cast<char*>(&report) + have, sizeof report - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os_error("read extraction report");
    if (got == 0) return std::nullopt;
    have += static_cast<std::size_t>(got);
  }
  return report;
}

}  // namespace

Result<Extraction> Extraction::start(int input_fd, const std::string& directory,
                                     const TreeLimits& limits) {
  linux::Pipe reports = TRY(linux::create_pipe());
  Jail jail = TRY(Jail::start(directory, input_fd, reports.write_end.get(),
                              [&] { return unpack_in_jail(limits); }));
  return Extraction(std::move(reports.read_end), std::move(jail));
}

Result<std::optional<Extracted>> Extraction::advance() {
  const auto report = TRY(read_report(reports_.get()));
  if (!report) return ended_early();
  switch (report->kind) {
    case Report::Kind::kProgress:
      bytes_done_ = report->bytes_done;
      return std::nullopt;
    case Report::Kind::kFailed:
      return error_of(*report);
    case Report::Kind::kDone:
      break;
    default:
      return ended_early();
  }
  Extracted extracted{.counts = report->counts,
                      .tar_digest = take(report->digest, sizeof report->digest)};
  if (!is_digest(extracted.tar_digest) || jail_.wait() != 0) return ended_early();
  return extracted;
}

Result<Extracted> extract_tar(int input_fd, const std::string& directory, const TreeLimits& limits,
                              const std::function<void(std::uint64_t)>& progress) {
  Extraction extraction = TRY(Extraction::start(input_fd, directory, limits));
  for (;;) {
    pollfd entries[] = {{.fd = extraction.fd(), .events = POLLIN, .revents = 0},
                        {.fd = limits.interrupt_fd, .events = POLLIN, .revents = 0}};
    if (poll(entries, 2, -1) < 0 && errno != EINTR) return os_error("wait for extraction");
    TRY_VOID(check_interrupt(limits.interrupt_fd));
    if (entries[0].revents == 0) continue;
    if (auto extracted = TRY(extraction.advance())) return std::move(*extracted);
    if (progress) progress(extraction.bytes_done());
  }
}

}  // namespace pons::templates
