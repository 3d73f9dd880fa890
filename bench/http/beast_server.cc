// The same answer as server.cc by Boost.Beast with Asio coroutines: the peer of
// docs/decisions/0003.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <chrono>
#include <cstdlib>
#include <string>

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Stream =
    beast::basic_stream<asio::ip::tcp,
                        asio::use_awaitable_t<>::executor_with_default<asio::any_io_executor>>;

static asio::awaitable<void> serve(Stream stream, std::string body) {
  beast::flat_buffer buffer;
  try {
    for (;;) {
      stream.expires_after(std::chrono::seconds(30));
      http::request<http::string_body> request;
      co_await http::async_read(stream, buffer, request);
      http::response<http::string_body> response{http::status::ok, request.version()};
      response.set(http::field::date, "Sun, 06 Nov 1994 08:49:37 GMT");
      response.set(http::field::content_type, "application/json");
      response.keep_alive(request.keep_alive());
      response.body() = body;
      response.prepare_payload();
      co_await http::async_write(stream, response);
      if (!response.keep_alive()) break;
    }
  } catch (const std::exception&) {
    // The client left.
  }
}

static asio::awaitable<void> accept(asio::ip::tcp::acceptor acceptor, std::string body) {
  for (;;) {
    auto socket = co_await acceptor.async_accept(asio::use_awaitable);
    socket.set_option(asio::ip::tcp::no_delay(true));
    asio::co_spawn(acceptor.get_executor(), serve(Stream(std::move(socket)), body), asio::detached);
  }
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  asio::io_context context{1};
  asio::ip::tcp::acceptor acceptor(context, {asio::ip::make_address("127.0.0.1"),
                                             static_cast<unsigned short>(std::atoi(argv[1]))});
  asio::co_spawn(context, accept(std::move(acceptor), argv[2]), asio::detached);
  context.run();
}
