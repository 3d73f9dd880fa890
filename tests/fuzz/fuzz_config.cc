#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pons/base/check.h"
#include "pons/base/text.h"
#include "pons/config/config.h"

// Promises for any file: loading ends, gives the same answer twice, and every issue names a place
// inside the text, in order, in words a terminal can show.

namespace {

using pons::config::ConfigIssue;

// Nothing of the machine: values that look like every kind of field, and one that is absent.
const pons::config::Substitution kSubstitution = {
    .environment = [](const std::string& name) -> std::optional<std::string> {
      if (name == "A") return "127.0.0.1:1";
      if (name == "S") return "hunter2hunter2";
      return std::nullopt;
    },
    .file = [](const std::string& path) -> pons::Result<std::string> {
      if (path.ends_with("s")) return std::string("hunter2hunter2\n");
      return pons::make_error(pons::ErrorCode::kNotFound, "open", "no such file");
    }};

void check_issues(const std::vector<ConfigIssue>& issues, std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const auto lines = pons::split(text, '\n');
  const bool names_the_secret = text.contains("hunter2");
  CHECK(issues.size() <= pons::config::kIssuesMax);
  std::pair last(0, 0);
  for (const ConfigIssue& issue : issues) {
    CHECK(issue.line >= 1 && static_cast<std::size_t>(issue.line) <= lines.size());
    const std::string_view line = lines[static_cast<std::size_t>(issue.line) - 1];
    CHECK(issue.column >= 1 && static_cast<std::size_t>(issue.column) <= line.size() + 1);
    CHECK(last <= std::pair(issue.line, issue.column));
    last = {issue.line, issue.column};
    CHECK(!issue.message.empty() && pons::is_valid_utf8(issue.message));
    CHECK(std::ranges::none_of(issue.message, [](char c) { return c >= 0 && c < 0x20; }));
    CHECK(names_the_secret || !issue.message.contains("hunter2"));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto first = pons::config::load_config_text(text, "pons.yaml", kSubstitution);
  const auto second = pons::config::load_config_text(text, "pons.yaml", kSubstitution);
  CHECK(first == second);
  if (first) return 0;
  CHECK(!first.error().empty());
  check_issues(first.error(), text);
  return 0;
}
