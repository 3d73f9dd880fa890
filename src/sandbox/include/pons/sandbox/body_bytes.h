#pragma once

#include <string_view>

#include "pons/http/exchange.h"
#include "pons/sandbox/provider.h"

namespace pons::sandbox {

// The body of a request as bytes for a file, as they come and no faster than they are taken.
class BodyBytes final : public ByteSource {
 public:
  explicit BodyBytes(http::Exchange& exchange) : exchange_(exchange) {}
  Task<Result<std::string>> next() override {
    constexpr std::size_t kPieceBytes = 256 * 1024;
    if (rest_.empty()) {
      CO_TRY(rest_, co_await exchange_.read_body());
    }
    std::string piece(rest_.substr(0, kPieceBytes));
    rest_.remove_prefix(piece.size());
    co_return piece;
  }

 private:
  http::Exchange& exchange_;
  std::string_view rest_;
};

}  // namespace pons::sandbox
