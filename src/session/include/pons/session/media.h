#pragma once

#include <string_view>

#include "pons/base/result.h"

namespace pons::session {

// Whether models take these bytes as an "image" or a "document": a conversation with some that they
// do not take is refused by its provider for good. `data` is base64, or for "text/plain" the text.
// kInvalid says what is wrong with it.
Result<void> check_media(std::string_view kind, std::string_view media_type, std::string_view data);

}  // namespace pons::session
