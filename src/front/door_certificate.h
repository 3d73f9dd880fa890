#pragma once

#include <memory>
#include <string_view>

#include "pons/base/result.h"
#include "pons/http/tls.h"

namespace pons::front {

// At a start there is no other certificate, and one that has ended still shows clients what is
// wrong. In place of one that works it is refused.
enum class OutOfDate : std::uint8_t { kWarned, kRefused };

// From what the supervisor hands over: {"certificate":PEM,"key":PEM}. The error says what is wrong
// with it and shows nothing of it.
Result<std::shared_ptr<http::TlsContext>> read_door_certificate(std::string_view document,
                                                                OutOfDate out_of_date);

inline constexpr std::size_t kDoorCertificateBytesMax = 512 * 1024;

}  // namespace pons::front
