#include "pons/database/address.h"

#include <algorithm>
#include <array>
#include <memory>

#include <fmt/format.h>

#include "client_library.h"
#include "pons/base/text.h"

namespace pons::database {

namespace {

constexpr std::size_t kUrlBytesMax = 2'000;
constexpr std::size_t kHostsMax = 8;

Error refuse(std::string message) {
  return make_error(ErrorCode::kInvalid, "read database URL", std::move(message));
}

// What a URL may say. Whatever else libpq knows names files, programs or secrets.
constexpr std::array<std::string_view, 9> kAllowed = {"host",
                                                      "port",
                                                      "user",
                                                      "dbname",
                                                      "sslmode",
                                                      "target_session_attrs",
                                                      "options",
                                                      "connect_timeout",
                                                      "application_name"};

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

Result<std::map<std::string, std::string>> split_url(const std::string& url) {
  const ClientLibrary* const library = TRY(client_library());
  char* why = nullptr;
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> all(
      library->conninfo_parse(url.c_str(), &why), library->conninfo_free);
  const std::unique_ptr<char, decltype(&PQfreemem)> message(why, library->free_memory);
  // Its words may quote the URL, and a password in it.
  if (all == nullptr) return refuse("it is none that PostgreSQL's library can read");
  std::map<std::string, std::string> options;
  for (const PQconninfoOption* option = all.get(); option->keyword != nullptr; ++option) {
    if (option->val == nullptr || *option->val == '\0') continue;
    const std::string_view name = option->keyword;
    if (name == "password")
      return refuse("it holds a password; take it out, and name a file or a variable that has it");
    if (std::ranges::find(kAllowed, name) == kAllowed.end())
      return refuse(fmt::format("\"{}\" cannot be set here", name));
    options.emplace(name, option->val);
  }
  return options;
}

Result<std::vector<std::string>> hosts_of(const std::map<std::string, std::string>& options) {
  const auto host = options.find("host");
  if (host == options.end()) return refuse("it names no host");
  std::vector<std::string> hosts;
  for (const std::string_view one : split(host->second, ',')) {
    if (one.empty() || one[0] == '/' || one[0] == '@')
      return refuse("a host is a name or an address: sockets in the file system are not reached");
    hosts.emplace_back(one);
  }
  if (hosts.size() > kHostsMax) return refuse(fmt::format("at most {} hosts", kHostsMax));
  return hosts;
}

}  // namespace

Result<Address> Address::parse(std::string_view url) {
  if (!url.starts_with("postgres://") && !url.starts_with("postgresql://"))
    return refuse("it must begin with postgres://");
  if (url.size() > kUrlBytesMax || url.find('\0') != std::string_view::npos)
    return refuse("it is too long");
  Address address;
  address.options = TRY(split_url(std::string(url)));
  address.hosts = TRY(hosts_of(address.options));
  for (const char* needed : {"user", "dbname"})
    if (!address.options.contains(needed))
      return refuse("write postgres://USER@HOST/NAME: it lacks a user or the database's name");
  const bool stays_here = std::ranges::all_of(address.hosts, is_loopback);
  // What libpq does without a word, to try TLS and go on without, protects nobody.
  if (!address.options.contains("sslmode"))
    address.options["sslmode"] = stays_here ? "prefer" : "verify-full";
  if (!address.options.contains("target_session_attrs"))
    address.options["target_session_attrs"] = "read-write";
  address.shown =
      fmt::format("postgres://{}/{}", fmt::join(address.hosts, ","), address.options["dbname"]);
  return address;
}

}  // namespace pons::database
