#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "call.h"

namespace pons::e2b {

// Users and groups of a sandbox, by its own files: hostile, possibly missing, taken as far as they
// make sense.
class Accounts {
 public:
  struct User {
    std::string name;
    std::uint32_t uid = 0;
    std::string home;
  };

  void read_users(std::string_view passwd);
  void read_groups(std::string_view group);

  const User* find_user(std::string_view name) const;
  const User* find_user(std::uint32_t uid) const;
  // The number itself where there is no name.
  std::string owner_name(std::uint32_t uid) const;
  std::string group_name(std::uint32_t gid) const;

 private:
  std::map<std::string, User, std::less<>> users_;
  std::map<std::uint32_t, std::string> names_;
  std::map<std::uint32_t, std::string> groups_;
};

Task<Result<Accounts>> load_accounts(Call& call);

// The path as the sandbox knows it: absolute, without "." and "..". "~" and relative paths begin at
// the home of the caller's user.
Task<Result<std::string>> resolve_path(Call& call, std::string path);

// Without I/O: `home` is for paths that need one.
bool needs_home(std::string_view path);
Result<std::string> resolve_below(std::string_view path, std::string_view home);

}  // namespace pons::e2b
