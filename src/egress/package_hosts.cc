#include "pons/egress/package_hosts.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "package_sources.h"
#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/linux/fd.h"

namespace pons::egress {
namespace {

constexpr std::size_t kFileBytesMax = 1 << 20;
constexpr std::size_t kFilesMax = 256;
constexpr std::size_t kHostsMax = 64;

std::string read_if_there(const std::filesystem::path& path) {
  auto text = linux::read_file(path.string(), kFileBytesMax);
  return text ? std::move(*text) : std::string();
}

// apt reads the directory in order of names; the order of hosts does not matter to us.
std::vector<std::string> apt_urls(const std::filesystem::path& root) {
  const auto apt = root / "etc/apt";
  std::vector<std::string> urls;
  add_one_line_sources(read_if_there(apt / "sources.list"), urls);
  std::error_code error;
  std::size_t files = 0;
  for (std::filesystem::directory_iterator entry(apt / "sources.list.d", error), end;
       !error && entry != end && files < kFilesMax; entry.increment(error), ++files) {
    const auto& path = entry->path();
    if (path.extension() == ".list") add_one_line_sources(read_if_there(path), urls);
    if (path.extension() == ".sources") add_deb822_sources(read_if_there(path), urls);
  }
  return urls;
}

struct PackageTool {
  const char* word;
  std::vector<const char*> files;  // the machine's, then root's own
  RegistryReader read;
  // What the tool asks when nobody tells it otherwise stands in the tool itself.
  std::vector<const char*> programs;
  DefaultReader read_default;
};

const std::vector<PackageTool>& package_tools() {
  static const std::vector<PackageTool> kTools = {
      {.word = "npm",
       .files = {"etc/npmrc", "usr/etc/npmrc", "usr/local/etc/npmrc", "root/.npmrc"},
       .read = read_npmrc,
       .programs = {"usr/share/nodejs/@npmcli/config/lib/definitions/definitions.js",
                    "usr/share/nodejs/npm/lib/utils/config/definitions.js",
                    "usr/lib/node_modules/npm/node_modules/@npmcli/config/lib/definitions/"
                    "definitions.js"},
       .read_default = read_npm_default},
      {.word = "pip",
       .files = {"etc/pip.conf", "etc/xdg/pip/pip.conf", "root/.pip/pip.conf",
                 "root/.config/pip/pip.conf"},
       .read = read_pip_conf,
       .programs = {"usr/lib/python3/dist-packages/pip/_internal/models/index.py"},
       .read_default = read_pip_default},
      {.word = "cargo",
       .files = {"usr/local/cargo/config.toml", "root/.cargo/config", "root/.cargo/config.toml"},
       .read = read_cargo_config,
       .programs = {},
       .read_default = nullptr},
  };
  return kTools;
}

Registries registries_of(const PackageTool& tool, const std::filesystem::path& root) {
  Registries registries;
  for (const char* file : tool.files) tool.read(read_if_there(root / file), registries);
  return registries;
}

std::vector<std::string> urls_of(const PackageTool& tool, const std::filesystem::path& root) {
  Registries registries = registries_of(tool, root);
  if (!registries.replace_default)
    for (const char* program : tool.programs)
      tool.read_default(read_if_there(root / program), registries.urls);
  return std::move(registries.urls);
}

std::vector<PackageHost> hosts_of(const std::vector<std::string>& urls) {
  std::set<PackageHost> hosts;
  for (const std::string& url : urls) {
    const auto host = find_url_host(url);
    if (host && hosts.size() < kHostsMax) hosts.insert(*host);
  }
  return {hosts.begin(), hosts.end()};
}

}  // namespace

PackageHosts read_package_hosts(const std::string& root) {
  PackageHosts packages;
  packages["apt"] = hosts_of(apt_urls(root));
  for (const PackageTool& tool : package_tools())
    packages[tool.word] = hosts_of(urls_of(tool, root));
  return packages;
}

std::map<std::string, std::string> read_package_registries(const std::string& root) {
  std::map<std::string, std::string> registries;
  for (const PackageTool& tool : package_tools()) {
    std::string url = registries_of(tool, root).usual;
    if (!find_url_host(url) || url.find_first_of(" \t\r\n") != std::string::npos) continue;
    const std::size_t begin = url.find("://") + 3;
    const std::size_t at = url.substr(0, url.find_first_of("/?#", begin)).rfind('@');
    if (at != std::string::npos && at > begin) url.erase(begin, at + 1 - begin);
    registries[tool.word] = std::move(url);
  }
  return registries;
}

Json to_json(const PackageHosts& hosts) {
  Json json = Json::object();
  for (const auto& [word, list] : hosts) {
    Json texts = Json::array();
    for (const PackageHost& host : list)
      texts.push_back(fmt::format("{}:{}", to_text(host.host), host.port));
    json[word] = std::move(texts);
  }
  return json;
}

Result<PackageHosts> parse_package_hosts(const Json& json) {
  PackageHosts hosts;
  const auto wrong = make_error(ErrorCode::kInvalid, "read package hosts", "not host:port");
  if (!json.is_object()) return wrong;
  for (const auto& [word, list] : json.items()) {
    auto& out = hosts[word];
    if (!list.is_array()) return wrong;
    for (const Json& item : list) {
      if (!item.is_string()) return wrong;
      const auto text = item.get<std::string>();
      const auto colon = text.rfind(':');
      const auto port =
          colon == std::string::npos ? std::nullopt : parse_decimal(text.substr(colon + 1));
      if (!port || *port == 0 || *port > 65'535) return wrong;
      out.push_back(
          {TRY(parse_destination(text.substr(0, colon))), static_cast<std::uint16_t>(*port)});
    }
  }
  return hosts;
}

}  // namespace pons::egress
