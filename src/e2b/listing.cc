#include "listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ranges>

#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/http/query.h"
#include "shapes.h"

namespace pons::e2b {

namespace {

constexpr std::uint64_t kPageMax = 100;

Error wrong(std::string message) {
  return make_error(ErrorCode::kInvalid, "read query", std::move(message));
}

using Texts = std::map<std::string, std::string>;

// The SDKs encode names and values, then the pairs, then the whole: three times in all.
Result<Texts> read_metadata(const std::string& decoded_once) {
  Texts wanted;
  const auto pairs = http::percent_decode(decoded_once);
  if (!pairs) return wrong("metadata is not percent-encoded");
  for (const std::string_view pair : split(*pairs, '&')) {
    if (pair.empty()) continue;
    const auto equals = pair.find('=');
    if (equals == std::string_view::npos) return wrong("metadata is name=value");
    const auto name = http::percent_decode(pair.substr(0, equals));
    const auto value = http::percent_decode(pair.substr(equals + 1));
    if (!name || !value) return wrong("metadata is not percent-encoded");
    wanted[*name] = *value;
  }
  return wanted;
}

bool has_metadata(const sandbox::SandboxInfo& info, const Texts& wanted) {
  const auto json = parse_json(read_particulars(info).metadata);
  if (!json || !json->is_object()) return wanted.empty();
  return std::ranges::all_of(wanted, [&](const auto& pair) {
    const auto found = json->find(pair.first);
    return found != json->end() && *found == Json(pair.second);
  });
}

struct Filter {
  Texts metadata;
  bool running = true;
  bool paused = true;
  std::string template_id;
  std::int64_t started_after = 0;  // or at that time

  bool takes(const sandbox::SandboxInfo& info) const {
    if (info.state == sandbox::State::kEnded) return false;
    if (info.created_unix_ms < started_after) return false;
    if (!(info.state == sandbox::State::kPaused ? paused : running)) return false;
    if (!template_id.empty() && read_particulars(info).template_id != template_id &&
        read_particulars(info).template_id + ":default" != template_id)
      return false;
    return has_metadata(info, metadata);
  }
};

// "state=running,paused", or the field once for each.
Result<void> read_states(std::string_view query, Filter& filter) {
  bool named = false;
  Filter only{.running = false, .paused = false};
  for (const std::string_view pair : split(query, '&')) {
    if (!pair.starts_with("state=")) continue;
    named = true;
    const auto words = http::percent_decode(pair.substr(6)).value_or("");
    for (const std::string_view word : split(words, ',')) {
      if (word != "running" && word != "paused") return wrong("state is running or paused");
      only.running |= word == "running";
      only.paused |= word == "paused";
    }
  }
  if (!named) return {};
  filter.running = only.running;
  filter.paused = only.paused;
  return {};
}

Result<bool> read_ascending(std::string_view query) {
  const std::string order = TRY(http::find_query(query, "order")).value_or("desc");
  if (order != "asc" && order != "desc") return wrong("order is asc or desc");
  return order == "asc";
}

Place place_of(const sandbox::SandboxInfo& info) {
  return {.created_unix_ms = info.created_unix_ms, .id = info.id};
}

std::string cursor_of(const Place& place) {
  return fmt::format("{}.{}", place.created_unix_ms, place.id);
}

// Behind which the page begins; nothing for the first one.
Result<std::optional<Place>> read_cursor(std::string_view query) {
  const auto text = TRY(http::find_query(query, "nextToken"));
  if (!text || text->empty()) return std::optional<Place>();
  const auto dot = text->find('.');
  const auto created = parse_decimal(std::string_view(*text).substr(0, dot));
  if (!created || dot == std::string::npos) return wrong("nextToken is none of ours");
  return std::optional(
      Place{.created_unix_ms = static_cast<std::int64_t>(*created), .id = text->substr(dot + 1)});
}

Result<std::size_t> read_limit(std::string_view query) {
  const auto limit = parse_decimal(TRY(http::find_query(query, "limit")).value_or("100"));
  if (!limit || *limit == 0) return wrong("limit is a number from 1 to 100");
  return std::min(*limit, kPageMax);
}

}  // namespace

Result<http::Response> page_response(std::map<Place, Json, std::greater<>> things,
                                     std::string_view query) {
  const std::size_t page_max = TRY(read_limit(query));
  const auto last = TRY(read_cursor(query));
  Json page = Json::array();
  auto at = last ? things.upper_bound(*last) : things.begin();
  std::string next;
  for (; at != things.end() && page.size() < page_max; ++at) {
    next = cursor_of(at->first);
    page.push_back(std::move(at->second));
  }
  http::Response response = json_response(200, page);
  if (at != things.end()) response.fields = {{"x-next-token", next}};
  return response;
}

Result<Page> select_page(std::vector<sandbox::SandboxInfo> all, std::string_view project,
                         std::string_view query, States unless_named) {
  Filter filter{.paused = unless_named == States::kRunningAndPaused};
  const auto metadata = TRY(http::find_query(query, "metadata"));
  filter.metadata = TRY(read_metadata(metadata.value_or("")));
  filter.template_id = TRY(http::find_query(query, "template")).value_or("");
  if (const auto after = TRY(http::find_query(query, "startedAfter"))) {
    const auto time = parse_rfc3339(*after);
    if (!time) return wrong("startedAfter is a time like 2026-01-31T23:59:59Z");
    filter.started_after = *time;
  }
  TRY_VOID(read_states(query, filter));
  const bool ascending = TRY(read_ascending(query));
  const std::size_t page_max = TRY(read_limit(query));

  std::erase_if(all, [&](const sandbox::SandboxInfo& info) {
    const auto access = read_labels(info);
    return !access || access->project != project || !filter.takes(info);
  });
  Page page;
  page.running = static_cast<std::size_t>(
      std::ranges::count(all, sandbox::State::kRunning, &sandbox::SandboxInfo::state));
  const auto before = [&](const Place& a, const Place& b) { return ascending ? a < b : b < a; };
  std::ranges::sort(all, before, place_of);
  if (const auto last = TRY(read_cursor(query)))
    all.erase(all.begin(), std::ranges::upper_bound(all, *last, before, place_of));
  if (all.size() > page_max) {
    page.next = cursor_of(place_of(all[page_max - 1]));
    all.resize(page_max);
  }
  page.sandboxes = std::move(all);
  return page;
}

}  // namespace pons::e2b
