#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "pons/scan/needle_set.h"
#include "wiped.h"

namespace pons::scan {

// One way a needle can stand in the bytes.
struct Form {
  Encoding encoding = Encoding::kPlain;
  std::uint8_t preceding = 0;  // bytes before the needle in its group: 0–2 in base64, 0–4 in base32

  bool operator==(const Form&) const = default;
};

// Upper and lower case mean the same.
bool is_caseless(Encoding encoding);

// All forms that are looked for, the plain one first.
const std::vector<Form>& all_forms();

// The characters that are the same whatever stands around the text. Caseless ones in lower case.
// For UTF-16 the outer zero is left out, so that one form serves both byte orders.
WipedBytes encode(Form form, std::string_view text);

}  // namespace pons::scan
