#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "candidate.h"

namespace pons::bench {

namespace {

constexpr timeval kPatience{.tv_sec = 120, .tv_usec = 0};
constexpr std::size_t kAnswerBytesMax = 4 << 20;

// The bytes after the head when all of them are there.
bool is_whole(const std::string& answer, std::size_t head_end) {
  const std::string_view head(answer.data(), head_end);
  const std::string_view rest = std::string_view(answer).substr(head_end);
  if (head.find("Transfer-Encoding: chunked") != head.npos)
    return rest == "0\r\n\r\n" || rest.ends_with("\r\n0\r\n\r\n");
  const auto length = head.find("Content-Length: ");
  if (length == head.npos) return true;
  return rest.size() >= std::strtoul(answer.c_str() + length + 16, nullptr, 10);
}

}  // namespace

Warden::Warden(const std::string& socket_path) {
  socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  std::strncpy(address.sun_path, socket_path.c_str(), sizeof address.sun_path - 1);
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    fail("cannot reach the warden at " + socket_path);
}

Warden::~Warden() {
  close(socket_);
}

Answer Warden::ask(std::string_view method, const std::string& target, std::string_view body) {
  std::string request(method);
  request += " " + target + " HTTP/1.1\r\nHost: pons\r\nContent-Type: application/json\r\n";
  request += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  request += body;
  if (send(socket_, request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size()))
    fail("the warden takes no request");
  Answer answer;
  std::string bytes;
  char piece[16 * 1024];
  for (;;) {
    const ssize_t got = recv(socket_, piece, sizeof piece, 0);
    const auto now = Clock::now();
    if (got <= 0) fail("the warden's answer was cut: " + bytes);
    bytes.append(piece, static_cast<std::size_t>(got));
    if (bytes.size() > kAnswerBytesMax) fail("the warden's answer is too long");
    if (answer.first_output == Clock::time_point{} && bytes.find("{\"output\":{") != bytes.npos)
      answer.first_output = now;
    const auto head_end = bytes.find("\r\n\r\n");
    if (head_end == bytes.npos || !is_whole(bytes, head_end + 4)) continue;
    answer.status = std::atoi(bytes.c_str() + std::strlen("HTTP/1.1 "));
    answer.body = bytes.substr(head_end + 4);
    return answer;
  }
}

Answer Warden::must(std::string_view method, const std::string& target, std::string_view body) {
  Answer answer = ask(method, target, body);
  if (answer.status / 100 != 2)
    fail(std::string(method) + " " + target + " was answered by " + answer.body);
  return answer;
}

Taken run_in_new_sandbox(Warden& warden, const std::string& template_name, std::string_view job,
                         AfterJob after, Created& created) {
  const auto began = Clock::now();
  std::string body = "{\"sandbox\":{\"template\":\"" + template_name + "\"},\"job\":";
  body.append(job).append(after == AfterJob::kKeep ? ",\"keep\":true}" : "}");
  const Answer answer = warden.must("POST", "/run", body);
  if (answer.first_output == Clock::time_point{} ||
      answer.body.find("\"code\":0") == answer.body.npos)
    fail("the job went wrong: " + answer.body);
  const auto begin = answer.body.find("\"id\":\"") + 6;
  created = {.id = answer.body.substr(begin, answer.body.find('"', begin) - begin),
             .is_warm = answer.body.find("\"warm\":true") != answer.body.npos};
  return {.first_byte = milliseconds(answer.first_output - began),
          .ended = milliseconds(Clock::now() - began)};
}

void destroy_sandbox(Warden& warden, const std::string& id) {
  warden.must("DELETE", "/sandboxes/" + id, "");
}

}  // namespace pons::bench
