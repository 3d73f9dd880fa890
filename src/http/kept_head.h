#pragma once

#include <string>
#include <string_view>

#include "pons/http/head.h"

namespace pons::http {

// The bytes of the head at hand, apart from the buffer that it came in: that one is free for others
// while the exchange goes on.
class KeptHead {
 public:
  // `bytes` are those that `head` was parsed from; it points to the copy afterwards.
  void keep(std::string_view bytes, RequestHead& head) {
    const Move move = copy(bytes, head);
    for (std::string_view* view : {&head.method, &head.target, &head.host}) move(*view);
  }
  void keep(std::string_view bytes, ResponseHead& head) { copy(bytes, head)(head.reason); }

  // For a connection that waits: what an ordinary head takes may stay.
  void rest() {
    constexpr std::size_t kOrdinaryBytes = 1024;
    if (bytes_.capacity() > kOrdinaryBytes) bytes_ = std::string();
  }

 private:
  struct Move {
    const char* from;
    const char* to;
    void operator()(std::string_view& view) const {
      if (!view.empty()) view = {to + (view.data() - from), view.size()};
    }
  };
  Move copy(std::string_view bytes, Head& head) {
    bytes_.assign(bytes);
    const Move move{bytes.data(), bytes_.data()};
    for (Field& field : head.fields) {
      move(field.name);
      move(field.value);
    }
    return move;
  }

  std::string bytes_;
};

}  // namespace pons::http
