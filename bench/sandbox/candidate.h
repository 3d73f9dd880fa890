#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace pons::bench {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::duration duration);
[[noreturn]] void fail(const std::string& what);

// Milliseconds since the beginning.
struct Taken {
  double first_byte = 0;
  double ended = 0;
};

// A command that makes a sandbox, runs `echo hi` in it and takes it down. "{id}" in a word becomes
// a number that was never used.
struct Peer {
  std::string name;
  std::vector<std::string> words;

  Taken run() const;
};

// One line per peer: its name and its words, separated by tabs.
std::vector<Peer> read_peers(const std::string& path);

struct Answer {
  int status = 0;
  std::string body;
  Clock::time_point first_output;  // of a job's lines
};

// One kept connection to the warden's socket.
class Warden {
 public:
  explicit Warden(const std::string& socket_path);
  ~Warden();
  Warden(const Warden&) = delete;
  Warden& operator=(const Warden&) = delete;

  Answer ask(std::string_view method, const std::string& target, std::string_view body);
  // The same, ending the program unless the status is a good one.
  Answer must(std::string_view method, const std::string& target, std::string_view body);

 private:
  int socket_ = -1;
};

struct Created {
  std::string id;
  bool is_warm = false;
};
enum class AfterJob { kKeep, kDestroy };
// Claim or create, the job, and the end of the job, in one request; what is kept is left for
// destroy_sandbox.
Taken run_in_new_sandbox(Warden& warden, const std::string& template_name, std::string_view job,
                         AfterJob after, Created& created);
void destroy_sandbox(Warden& warden, const std::string& id);

}  // namespace pons::bench
