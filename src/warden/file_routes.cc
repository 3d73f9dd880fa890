#include <nlohmann/json.hpp>

#include "pons/base/text.h"
#include "pons/http/query.h"
#include "pons/sandbox/body_bytes.h"
#include "pons/sandbox/wire.h"
#include "route_words.h"
#include "routes.h"

namespace pons::warden {

namespace {

using namespace sandbox;

struct Place {
  std::string path;
  std::string user;
};

Result<Place> place_of(http::Exchange& exchange, const char* path = "path") {
  const std::string_view query = exchange.request().query();
  Place place;
  place.path = TRY(query_text(query, path));
  place.user = TRY(query_text(query, "user"));
  return place;
}

Result<std::uint32_t> mode_of(std::string_view query) {
  const std::string text = TRY(query_text(query, "mode"));
  std::uint32_t mode = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '7' || mode > 07777)
      return make_error(ErrorCode::kInvalid, "read query", "\"mode\" is octal, such as 0644");
    mode = mode * 8 + static_cast<std::uint32_t>(digit - '0');
  }
  return text.empty() ? 0644U : mode;
}

Result<std::map<std::string, std::string>> attributes_of(std::string_view query) {
  constexpr std::string_view kName = "attribute=";
  std::map<std::string, std::string> attributes;
  for (const std::string_view pair : split(query, '&')) {
    if (!pair.starts_with(kName)) continue;
    const auto text = http::percent_decode(pair.substr(kName.size()));
    const std::size_t equals = text ? text->find('=') : std::string::npos;
    if (equals == std::string::npos)
      return make_error(ErrorCode::kInvalid, "read query", "\"attribute\" is NAME=VALUE");
    attributes[text->substr(0, equals)] = text->substr(equals + 1);
  }
  return attributes;
}

Task<Result<void>> read_file(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto place, place_of(exchange));
  CO_TRY(const auto offset, query_number(exchange.request().query(), "offset", 0));
  CO_TRY(const auto size, query_number(exchange.request().query(), "size", 0));
  CO_TRY(const auto source,
         co_await provider.read_file(words[0], place.path, place.user, offset, size));
  if (!co_await exchange.start({.content_type = "application/octet-stream"})) co_return {};
  for (;;) {
    const auto piece = co_await source->next();
    if (!piece) {
      exchange.abort();
      co_return {};
    }
    if (piece->empty()) break;
    if (!co_await exchange.write(*piece)) co_return {};
  }
  (void)co_await exchange.finish();
  co_return {};
}

Task<Result<void>> write_file(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto place, place_of(exchange));
  const std::string_view query = exchange.request().query();
  WriteOptions options{.user = place.user};
  CO_TRY(options.mode, mode_of(query));
  CO_TRY(options.create_parents, query_flag(query, "parents", true));
  CO_TRY(options.append, query_flag(query, "append", false));
  CO_TRY(options.must_not_exist, query_flag(query, "exclusive", false));
  CO_TRY(options.in_place, query_flag(query, "in_place", false));
  CO_TRY(options.owner, query_text(query, "owner"));
  CO_TRY(options.attributes, attributes_of(query));
  CO_TRY(const auto info, co_await provider.write_file(words[0], place.path, options,
                                                       std::make_unique<BodyBytes>(exchange)));
  respond_json(exchange, 200, to_json(info));
  co_return {};
}

Task<Result<void>> remove_file(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto place, place_of(exchange));
  CO_TRY_VOID(co_await provider.remove_file(words[0], place.path, place.user));
  respond_empty(exchange);
  co_return {};
}

Task<Result<void>> stat_file(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto place, place_of(exchange));
  CO_TRY(const auto info, co_await provider.stat_file(words[0], place.path, place.user));
  respond_json(exchange, 200, to_json(info));
  co_return {};
}

Task<Result<void>> list_files(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto place, place_of(exchange));
  CO_TRY(const auto depth, query_number(exchange.request().query(), "depth", 1));
  if (depth > 1000)
    co_return make_error(ErrorCode::kInvalid, "list files", "depth is a number up to 1000");
  CO_TRY(const auto files, co_await provider.list_files(words[0], place.path, place.user,
                                                        static_cast<std::uint32_t>(depth)));
  Json list = Json::array();
  for (const FileInfo& file : files) list.push_back(to_json(file));
  respond_json(exchange, 200, {{"files", std::move(list)}});
  co_return {};
}

Task<Result<void>> make_directory(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto place, place_of(exchange));
  CO_TRY(const auto owner, query_text(exchange.request().query(), "owner"));
  CO_TRY(const auto info,
         co_await provider.make_directory(words[0], place.path, place.user, owner));
  respond_json(exchange, 200, to_json(info));
  co_return {};
}

Task<Result<void>> rename_file(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto from, place_of(exchange, "from"));
  CO_TRY(const auto to, place_of(exchange, "to"));
  CO_TRY(const auto info, co_await provider.rename_file(words[0], from.path, to.path, from.user));
  respond_json(exchange, 200, to_json(info));
  co_return {};
}

Task<Result<void>> watch_files(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto place, place_of(exchange));
  CO_TRY(const auto recursive, query_flag(exchange.request().query(), "recursive", false));
  CO_TRY(const auto changes,
         co_await provider.watch_files(words[0], place.path, place.user, recursive));
  if (!co_await exchange.start({.content_type = "application/x-ndjson"})) co_return {};
  // Sent at once, so that the client knows that it watches.
  if (!co_await exchange.write("\n")) co_return {};
  for (;;) {
    const auto change = co_await changes->next(exchange.loop().now() + kKeepAlive);
    if (!change && change.error().code != ErrorCode::kTimeout) {
      exchange.abort();
      co_return {};
    }
    if (!co_await exchange.write(change ? dump_json(to_json(*change)) + "\n" : "\n")) co_return {};
  }
}

}  // namespace

void append_file_routes(Provider& provider, std::vector<http::Route>& routes) {
  const auto add = [&](std::string_view method, std::string_view pattern, RouteWork work) {
    routes.push_back({method, pattern, handler_of(provider, work)});
  };
  add("GET", "/sandboxes/{id}/file", read_file);
  add("PUT", "/sandboxes/{id}/file", write_file);
  add("DELETE", "/sandboxes/{id}/file", remove_file);
  add("GET", "/sandboxes/{id}/stat", stat_file);
  add("GET", "/sandboxes/{id}/files", list_files);
  add("POST", "/sandboxes/{id}/directory", make_directory);
  add("POST", "/sandboxes/{id}/rename", rename_file);
  add("GET", "/sandboxes/{id}/changes", watch_files);
}

}  // namespace pons::warden
