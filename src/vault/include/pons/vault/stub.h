#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pons/base/json.h"
#include "pons/base/result.h"
#include "pons/base/secret.h"

// A stub stands for a credential's value inside a sandbox. It looks like the value to programs that
// check shapes, and says nothing of it but its shape: length, known prefix, the places of
// characters that are neither letters nor digits, and which kinds of letters and digits occur.

namespace pons::vault {

enum class StubStyle : std::uint8_t {
  kPlain,
  // Three base64url parts. The header (algorithm, key id) is the value's own; the payload is a JSON
  // object with one random text and no claims; the signature is random.
  kWebToken,
};

// Taken from a value once and kept over rotations, so that stubs which sandboxes hold stay good.
struct StubShape {
  StubStyle style = StubStyle::kPlain;
  std::string pattern;   // NUL where a random character goes, everything else as it stands
  std::string alphabet;  // what random characters are drawn from; unused with kWebToken

  double random_bits() const;
  bool operator==(const StubShape&) const = default;
};

inline constexpr double kStubBitsMin = 128;

// kInvalid when not even the widest alphabet gives the stub 128 random bits.
Result<StubShape> shape_of(std::string_view value);
Json to_json(const StubShape& shape);
Result<StubShape> parse_shape(const Json& json);

// Whose stub it is. The same three always give the same stub, in every process with the same key.
struct StubOwner {
  std::string_view sandbox;
  std::string_view session;
  std::string_view credential;
};

// `key`: 32 bytes, see Vault::stub_key(). Never equal to `value`.
std::string make_stub(const StubShape& shape, const Secret& key, const StubOwner& owner,
                      std::string_view value = {});

// What stands for a value where answers of a host are scrubbed without changing their length: the
// stub itself, when it has the value's shape. After a rotation it may not; then its letters and
// digits are laid out as the value's are.
std::string stand_in(std::string_view stub, std::string_view value);

}  // namespace pons::vault
