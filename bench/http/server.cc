// A server of src/http with one route that answers 1 KB of JSON, on one thread: what `./dev bench
// http` measures.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "pons/http/router.h"
#include "pons/http/server.h"
#include "pons/linux/tcp.h"

namespace {

pons::Task<> answer(pons::http::Exchange& exchange, const std::string& body) {
  exchange.respond({.body = body});
  co_return;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: bench_http_server PORT BODY\n");
    return 2;
  }
  const std::string body = argv[2];
  auto loop = pons::linux::Loop::create();
  auto listener =
      pons::linux::listen_tcp("127.0.0.1", static_cast<std::uint16_t>(std::atoi(argv[1])));
  if (!loop || !listener) {
    fmt::print(stderr, "bench_http_server: {}\n",
               (loop ? listener.error() : loop.error()).describe());
    return 1;
  }
  pons::http::Server server(
      **loop, {},
      pons::http::route({
          {"GET", "/answer",
           [&](pons::http::Exchange& exchange, const pons::http::PathValues&) {
             return answer(exchange, body);
           }},
      }));
  if (auto listening = server.listen(std::move(*listener), "public"); !listening) return 1;
  (*loop)->run();
}
