// The first byte picks what is read. Holds: bytes that were not sealed with the key never open; a
// clear text that is accepted is written and read again to the same one.

#include <cstdint>
#include <string>
#include <string_view>

#include "pons/base/check.h"
#include "pons/vault/sealed.h"
#include "vault_entry.h"

namespace {

using namespace pons::vault;

void check_sealed(std::string_view bytes) {
  static const pons::Secret kKey(std::string(kKeyBytes, 'k'));
  CHECK(!open_bytes(kKey, "NAME", bytes));
  const auto opened = open_bytes(kKey, "NAME", seal_bytes(kKey, "NAME", bytes));
  CHECK(bytes.size() > kSealedBytesMax - 64 || opened->reveal() == bytes);
}

void check_clear_text(std::string_view bytes) {
  const auto credential = decode_credential("NAME", bytes);
  if (!credential) return;
  const pons::Secret plain = encode_credential(*credential);
  const auto again = decode_credential("NAME", plain.reveal());
  CHECK(again.has_value());
  CHECK(encode_credential(*again).reveal() == plain.reveal());
  static const pons::Secret kKey(std::string(kKeyBytes, 's'));
  const std::string stub = make_stub(again->shape, kKey, {"box", "session", "NAME"});
  CHECK(stub.size() == again->shape.pattern.size());
}

void check_entry(std::string_view bytes) {
  const auto entry = decode_entry("vcrd_1", bytes);
  if (!entry) return;
  const pons::Secret plain = encode_entry(*entry);
  const auto again = decode_entry("vcrd_1", plain.reveal());
  CHECK(again.has_value());
  CHECK(encode_entry(*again).reveal() == plain.reveal());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] % 4 == 0)
    check_sealed(bytes);
  else if (data[0] % 4 == 1)
    check_entry(bytes);
  else
    check_clear_text(bytes);
  return 0;
}
