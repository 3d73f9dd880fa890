// Whatever a server says: messages are cut and read within their bounds, however they arrive.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "pons/base/check.h"
#include "postgres/backend_message.h"
#include "postgres/fault.h"
#include "postgres/sql_shape.h"
#include "postgres/values.h"

namespace postgres = pons::store::postgres;

namespace {

void read_every_way(const postgres::BackendMessage& message) {
  (void)postgres::read_changed(message.body);
  (void)postgres::read_notification(message.body);
  if (const auto fault = postgres::read_fault(message.body)) {
    CHECK(fault->state.size() == 5);
    (void)postgres::error_of(*fault);
  }
  const auto types = postgres::read_row_description(message.body);
  if (types) CHECK(types->size() <= message.body.size());
  if (const auto columns = postgres::read_data_row(message.body)) {
    std::size_t bytes = 0;
    for (const auto& column : *columns)
      if (column) bytes += column->size();
    CHECK(bytes <= message.body.size());
    for (const postgres::TypeId type : {16, 17, 20, 21, 23, 25, 1700})
      (void)postgres::read_row(std::vector<postgres::TypeId>(columns->size(), type), message.body);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)postgres::read_shape({.sql = std::string(bytes), .values = {}});
  (void)postgres::rows_of_guard(bytes);
  constexpr std::size_t kMessageBytesMax = 4096;
  std::string whole;
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, size + 1}) {
    postgres::BackendReader reader(kMessageBytesMax);
    std::string seen;
    bool refused = false;
    for (std::size_t at = 0; at < size && !refused; at += piece) {
      reader.feed(bytes.substr(at, piece));
      for (;;) {
        const auto message = reader.next();
        refused = !message;
        if (refused || !*message) break;
        CHECK((*message)->body.size() < kMessageBytesMax);
        seen += (*message)->type;
        seen += (*message)->body;
        read_every_way(**message);
      }
    }
    if (piece == 1) whole = seen;
    CHECK(seen == whole);  // the pieces do not matter
  }
  return 0;
}
