#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"

// What a PostgreSQL server says, protocol 3.0: a letter, the length, and as many bytes. Nothing in
// it is believed before it was checked; what breaks the protocol is kInvalid, and ends the
// connection.

namespace pons::store::postgres {

struct BackendMessage {
  char type = 0;
  std::string_view body;  // until the reader is fed again
};

// The letters.
namespace backend {
inline constexpr char kAuthentication = 'R';
inline constexpr char kKeyData = 'K';
inline constexpr char kParameterStatus = 'S';
inline constexpr char kReady = 'Z';
inline constexpr char kError = 'E';
inline constexpr char kNotice = 'N';
inline constexpr char kNotification = 'A';
inline constexpr char kParseComplete = '1';
inline constexpr char kBindComplete = '2';
inline constexpr char kCloseComplete = '3';
inline constexpr char kParameters = 't';
inline constexpr char kRowDescription = 'T';
inline constexpr char kNoData = 'n';
inline constexpr char kDataRow = 'D';
inline constexpr char kCommandComplete = 'C';
inline constexpr char kPortalSuspended = 's';
inline constexpr char kEmptyQuery = 'I';
}  // namespace backend

// Cuts the stream into messages.
class BackendReader {
 public:
  explicit BackendReader(std::size_t message_bytes_max) : bytes_max_(message_bytes_max) {}

  void feed(std::string_view bytes);
  // Nothing: the next one is not whole yet. kLimit: it is longer than allowed.
  Result<std::optional<BackendMessage>> next();

 private:
  const std::size_t bytes_max_;
  std::string buffer_;
  std::size_t at_ = 0;
};

using TypeId = std::uint32_t;  // the server's number of a type

// Types of the columns of an answer.
Result<std::vector<TypeId>> read_row_description(std::string_view body);

// Nothing in place of a NULL.
using Columns = std::vector<std::optional<std::string_view>>;
Result<Columns> read_data_row(std::string_view body);

// Rows changed, of "INSERT 0 5", "UPDATE 5", "DELETE 5"; 0 for anything else.
Result<std::int64_t> read_changed(std::string_view body);

struct Fault {
  std::string severity;  // not translated: "ERROR", "FATAL", "PANIC"
  std::string state;     // five characters, such as "23505"
  std::string message;
};
Result<Fault> read_fault(std::string_view body);

struct Notification {
  std::string channel;
  std::string payload;
};
Result<Notification> read_notification(std::string_view body);

}  // namespace pons::store::postgres
