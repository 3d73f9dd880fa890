#include "package_name.h"

#include <algorithm>

#include "pons/managed/package_set.h"

// Each manager reads more than names where a name stands: options, files, addresses of archives and
// repositories, "NAME-" for a removal. Only what is written here gets that far.

namespace pons::managed {

namespace {

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::string_view kDigits = "0123456789";

bool is_one_of(char c, std::string_view more) {
  return kLetters.find(c) != std::string_view::npos || kDigits.find(c) != std::string_view::npos ||
         more.find(c) != std::string_view::npos;
}

// Begins with a letter or digit; all others may be those, too, or one of `more`.
bool is_word(std::string_view text, std::string_view more) {
  return !text.empty() && is_one_of(text.front(), {}) &&
         std::ranges::all_of(text, [&](char c) { return is_one_of(c, more); });
}

bool consists_of(std::string_view text, std::string_view more) {
  return !text.empty() && std::ranges::all_of(text, [&](char c) { return is_one_of(c, more); });
}

// "NAME" or "NAME", the sign, and a version.
struct Parts {
  std::string_view name;
  std::string_view version;
  bool has_version = false;
};

Parts split_at(std::string_view text, char sign, std::size_t from = 0) {
  const std::size_t at = text.find(sign, from);
  if (at == std::string_view::npos) return {.name = text, .version = {}};
  return {.name = text.substr(0, at), .version = text.substr(at + 1), .has_version = true};
}

// "NAME:ARCHITECTURE=VERSION". Lower case, two characters at least; one that ends with "-" would be
// removed.
bool is_apt(std::string_view text) {
  const Parts parts = split_at(text, '=');
  const Parts name = split_at(parts.name, ':');
  const bool is_lower =
      std::ranges::none_of(parts.name, [](char c) { return c >= 'A' && c <= 'Z'; });
  return is_lower && name.name.size() >= 2 && is_word(name.name, "+-.") &&
         !parts.name.ends_with('-') && (!name.has_version || is_word(name.version, "-")) &&
         (!parts.has_version || is_word(parts.version, ".+~:-"));
}

// "@SCOPE/NAME@RANGE"
bool is_npm(std::string_view text) {
  const bool is_scoped = text.starts_with('@');
  const Parts parts = split_at(text, '@', is_scoped ? 1 : 0);
  std::string_view name = parts.name;
  if (is_scoped) {
    const std::size_t slash = name.find('/');
    if (slash == std::string_view::npos || !is_word(name.substr(1, slash - 1), "._~-"))
      return false;
    name.remove_prefix(slash + 1);
  }
  return is_word(name, "._~-") && (!parts.has_version || consists_of(parts.version, ".+~^<>=*-"));
}

// "NAME[EXTRA,…]>=VERSION,…"
bool is_pip(std::string_view text) {
  const std::size_t end = std::min(text.find_first_of("[=<>!~"), text.size());
  if (!is_word(text.substr(0, end), "._-")) return false;
  text.remove_prefix(end);
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos || !is_word(text.substr(1, close - 1), "._,-"))
      return false;
    text.remove_prefix(close + 1);
  }
  if (text.empty()) return true;
  const std::size_t version = text.find_first_not_of("=<>!~");
  return version != 0 && version != std::string_view::npos &&
         consists_of(text.substr(version), ".*+!=<>~,-");
}

// "NAME@VERSION"
bool is_cargo(std::string_view text) {
  const Parts parts = split_at(text, '@');
  return is_word(parts.name, "_-") &&
         (!parts.has_version || consists_of(parts.version, ".+~^<>=*-"));
}

// "NAME:VERSION"
bool is_gem(std::string_view text) {
  const Parts parts = split_at(text, ':');
  return is_word(parts.name, "._-") && (!parts.has_version || is_word(parts.version, ".-"));
}

// "HOST/PATH@VERSION"
bool is_go(std::string_view text) {
  const Parts parts = split_at(text, '@');
  const std::size_t slash = parts.name.find('/');
  const bool is_module = slash != std::string_view::npos &&
                         parts.name.substr(0, slash).find('.') != std::string_view::npos &&
                         is_word(parts.name, "._~/-") && !parts.name.ends_with('/') &&
                         parts.name.find("//") == std::string_view::npos &&
                         parts.name.find("..") == std::string_view::npos;
  return is_module && (!parts.has_version || is_word(parts.version, ".+-"));
}

}  // namespace

bool is_package(std::string_view manager, std::string_view text) {
  if (text.size() > kPackageBytesMax) return false;
  if (manager == "apt") return is_apt(text);
  if (manager == "npm") return is_npm(text);
  if (manager == "pip") return is_pip(text);
  if (manager == "cargo") return is_cargo(text);
  if (manager == "gem") return is_gem(text);
  return manager == "go" && is_go(text);
}

}  // namespace pons::managed
