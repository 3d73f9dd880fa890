// Figures of TLS as egress uses it: signing a leaf, full and resumed handshakes, and a stream, with
// both ends in this process, each on a loop and a thread of its own. Prints one JSON object.

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "pons/base/check.h"
#include "pons/egress/leaf_cache.h"
#include "pons/egress/trust_files.h"
#include "pons/http/tls.h"
#include "pons/linux/fd.h"
#include "pons/linux/loop.h"
#include "pons/linux/tcp.h"

namespace {

using namespace pons;
using Seconds = std::chrono::duration<double>;

constexpr std::size_t kReadBytes = 64 * 1024;
constexpr std::chrono::seconds kPatience{30};

double cpu_seconds_of_thread() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](timeval time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

long resident_kilobytes() {
  std::ifstream file("/proc/self/statm");
  long total = 0;
  long resident = 0;
  file >> total >> resident;
  return resident * 4;
}

linux::UniqueFd dial(std::uint16_t port) {
  linux::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}, .sin_zero = {}};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  return socket;
}

// Says one byte, then reads to the end.
Task<> serve_one(linux::Loop& loop, linux::UniqueFd socket, http::TlsAccept how,
                 std::size_t& bytes_read) {
  auto accepted =
      co_await http::accept_tls(loop, std::move(socket), std::move(how), loop.now() + kPatience);
  if (!accepted) co_return;
  iovec byte = http::to_iovec("!");
  if (!co_await http::write_all(**accepted, {&byte, 1}, kPatience)) co_return;
  std::vector<char> into(kReadBytes);
  for (;;) {
    const auto got = co_await http::read_some(**accepted, into, loop.now() + kPatience);
    if (!got || *got == 0) co_return;
    bytes_read += *got;
  }
}

Task<> serve(linux::Loop& loop, int listener, http::TlsAccept how, std::size_t& bytes_read) {
  auto watch = std::move(*linux::Watch::create(loop, listener));
  linux::TaskGroup connections(loop);
  for (;;) {
    linux::UniqueFd socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket)
      connections.spawn(serve_one(loop, std::move(socket), how, bytes_read));
    else
      co_await watch.readable(kNever);
  }
}

// A server on a thread of its own, for as long as the object lives.
class Server {
 public:
  explicit Server(http::TlsAccept how) {
    loop_->spawn(serve(*loop_, listener_.get(), std::move(how), bytes_read_));
    thread_ = std::thread([this] {
      loop_->run();
      cpu_seconds_ = cpu_seconds_of_thread();
    });
  }
  std::uint16_t port() const {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    CHECK(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    return ntohs(address.sin_port);
  }
  double stop() {
    loop_->stop();
    thread_.join();
    return cpu_seconds_;
  }

 private:
  linux::UniqueFd listener_ = std::move(*linux::listen_tcp("127.0.0.1", 0));
  std::unique_ptr<linux::Loop> loop_ = std::move(*linux::Loop::create());
  std::size_t bytes_read_ = 0;
  double cpu_seconds_ = 0;
  std::thread thread_;
};

struct Work {
  std::uint16_t port = 0;
  http::TlsConnect how;
  int connections = 1;
  std::size_t bytes = 0;  // sent on each
  int resumed = 0;
};

Task<> drive(linux::Loop& loop, Work& work) {
  const std::vector<char> block(kReadBytes, 'b');
  for (int i = 0; i < work.connections; ++i) {
    auto connected =
        co_await http::connect_tls(loop, dial(work.port), work.how, loop.now() + kPatience);
    CHECK(connected.has_value());
    char byte;
    CHECK((co_await http::read_some(**connected, {&byte, 1}, loop.now() + kPatience)).has_value());
    if ((*connected)->was_resumed()) ++work.resumed;
    for (std::size_t sent = 0; sent < work.bytes; sent += block.size()) {
      iovec piece = http::to_iovec({block.data(), block.size()});
      CHECK((co_await http::write_all(**connected, {&piece, 1}, kPatience)).has_value());
    }
    CHECK((co_await http::finish_writing(**connected, kPatience)).has_value());
  }
  loop.stop();
}

double run_client(Work& work) {
  auto loop = std::move(*linux::Loop::create());
  const auto begin = std::chrono::steady_clock::now();
  loop->spawn(drive(*loop, work));
  loop->run();
  return Seconds(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  const int handshakes = quick ? 1000 : 5000;
  const int hosts = quick ? 10'000 : 100'000;
  const std::size_t stream_bytes = quick ? 512uz << 20 : 2048uz << 20;

  std::string directory = std::filesystem::temp_directory_path() / "pons-bench-tls-XXXXXX";
  CHECK(mkdtemp(directory.data()) != nullptr);
  const SystemClock clock;
  const auto authority = std::move(*egress::CertificateAuthority::open(directory, clock));
  const auto leaves = std::move(*egress::LeafCache::create(authority, clock));
  std::ofstream(directory + "/ca.pem") << authority.own_pem();

  for (int i = 0; i < 2000; ++i)
    CHECK(leaves->find_or_sign("warm" + std::to_string(i) + ".example"));
  const long resident_before = resident_kilobytes();
  const double begin = cpu_seconds_of_thread();
  for (int i = 0; i < hosts; ++i)
    CHECK(leaves->find_or_sign("host" + std::to_string(i) + ".example"));
  const double sign_seconds = (cpu_seconds_of_thread() - begin) / hosts;
  const long resident_growth = resident_kilobytes() - resident_before;

  const auto identity = *leaves->find_or_sign("api.example.com");
  const auto client = std::move(*http::TlsContext::create_client(directory + "/ca.pem"));
  Server bare({.context = std::move(*http::TlsContext::create_server()),
               .identity = identity,
               .first_bytes = {},
               .protocol = "http/1.1"});
  const http::TlsConnect connect{
      .context = client, .host = "api.example.com", .protocols = {"http/1.1"}};
  Work full{.port = bare.port(), .how = connect, .connections = handshakes};
  const double full_seconds = run_client(full);
  const double full_server_seconds = bare.stop();

  Server streaming({.context = std::move(*http::TlsContext::create_server()),
                    .identity = identity,
                    .first_bytes = {},
                    .protocol = "http/1.1"});
  Work stream{.port = streaming.port(), .how = connect, .connections = 1, .bytes = stream_bytes};
  const double stream_seconds = run_client(stream);
  const double stream_server_seconds = streaming.stop();
  std::filesystem::remove_all(directory);

  std::printf(
      "{\"sign_cpu_us\": %.1f, \"flood_hosts\": %d, \"flood_growth_kib\": %ld, "
      "\"handshakes_per_second\": %.0f, \"handshake_server_cpu_us\": %.0f, "
      "\"stream_mb_per_second\": %.0f, \"stream_receiver_mb_per_cpu_second\": %.0f}\n",
      sign_seconds * 1e6, hosts, resident_growth, handshakes / full_seconds,
      full_server_seconds / handshakes * 1e6,
      static_cast<double>(stream_bytes) / 1e6 / stream_seconds,
      static_cast<double>(stream_bytes) / 1e6 / stream_server_seconds);
  return 0;
}
