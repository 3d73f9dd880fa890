#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>

#include "accounts.h"
#include "byte_range.h"
#include "entry.h"
#include "failure.h"
#include "files.h"
#include "gzip.h"
#include "query.h"

namespace pons::e2b {

namespace {

using sandbox::FileKind;

struct Wanted {
  std::string path;  // as asked for: the kernel follows its links
  std::uint64_t size = 0;
};

// Whatever it is, a browser must not take it for a page of ours.
http::Response file_head() {
  return {.content_type = "application/octet-stream",
          .fields = {{"X-Content-Type-Options", "nosniff"}, {"Accept-Ranges", "bytes"}}};
}

Task<Result<Wanted>> find_file(Call& call) {
  const auto asked = query_value(call.exchange.request().query(), "path");
  if (!asked) co_return make_error(ErrorCode::kInvalid, "read file", "\"path\" is missing");
  CO_TRY(const auto path, co_await resolve_path(call, *asked));
  CO_TRY(const auto info,
         co_await call.awake([&] { return call.provider.stat_file(call.id(), path, kFileUser); }));
  const auto end = opened(info);
  if (!end)
    co_return make_error(ErrorCode::kNotFound, "read file",
                         fmt::format("path '{}' does not exist", path));
  if (end->kind == FileKind::kDirectory)
    co_return make_error(ErrorCode::kInvalid, "read file",
                         fmt::format("path '{}' is a directory", path));
  co_return Wanted{.path = path, .size = end->size};
}

// Bytes that come to an end too early end in an error.
class ExactBytes final : public sandbox::ByteSource {
 public:
  ExactBytes(std::unique_ptr<sandbox::ByteSource> bytes, std::uint64_t size)
      : bytes_(std::move(bytes)), left_(size) {}
  Task<Result<std::string>> next() override {
    if (left_ == 0) co_return std::string();
    CO_TRY(std::string piece, co_await bytes_->next());
    if (piece.empty())
      co_return make_error(ErrorCode::kIo, "read file", "it has become shorter meanwhile");
    piece.resize(std::min<std::uint64_t>(piece.size(), left_));
    left_ -= piece.size();
    co_return piece;
  }

 private:
  std::unique_ptr<sandbox::ByteSource> bytes_;
  std::uint64_t left_;
};

// The answer has begun: what goes wrong from here on can only cut it off.
Task<> pour(Call& call, sandbox::ByteSource& source, std::uint64_t left) {
  while (left > 0) {
    const auto piece = co_await source.next();
    if (!piece || piece->empty()) break;
    const std::string_view bytes = std::string_view(*piece).substr(0, left);
    left -= bytes.size();
    if (!co_await call.exchange.write(bytes)) co_return;
  }
  if (left == 0) {
    (void)co_await call.exchange.finish();
  } else {
    call.exchange.abort();  // it has become shorter meanwhile, or its sandbox is gone
  }
}

Task<Result<std::unique_ptr<sandbox::ByteSource>>> open_file(Call& call, const Wanted& file,
                                                             ByteRange range) {
  return call.provider.read_file(call.id(), file.path, kFileUser, range.offset, range.size);
}

// Files of the kernel say that they are empty and are not.
Task<Result<void>> send_empty(Call& call, const Wanted& file) {
  CO_TRY(const auto source, co_await open_file(call, file, {}));
  CO_TRY(std::string piece, co_await source->next());
  http::Response head = file_head();
  if (piece.empty()) {
    call.exchange.respond(std::move(head));
    co_return {};
  }
  if (!co_await call.exchange.start(std::move(head))) co_return {};
  while (!piece.empty()) {
    if (!co_await call.exchange.write(piece)) co_return {};
    auto next = co_await source->next();
    if (!next) {
      call.exchange.abort();
      co_return {};
    }
    piece = std::move(*next);
  }
  (void)co_await call.exchange.finish();
  co_return {};
}

// What is packed has no length before it is sent.
Task<Result<void>> send_packed(Call& call, const Wanted& file) {
  CO_TRY(auto plain, co_await open_file(call, file, {.offset = 0, .size = file.size}));
  http::Response head = file_head();
  head.fields.emplace_back("Content-Encoding", "gzip");
  head.fields.emplace_back("Vary", "Accept-Encoding");
  if (!co_await call.exchange.start(std::move(head))) co_return {};
  const auto packed = gzip(std::make_unique<ExactBytes>(std::move(plain), file.size));
  for (;;) {
    const auto piece = co_await packed->next();
    if (!piece) {
      call.exchange.abort();
      co_return {};
    }
    if (piece->empty()) break;
    if (!co_await call.exchange.write(*piece)) co_return {};
  }
  (void)co_await call.exchange.finish();
  co_return {};
}

// Parts and conditions are about the bytes as they are.
bool may_be_packed(const http::RequestHead& request) {
  if (request.method != "GET") return false;
  for (const char* field : {"Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since",
                            "If-Unmodified-Since"})
    if (request.find(field)) return false;
  return true;
}

Task<Result<void>> send_file(Call& call, const Wanted& file) {
  const http::RequestHead& request = call.exchange.request();
  const auto coding =
      choose_coding(request, may_be_packed(request) ? Coding::kGzip : Coding::kIdentity);
  if (!coding) {
    constexpr int kNotAcceptable = 406;
    respond_failure(call.exchange, kNotAcceptable,
                    "Accept-Encoding leaves no coding that this can be sent in");
    co_return {};
  }
  if (*coding == Coding::kGzip) co_return co_await send_packed(call, file);
  // Nothing here proves that the file is still the one that a condition names.
  const bool whole = request.find("If-Range").has_value();
  const auto asked = read_range(whole ? std::nullopt : request.find("Range"), file.size);
  http::Response head = file_head();
  if (asked.kind == RangeRequest::Kind::kUnsatisfiable) {
    head.status = 416;
    head.fields.emplace_back("Content-Range", fmt::format("bytes */{}", file.size));
    call.exchange.respond(std::move(head));
    co_return {};
  }
  ByteRange range{.offset = 0, .size = file.size};
  if (asked.kind == RangeRequest::Kind::kPart) {
    range = asked.range;
    head.status = 206;
    head.fields.emplace_back(
        "Content-Range",
        fmt::format("bytes {}-{}/{}", range.offset, range.offset + range.size - 1, file.size));
  }
  CO_TRY(const auto source, co_await open_file(call, file, range));
  head.content_length = range.size;
  if (!co_await call.exchange.start(std::move(head))) co_return {};
  if (request.method == "HEAD") {
    (void)co_await call.exchange.finish();
  } else {
    co_await pour(call, *source, range.size);
  }
  co_return {};
}

Task<Result<void>> download(Call& call) {
  CO_TRY(const auto file, co_await find_file(call));
  co_return co_await (file.size == 0 ? send_empty(call, file) : send_file(call, file));
}

}  // namespace

Task<> answer_download(Call& call) {
  const auto done = co_await download(call);
  if (done) co_return;
  if (is_gone(done.error())) {
    respond_gone(call.exchange, call.id());
  } else {
    respond_failure(call.exchange, done.error());
  }
}

}  // namespace pons::e2b
