#include "direct_stream.h"

#include <array>
#include <utility>
#include <vector>

#include "pons/linux/unix_socket.h"
#include "postgres/backend_message.h"
#include "postgres/fault.h"
#include "postgres/frontend_message.h"

namespace pons::store {

namespace {

constexpr std::size_t kMessageBytesMax = 1 << 20;
constexpr Duration kStallMax = std::chrono::minutes(1);

Task<Result<void>> converse(http::Transport& stream, std::string words, TimePoint deadline) {
  iovec said = http::to_iovec(words);
  CO_TRY_VOID(co_await http::write_all(stream, {&said, 1}, kStallMax));
  postgres::BackendReader reader(kMessageBytesMax);
  std::vector<char> buffer(4096);
  for (;;) {
    CO_TRY(const auto message, reader.next());
    if (message && message->type == postgres::backend::kReady) co_return {};
    if (message && message->type == postgres::backend::kError) {
      CO_TRY(const auto fault, postgres::read_fault(message->body));
      co_return postgres::error_of(fault);
    }
    if (message) continue;
    CO_TRY(const auto got, co_await http::read_some(stream, buffer, deadline));
    if (got == 0)
      co_return make_error(ErrorCode::kUnavailable, "hear PostgreSQL", "it closed the connection");
    reader.feed({buffer.data(), got});
  }
}

}  // namespace

Task<Result<std::unique_ptr<http::Transport>>> open_directly(linux::Loop& loop, std::string path,
                                                             std::string user, std::string database,
                                                             TimePoint deadline) {
  auto socket = linux::connect_unix(path);
  if (!socket)
    co_return make_error(ErrorCode::kUnavailable, "connect to PostgreSQL",
                         socket.error().describe());
  CO_TRY(auto stream, http::create_plain_transport(loop, std::move(*socket)));
  const std::array<std::pair<std::string, std::string>, 2> parameters = {
      std::pair<std::string, std::string>{"user", std::move(user)},
      std::pair<std::string, std::string>{"database", std::move(database)}};
  std::string words;
  postgres::write_startup(parameters, words);
  CO_TRY_VOID(co_await converse(*stream, std::move(words), deadline));
  co_return std::move(stream);
}

Task<Result<void>> run_directly(http::Transport& stream, std::string sql) {
  std::string words;
  postgres::write_query(sql, words);
  return converse(stream, std::move(words), kNever);
}

}  // namespace pons::store
