#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"

// Tools that somebody else's server offers: what is taken of them, and whether they are still those
// that a person has accepted. A server that is trusted today may tell a model something else
// tomorrow.

namespace pons::mcp {

struct RemoteTool {
  std::string name;          // 1 to 64 letters, digits, '_', '-', '.'
  std::string description;   // without control characters
  std::string input_schema;  // JSON: a schema of an object
  std::string digest;        // SHA-256, in hexadecimal, of all that the server says of it
};
struct RefusedTool {
  std::string name;  // as far as it can be shown
  std::string why;
};
struct ToolList {
  std::vector<RemoteTool> tools;
  std::vector<RefusedTool> refused;
};

inline constexpr std::size_t kToolsMax = 256;
inline constexpr std::size_t kToolBytesMax = 64 * 1024;

// Adds the tools of one page: JSON, the value of "tools". A tool that is wrong is left out; a list
// that is too long is kLimit.
Result<void> add_tools(ToolList& list, std::string_view page);

// The tools of one server that a person has accepted, by name.
class ToolPins {
 public:
  ToolPins() = default;
  // {"name": "digest", …}
  static Result<ToolPins> read(std::string_view json);
  std::string write() const;

  void accept(const RemoteTool& tool) { digests_[tool.name] = tool.digest; }
  void forget(const std::string& name) { digests_.erase(name); }

  enum class Standing { kAccepted, kNew, kChanged };
  Standing standing_of(const RemoteTool& tool) const;
  // Accepted ones that the list does not have any more.
  std::vector<std::string> find_gone(const ToolList& list) const;

 private:
  std::map<std::string, std::string> digests_;
};

}  // namespace pons::mcp
