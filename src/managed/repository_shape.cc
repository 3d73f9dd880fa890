#include "repository_shape.h"

#include <algorithm>

#include "mount_path.h"
#include "pons/base/text.h"

namespace pons::managed {

namespace {

constexpr std::string_view kHost = "https://github.com/";
constexpr std::string_view kSuffix = ".git";
constexpr TextLimits kUrl{.min = 1, .max = 512};
constexpr TextLimits kPath{.min = 1, .max = 1'024};
constexpr TextLimits kReference{.min = 1, .max = 255};

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Of an owner, a repository, or between the slashes of a branch.
bool is_name(std::string_view text) {
  return !text.empty() && text != "." && text != ".." && text.front() != '-' &&
         std::ranges::all_of(text, [](char c) {
           return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.';
         });
}

std::string_view without_suffix(std::string_view name) {
  if (name.ends_with(kSuffix)) name.remove_suffix(kSuffix.size());
  return name;
}

// The name of the repository.
Result<std::string> name_in(const JsonPlace& place, std::string_view url) {
  const Error wrong = place.refuse("is a URL such as https://github.com/owner/repository");
  if (!url.starts_with(kHost)) return wrong;
  const auto words = split(url.substr(kHost.size()), '/');
  if (words.size() != 2 || !is_name(words[0]) || !is_name(without_suffix(words[1]))) return wrong;
  return std::string(without_suffix(words[1]));
}

bool is_branch(std::string_view name) {
  return std::ranges::all_of(split(name, '/'), is_name) && name.find("..") == std::string::npos &&
         !name.ends_with(".lock") && !name.ends_with('.');
}

bool is_digest(std::string_view text) {
  return (text.size() == 40 || text.size() == 64) && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

Result<Json> read_checkout(const JsonPlace& place) {
  if (TRY(type_of(place, {"branch", "commit"})) == "branch") {
    TRY_VOID(place.expect_object({"type", "name"}));
    const std::string name = TRY(needed_text(place, "name", kReference));
    if (!is_branch(name)) return place.at("name").refuse("is no name of a branch");
    return Json{{"type", "branch"}, {"name", name}};
  }
  TRY_VOID(place.expect_object({"type", "sha"}));
  const std::string digest = TRY(needed_text(place, "sha", kReference));
  if (!is_digest(digest))
    return place.at("sha").refuse("is the full SHA of a commit, in lowercase");
  return Json{{"type", "commit"}, {"sha", digest}};
}

}  // namespace

Result<Json> read_repository(const JsonPlace& place) {
  TRY_VOID(place.expect_object({"type", "url", "authorization_token", "checkout", "mount_path"}));
  if (has_value(place, "authorization_token"))
    return place.at("authorization_token")
        .refuse(
            "tokens are kept in vaults: make an environment_variable GITHUB_TOKEN for "
            "github.com, and name its vault in vault_ids");
  const std::string url = TRY(needed_text(place, "url", kUrl));
  const std::string name = TRY(name_in(place.at("url"), url));
  const auto path = TRY(optional_text(place, "mount_path", kPath));
  const std::string mounted = path.value_or("/workspace/" + name);
  TRY_VOID(check_mount_path(place.at(path ? "mount_path" : "url"), mounted));
  Json checkout = nullptr;
  if (has_value(place, "checkout")) checkout = TRY(read_checkout(place.at("checkout")));
  return Json{{"type", "github_repository"},
              {"url", url},
              {"checkout", std::move(checkout)},
              {"mount_path", mounted}};
}

Repository repository_of(const Json& resource) {
  Repository repository{.url = resource.at("url").get<std::string>()};
  const Json& checkout = resource.at("checkout");
  if (checkout.is_null()) return repository;
  if (checkout.at("type") == "branch")
    repository.branch = checkout.at("name").get<std::string>();
  else
    repository.commit = checkout.at("sha").get<std::string>();
  return repository;
}

}  // namespace pons::managed
