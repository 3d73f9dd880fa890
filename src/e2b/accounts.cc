#include "accounts.h"

#include <fmt/format.h>

#include <array>

#include "pons/base/text.h"

namespace pons::e2b {

namespace {

constexpr std::size_t kFileBytesMax = 1U << 20;
constexpr std::size_t kPathBytesMax = 4095;
constexpr std::uint64_t kNumberMax = UINT32_MAX;

// The first fields of "a:b:c", empty where there are fewer.
template <std::size_t kCount>
std::array<std::string_view, kCount> fields_of(std::string_view line) {
  std::array<std::string_view, kCount> fields;
  for (std::string_view& field : fields) {
    const std::size_t end = line.find(':');
    field = line.substr(0, end);
    line = end == std::string_view::npos ? std::string_view() : line.substr(end + 1);
  }
  return fields;
}

std::optional<std::uint32_t> number_of(std::string_view text) {
  const auto number = parse_decimal(text);
  if (!number || *number > kNumberMax) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

// What there is of it: a sandbox without the file, or with a huge one, has no names then.
Task<Result<std::string>> read_small_file(Call& call, std::string path) {
  auto source = co_await call.awake([&call, &path] {
    return call.provider.read_file(call.id(), path, "root", 0, kFileBytesMax);
  });
  std::string bytes;
  if (!source) {
    if (is_gone(source.error())) co_return std::move(source).error();
    co_return bytes;
  }
  while (bytes.size() < kFileBytesMax) {
    const auto piece = co_await (*source)->next();
    if (!piece || piece->empty()) break;
    bytes += *piece;
  }
  co_return bytes;
}

Task<Result<std::string>> find_home(Call& call) {
  CO_TRY(const auto passwd, co_await read_small_file(call, "/etc/passwd"));
  Accounts accounts;
  accounts.read_users(passwd);
  if (!call.user.empty()) {
    if (const auto* user = accounts.find_user(call.user)) co_return user->home;
    if (call.user == "root") co_return "/root";
    co_return make_error(ErrorCode::kInvalid, "find user",
                         fmt::format("there is no user \"{}\"", call.user));
  }
  // Whom the sandbox's files belong to by default is known to itself only: where it begins, and
  // whose that is.
  const auto look = [&call](std::string path) {
    return call.provider.stat_file(call.id(), std::move(path), "");
  };
  CO_TRY(const auto here, co_await call.awake([&look] { return look("."); }));
  if (const auto* user = accounts.find_user(here.uid)) {
    const auto home = co_await look(user->home);
    if (home && home->inode == here.inode) co_return user->home;
  }
  co_return "/";
}

}  // namespace

void Accounts::read_users(std::string_view passwd) {
  for (const std::string_view line : split(passwd, '\n')) {
    const auto [name, password, uid, gid, comment, home] = fields_of<6>(line);
    const auto number = number_of(uid);
    if (name.empty() || !number || !is_valid_utf8(name)) continue;
    names_.emplace(*number, name);
    users_.emplace(name, User{.name = std::string(name),
                              .uid = *number,
                              .home = home.starts_with('/') ? std::string(home) : "/"});
  }
}

void Accounts::read_groups(std::string_view group) {
  for (const std::string_view line : split(group, '\n')) {
    const auto [name, password, gid] = fields_of<3>(line);
    const auto number = number_of(gid);
    if (!name.empty() && number && is_valid_utf8(name)) groups_.emplace(*number, name);
  }
}

const Accounts::User* Accounts::find_user(std::string_view name) const {
  const auto found = users_.find(name);
  return found == users_.end() ? nullptr : &found->second;
}

const Accounts::User* Accounts::find_user(std::uint32_t uid) const {
  const auto name = names_.find(uid);
  return name == names_.end() ? nullptr : find_user(name->second);
}

std::string Accounts::owner_name(std::uint32_t uid) const {
  const auto name = names_.find(uid);
  return name == names_.end() ? fmt::format("{}", uid) : name->second;
}

std::string Accounts::group_name(std::uint32_t gid) const {
  const auto name = groups_.find(gid);
  return name == groups_.end() ? fmt::format("{}", gid) : name->second;
}

Task<Result<Accounts>> load_accounts(Call& call) {
  Accounts accounts;
  CO_TRY(const auto passwd, co_await read_small_file(call, "/etc/passwd"));
  CO_TRY(const auto group, co_await read_small_file(call, "/etc/group"));
  accounts.read_users(passwd);
  accounts.read_groups(group);
  co_return accounts;
}

bool needs_home(std::string_view path) {
  return !path.starts_with('/');
}

Result<std::string> resolve_below(std::string_view path, std::string_view home) {
  const auto invalid = [](std::string message) {
    return make_error(ErrorCode::kInvalid, "read path", std::move(message));
  };
  if (path.size() > kPathBytesMax || path.find('\0') != std::string_view::npos)
    return invalid("a path has at most 4095 bytes and no zero byte in it");
  std::string whole(path);
  if (path.starts_with('~')) {
    if (path.size() > 1 && path[1] != '/') return invalid("only \"~\" and \"~/\" are understood");
    whole = std::string(home) + "/" + std::string(path.substr(1));
  } else if (needs_home(path)) {
    whole = std::string(home) + "/" + whole;
  }
  std::vector<std::string_view> names;
  for (const std::string_view name : split(whole, '/')) {
    if (name.empty() || name == ".") continue;
    if (name != "..") {
      names.push_back(name);
    } else if (!names.empty()) {
      names.pop_back();
    }
  }
  std::string resolved;
  for (const std::string_view name : names) resolved.append("/").append(name);
  return resolved.empty() ? "/" : resolved;
}

Task<Result<std::string>> resolve_path(Call& call, std::string path) {
  if (!needs_home(path)) co_return resolve_below(path, "/");
  CO_TRY(const auto home, co_await find_home(call));
  co_return resolve_below(path, home);
}

}  // namespace pons::e2b
