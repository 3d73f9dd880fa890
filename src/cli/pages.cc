#include "pages.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command.h"
#include "pons/http/query.h"

namespace pons::cli {

Result<Json> ask_whole(const std::string& state_dir, std::string_view process,
                       const std::string& target, const char* list) {
  constexpr std::size_t kObjectsMax = 100'000;
  const char separator = target.find('?') == std::string::npos ? '?' : '&';
  Json whole = TRY(ask(state_dir, process, "GET", target));
  Json& all = whole.at(list);
  while (!whole.at("next_page").is_null() && all.size() < kObjectsMax) {
    const auto page = whole.at("next_page").get<std::string>();
    Json more = TRY(ask(state_dir, process, "GET",
                        fmt::format("{}{}page={}", target, separator, http::percent_encode(page))));
    for (Json& each : more.at(list)) all.push_back(std::move(each));
    whole["next_page"] = std::move(more.at("next_page"));
  }
  return whole;
}

Result<std::vector<Json>> ask_pages(const std::string& state_dir, const std::string& target) {
  Json whole = TRY(ask_whole(state_dir, "brain", target, "data"));
  return whole.at("data").get<std::vector<Json>>();
}

}  // namespace pons::cli
