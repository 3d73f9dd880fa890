#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/json.h"
#include "pons/base/result.h"
#include "pons/base/secret.h"
#include "pons/vault/binding.h"
#include "pons/vault/stub.h"

namespace pons::vault {

// How a value turns into authentication. Kinds that sign requests or refresh tokens add a member
// here and their words in kind_words of credential.cc.
enum class Kind : std::uint8_t { kStatic };
std::string_view to_string(Kind kind);

enum class Scrub : std::uint8_t { kOff, kOn };

struct Credential {
  std::string name;  // the environment variable that carries its stub
  Kind kind = Kind::kStatic;
  Secret value;
  Secret previous;  // after a rotation: still scrubbed, never sent
  std::int64_t previous_until_unix_ms = 0;
  TimePoint previous_until = kNever;  // the same, whatever becomes of the wall clock
  std::vector<Binding> bindings;
  StubShape shape;
  std::int64_t created_unix_ms = 0;
  std::int64_t rotated_unix_ms = 0;
  Scrub scrub = Scrub::kOn;

  // Why the copy exists: vaults replace a credential as a whole while requests hold the old one.
  Credential clone() const;
};

// [A-Z_][A-Z0-9_]{0,127}
bool is_credential_name(std::string_view name);
// Names of credentials that no sandbox is given a stub of begin with this.
inline constexpr std::string_view kNotForSandboxes = "_PONS_";
bool is_for_sandboxes(const Credential& credential);

// Refuses, with the reason, what cannot have a stub or would be found in innocent text: too short,
// too long, not printable ASCII, with space at an edge, repeated, guessable.
Result<void> check_value(std::string_view value);

// Every binding that covers the request, in the order they were declared.
std::vector<const Binding*> find_bindings(const Credential& credential, const Target& target);
// The first of them, or null.
const Binding* find_binding(const Credential& credential, const Target& target);
// Whether a connection to there may carry the credential at all.
bool is_bound_to(const Credential& credential, std::string_view host, std::uint16_t port);

// For people and programs: everything but values. `redacted` is what may be shown of the value.
Json metadata(const Credential& credential);

}  // namespace pons::vault
