#include "pons/names/resolver_settings.h"

#include <algorithm>
#include <filesystem>

#include "pons/base/text.h"
#include "pons/linux/fd.h"

namespace pons::names {
namespace {

constexpr std::size_t kNameserversMax = 3;
constexpr std::uint64_t kAttemptSecondsMax = 30;
constexpr std::uint64_t kAttemptsMax = 5;
constexpr std::size_t kHostsMax = 65'536;
constexpr std::size_t kAddressesPerHostMax = 16;
constexpr std::size_t kFileBytesMax = 8 << 20;

std::vector<std::string_view> split_words(std::string_view line) {
  line = line.substr(0, line.find_first_of("#;"));
  std::vector<std::string_view> words;
  while (!(line = trim(line)).empty()) {
    words.push_back(line.substr(0, line.find_first_of(" \t")));
    line.remove_prefix(words.back().size());
  }
  return words;
}

void read_option(std::string_view option, ResolverSettings& settings) {
  const std::size_t colon = option.find(':');
  if (colon == std::string_view::npos) return;
  const auto value = parse_decimal(option.substr(colon + 1));
  if (!value || *value == 0) return;
  if (option.starts_with("timeout:"))
    settings.attempt_time = std::chrono::seconds(std::min(*value, kAttemptSecondsMax));
  if (option.starts_with("attempts:"))
    settings.attempts = static_cast<unsigned>(std::min(*value, kAttemptsMax));
}

void read_resolv_conf(std::string_view text, ResolverSettings& settings) {
  for (const std::string_view line : split(text, '\n')) {
    const auto words = split_words(line);
    if (words.size() < 2) continue;
    if (words[0] == "nameserver" && settings.nameservers.size() < kNameserversMax)
      if (const auto address = IpAddress::parse(words[1]))
        settings.nameservers.push_back({.address = *address});
    if (words[0] == "options")
      for (std::size_t i = 1; i < words.size(); ++i) read_option(words[i], settings);
  }
  if (settings.nameservers.empty())
    settings.nameservers.push_back({.address = *IpAddress::parse("127.0.0.1")});
}

void read_hosts(std::string_view text, ResolverSettings& settings) {
  for (const std::string_view line : split(text, '\n')) {
    const auto words = split_words(line);
    const auto address = words.empty() ? std::nullopt : IpAddress::parse(words[0]);
    if (!address) continue;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const auto name = HostName::parse(words[i]);
      if (!name || settings.hosts.size() >= kHostsMax) continue;
      auto& addresses = settings.hosts[*name];
      if (addresses.size() < kAddressesPerHostMax) addresses.push_back(*address);
    }
  }
}

std::string read_if_there(const std::filesystem::path& path) {
  auto text = linux::read_file(path.string(), kFileBytesMax);
  return text ? std::move(*text) : std::string();
}

}  // namespace

ResolverSettings parse_resolver_settings(std::string_view resolv_conf, std::string_view hosts) {
  ResolverSettings settings;
  read_resolv_conf(resolv_conf, settings);
  read_hosts(hosts, settings);
  return settings;
}

ResolverSettings read_resolver_settings(const std::string& root) {
  const std::filesystem::path etc = std::filesystem::path(root) / "etc";
  return parse_resolver_settings(read_if_there(etc / "resolv.conf"), read_if_there(etc / "hosts"));
}

}  // namespace pons::names
