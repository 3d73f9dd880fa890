#include "package_sources.h"

#include <algorithm>

#include "policy_rule.h"
#include "pons/base/text.h"

namespace pons::egress {
namespace {

std::string_view unquote(std::string_view text) {
  text = trim(text);
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
      text.back() == text.front())
    text = text.substr(1, text.size() - 2);
  return text;
}

struct Setting {
  std::string_view key;
  std::string_view value;
};

std::optional<Setting> read_setting(std::string_view line, char separator = '=') {
  const std::size_t at = line.find(separator);
  if (at == std::string_view::npos) return std::nullopt;
  return Setting{.key = unquote(line.substr(0, at)), .value = unquote(line.substr(at + 1))};
}

bool is_comment(std::string_view line) {
  return line.empty() || line.starts_with('#') || line.starts_with(';');
}

void add_words(std::string_view text, std::vector<std::string>& words) {
  while (!(text = trim(text)).empty()) {
    const std::size_t end = std::min(text.find_first_of(" \t\r\n"), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

void add_stanza(const std::vector<std::string>& urls, bool enabled, std::vector<std::string>& all) {
  if (enabled) all.insert(all.end(), urls.begin(), urls.end());
}

}  // namespace

void add_one_line_sources(std::string_view text, std::vector<std::string>& urls) {
  for (std::string_view line : split(text, '\n')) {
    line = trim(line.substr(0, line.find('#')));
    if (!line.starts_with("deb ") && !line.starts_with("deb\t")) continue;
    line = trim(line.substr(3));
    if (line.starts_with('['))
      line = trim(line.substr(std::min(line.find(']'), line.size() - 1) + 1));
    urls.emplace_back(line.substr(0, line.find_first_of(" \t")));
  }
}

void add_deb822_sources(std::string_view text, std::vector<std::string>& urls) {
  std::vector<std::string> stanza_urls;
  bool enabled = true;
  bool in_uris = false;
  const auto finish = [&] {
    add_stanza(stanza_urls, enabled, urls);
    stanza_urls.clear();
    enabled = true;
    in_uris = false;
  };
  for (const std::string_view line : split(text, '\n')) {
    if (trim(line).empty()) {
      finish();
    } else if (line.starts_with('#')) {
      continue;
    } else if (line.starts_with(' ') || line.starts_with('\t')) {
      if (in_uris) add_words(line, stanza_urls);
    } else if (const auto setting = read_setting(line, ':')) {
      in_uris = equal_ignoring_case(setting->key, "URIs");
      if (in_uris) add_words(setting->value, stanza_urls);
      if (equal_ignoring_case(setting->key, "Enabled") && equal_ignoring_case(setting->value, "no"))
        enabled = false;
    }
  }
  finish();
}

void read_npmrc(std::string_view text, Registries& registries) {
  for (const std::string_view raw : split(text, '\n')) {
    const std::string_view line = trim(raw);
    const auto setting = is_comment(line) ? std::nullopt : read_setting(line);
    if (!setting) continue;
    const bool is_default = setting->key == "registry";
    const bool is_scoped = setting->key.starts_with('@') && setting->key.ends_with(":registry");
    if (!is_default && !is_scoped) continue;
    registries.urls.emplace_back(setting->value);
    registries.replace_default |= is_default;
    if (is_default) registries.usual = setting->value;
  }
}

void read_pip_conf(std::string_view text, Registries& registries) {
  bool in_list = false;  // of extra-index-url, which may go on in indented lines
  for (const std::string_view raw : split(text, '\n')) {
    const std::string_view line = trim(raw);
    if (is_comment(line)) continue;
    const bool is_continued = raw.starts_with(' ') || raw.starts_with('\t');
    if (is_continued) {
      if (in_list) add_words(line, registries.urls);
      continue;
    }
    in_list = false;
    const auto setting = read_setting(line);
    if (!setting) continue;
    const bool is_default = setting->key == "index-url" || setting->key == "index_url";
    in_list = is_default || setting->key == "extra-index-url" || setting->key == "extra_index_url";
    if (in_list) add_words(setting->value, registries.urls);
    registries.replace_default |= is_default;
    if (is_default) registries.usual = setting->value;
  }
}

void read_cargo_config(std::string_view text, Registries& registries) {
  std::string_view section;
  for (const std::string_view raw : split(text, '\n')) {
    const std::string_view line = trim(raw);
    if (is_comment(line)) continue;
    if (line.starts_with('[')) {
      section = line.substr(1, line.find(']') == std::string_view::npos ? 0 : line.find(']') - 1);
      continue;
    }
    const auto setting = read_setting(line.substr(0, line.find(" #")));
    if (!setting) continue;
    const bool is_source = section.starts_with("source.");
    if ((is_source && setting->key == "registry") ||
        (section.starts_with("registries.") && setting->key == "index"))
      registries.urls.emplace_back(setting->value);
    if (section == "source.crates-io" && setting->key == "replace-with")
      registries.replace_default = true;
  }
}

namespace {

// The text in the quotes that open next, whichever kind they are.
std::string_view next_quoted(std::string_view& text) {
  const std::size_t open = text.find_first_of("\"'");
  if (open == std::string_view::npos) return text = {};
  const std::size_t close = text.find(text[open], open + 1);
  if (close == std::string_view::npos) return text = {};
  const std::string_view quoted = text.substr(open + 1, close - open - 1);
  text.remove_prefix(close + 1);
  return quoted;
}

}  // namespace

// define('registry', { default: 'https://…'
void read_npm_default(std::string_view text, std::vector<std::string>& urls) {
  const std::size_t definition = text.find("'registry', {");
  const std::size_t value = text.find("default:", definition);
  constexpr std::size_t kNear = 200;  // bytes: what stands further away is about something else
  if (definition == std::string_view::npos || value == std::string_view::npos ||
      value - definition > kNear)
    return;
  text.remove_prefix(value);
  urls.emplace_back(next_quoted(text));
}

// PyPI = PackageIndex("https://…", file_storage_domain="…")
void read_pip_default(std::string_view text, std::vector<std::string>& urls) {
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with("PyPI = PackageIndex(")) continue;
    std::string_view rest = line;
    urls.emplace_back(next_quoted(rest));
    if (const std::string_view files = next_quoted(rest); !files.empty())
      urls.push_back("https://" + std::string(files));
  }
}

std::optional<PackageHost> find_url_host(std::string_view url) {
  for (const std::string_view wrapping : {"sparse+", "registry+", "mirror+"})
    if (url.starts_with(wrapping)) url.remove_prefix(wrapping.size());
  const std::size_t colon = url.find("://");
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view scheme = url.substr(0, colon);
  const bool is_https = equal_ignoring_case(scheme, "https");
  if (!is_https && !equal_ignoring_case(scheme, "http")) return std::nullopt;

  std::string_view authority = url.substr(colon + 3);
  authority = authority.substr(0, authority.find_first_of("/?#"));
  if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos)
    authority.remove_prefix(at + 1);
  std::uint16_t port = is_https ? kHttpsPort : kHttpPort;
  const std::size_t port_colon = authority.rfind(':');
  if (port_colon != std::string_view::npos &&
      authority.find(']', port_colon) == std::string_view::npos) {
    const auto number = parse_decimal(authority.substr(port_colon + 1));
    if (!number || *number == 0 || *number > 65'535) return std::nullopt;
    port = static_cast<std::uint16_t>(*number);
    authority = authority.substr(0, port_colon);
  }
  auto host = parse_destination(authority);
  if (!host) return std::nullopt;
  return PackageHost{.host = std::move(*host), .port = port};
}

}  // namespace pons::egress
