// Files joined into one: the joining part of files.h.

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>

#include "accounts.h"
#include "entry.h"
#include "failure.h"
#include "files.h"
#include "message.h"
#include "pons/base/json.h"

namespace pons::e2b {

namespace {

using sandbox::ByteSource;
using sandbox::FileKind;
using sandbox::WriteOptions;

constexpr std::size_t kRequestBytesMax = 1U << 20;
constexpr std::size_t kSourcesMax = 10'000;

// One file behind the other, each opened when its turn comes.
class JoinedFiles final : public ByteSource {
 public:
  JoinedFiles(Call& call, const std::vector<std::string>& paths)
      : call_(call), paths_(paths.begin(), paths.end()) {}

  Task<Result<std::string>> next() override {
    for (;;) {
      if (open_ == nullptr) {
        if (paths_.empty()) co_return std::string();
        CO_TRY(open_,
               co_await call_.provider.read_file(call_.id(), paths_.front(), kFileUser, 0, 0));
        paths_.pop_front();
      }
      CO_TRY(std::string piece, co_await open_->next());
      if (!piece.empty()) co_return piece;
      open_.reset();
    }
  }

 private:
  Call& call_;
  std::deque<std::string> paths_;
  std::unique_ptr<ByteSource> open_;
};

struct Wanted {
  std::vector<std::string> sources;
  std::string destination;
};

Task<Result<Wanted>> read_request(Call& call) {
  CO_TRY(const auto text, co_await call.exchange.read_whole_body(kRequestBytesMax));
  CO_TRY(const Json request, parse_json(text, {.bytes = kRequestBytesMax}));
  CO_TRY(const auto user, text_field(request, "username"));
  if (!user.empty()) call.user = user;
  Wanted wanted;
  CO_TRY(wanted.sources, list_field(request, "source_paths"));
  CO_TRY(wanted.destination, text_field(request, "destination"));
  if (wanted.destination.empty())
    co_return make_error(ErrorCode::kInvalid, "join files", "\"destination\" is missing");
  if (wanted.sources.empty() || wanted.sources.size() > kSourcesMax)
    co_return make_error(ErrorCode::kInvalid, "join files",
                         fmt::format("\"source_paths\" names 1 to {} files", kSourcesMax));
  co_return wanted;
}

// Before anything is written: what is missing leaves everything as it was.
Task<Result<std::string>> find_source(Call& call, std::string asked) {
  CO_TRY(const auto path, co_await resolve_path(call, std::move(asked)));
  CO_TRY(const auto info,
         co_await call.awake([&] { return call.provider.stat_file(call.id(), path, kFileUser); }));
  const auto end = opened(info);
  if (!end)
    co_return make_error(ErrorCode::kNotFound, "join files",
                         fmt::format("path '{}' does not exist", path));
  if (end->kind != FileKind::kFile)
    co_return make_error(ErrorCode::kInvalid, "join files",
                         fmt::format("path '{}' is no regular file", path));
  co_return path;
}

Task<Result<Json>> compose(Call& call) {
  CO_TRY(Wanted wanted, co_await read_request(call));
  for (std::string& source : wanted.sources) {
    CO_TRY(source, co_await find_source(call, std::move(source)));
  }
  CO_TRY(const auto place, co_await find_write_place(call, std::move(wanted.destination)));
  // Takes the place of what stands there when it is whole: that may be one of the sources.
  WriteOptions options{.mode = place.mode, .user = kFileUser};
  CO_TRY(options.owner, co_await owner_for(call));
  CO_TRY_VOID(co_await call.provider.write_file(
      call.id(), place.path, options, std::make_unique<JoinedFiles>(call, wanted.sources)));
  for (const std::string& source : wanted.sources) {
    if (source == place.path) continue;
    auto removed = co_await call.provider.remove_file(call.id(), source, kFileUser);
    // One that stands twice among them is gone already.
    if (!removed && removed.error().code != ErrorCode::kNotFound)
      co_return std::move(removed).error();
  }
  co_return Json{{"path", place.path}, {"name", last_name(place.path)}, {"type", "file"}};
}

}  // namespace

Task<> answer_compose(Call& call) {
  const auto entry = co_await compose(call);
  if (entry) {
    call.exchange.respond({.body = dump_json(*entry)});
  } else if (is_gone(entry.error())) {
    respond_gone(call.exchange, call.id());
  } else {
    respond_failure(call.exchange, entry.error());
  }
}

}  // namespace pons::e2b
