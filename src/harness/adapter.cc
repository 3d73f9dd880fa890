#include "pons/harness/adapter.h"

#include <array>

#include <fmt/format.h>

#include "adapters.h"

namespace pons::harness {

namespace {

struct Row {
  Protocol protocol;
  std::string_view name;
  std::unique_ptr<Adapter> (*create)(Wish);
};
constexpr std::array kRows = {
    Row{Protocol::kClaude, "claude", create_claude},
    Row{Protocol::kCodex, "codex", create_codex},
    Row{Protocol::kPi, "pi", create_pi},
    Row{Protocol::kAcp, "acp", create_acp},
};

}  // namespace

Result<Protocol> read_protocol(std::string_view word) {
  for (const Row& row : kRows)
    if (row.name == word) return row.protocol;
  return make_error(ErrorCode::kInvalid, "read protocol of harness",
                    fmt::format("'{}' is none; there are claude, codex, pi and acp", word));
}

std::string_view name_of(Protocol protocol) {
  for (const Row& row : kRows)
    if (row.protocol == protocol) return row.name;
  return "";
}

std::unique_ptr<Adapter> create_adapter(Protocol protocol, Wish wish) {
  for (const Row& row : kRows)
    if (row.protocol == protocol) return row.create(std::move(wish));
  return nullptr;
}

}  // namespace pons::harness
