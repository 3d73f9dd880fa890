#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "accounts.h"
#include "call.h"
#include "pons/base/json.h"
#include "pons/sandbox/provider.h"

namespace pons::e2b {

// Describes files of one sandbox in the protocol's words. Names of owners are looked up once.
class Describer {
 public:
  explicit Describer(Call& call) : call_(call) {}

  Task<Result<Json>> describe(sandbox::FileInfo info);
  // Of the file that stands there now.
  Task<Result<Json>> describe(std::string path);

 private:
  Task<Result<void>> ensure_accounts();

  Call& call_;
  std::optional<Accounts> accounts_;
};

// What it is to whoever opens it: of a link, what that leads to; nothing where it leads nowhere.
std::optional<sandbox::LinkEnd> opened(const sandbox::FileInfo& info);

// Files are used as root, as the original does: who holds the token can be root anyway. What is
// made becomes the caller's user's.
inline constexpr const char* kFileUser = "root";
Task<Result<std::string>> owner_for(Call& call);

// Words of a client about a file are kept as its extended attributes.
inline constexpr std::string_view kMetadataPrefix = "user.e2b.";
Json metadata_of(const std::map<std::string, std::string>& attributes);

std::string_view last_name(std::string_view path);
std::string parent_of(std::string_view path);
// "-rw-r--r--", "drwxr-xr-x", "Lrwxrwxrwx", "dtrwxrwxrwx", "urwxr-xr-x"
std::string permissions_text(const sandbox::FileInfo& info);
// RFC 3339 in UTC
std::string time_text(std::int64_t unix_ns);

}  // namespace pons::e2b
