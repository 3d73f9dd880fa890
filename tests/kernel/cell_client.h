#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "forked.h"
#include "pons/cell/protocol.h"

namespace pons::cell {

// What a job left behind.
struct Outcome {
  Status status = Status::kDone;
  Step step = Step::kNone;
  int os_error = 0;
  JobState state = {};
  std::string output;
  std::string error;
};

struct Reply {
  ReplyHeader header = {};
  std::string payload;
};

struct JobOptions {
  std::vector<std::string> argv;
  std::string user;
  std::string directory;
  std::vector<std::string> environment;
  Start start = {};
};

// A connection to a cell, as the warden has it. Calls wait at most half a minute.
class CellClient {
 public:
  explicit CellClient(const std::string& socket_path);
  CellClient(const CellClient&) = delete;
  CellClient& operator=(const CellClient&) = delete;
  ~CellClient();

  bool is_connected() const { return socket_ >= 0; }
  // False when the cell took no more.
  bool send_raw(std::string_view message);
  std::uint64_t send(Op op, std::string_view job, std::string_view payload);
  // Empty when the connection ended or nothing came in time.
  std::optional<Reply> receive(std::uint64_t id, int timeout_ms = 30'000);
  Reply call(Op op, std::string_view job = {}, std::string_view payload = {});

  Reply claim(std::string_view user = "worker", std::string_view hostname = "cell-under-test",
              const std::vector<std::string>& environment = {}, std::uint32_t output_kib_max = 0);
  Reply start(std::string_view job, const JobOptions& options);
  // Starts it and reads until it has ended.
  Outcome run(std::string_view job, const JobOptions& options);
  Outcome run_line(std::string_view job, std::string line, std::string_view input = {});
  Outcome read_to_end(std::string_view job, Outcome so_far = {});
  Outcome read_once(std::string_view job, std::uint64_t output_offset, std::uint64_t error_offset,
                    std::uint32_t wait_ms = 0, std::uint32_t bytes_max = kMessageBytesMax);
  Reply write(std::string_view job, std::uint64_t offset, std::string_view bytes);
  Reply signal(std::string_view job, int number, Reach reach);
  std::vector<JobState> list();

 private:
  int socket_ = -1;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, Reply> arrived_;
};

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

Outcome outcome_of(const Reply& reply);

// The real program as PID 1 of its own pid, mount and uts namespaces, with a user "worker" (1000,
// also in group 2000) whose home is an empty directory.
class CellUnderTest {
 public:
  // With a first id, in a user namespace of 65536 ids from there on, like a real sandbox.
  // With a profile, the shell that waits is a login's, of a user who has it.
  explicit CellUnderTest(std::uint32_t first_id = 0, const char* profile = nullptr);
  CellUnderTest(const CellUnderTest&) = delete;
  CellUnderTest& operator=(const CellUnderTest&) = delete;
  ~CellUnderTest();

  const std::string& socket_path() const { return socket_path_; }
  const std::string& home() const { return home_; }
  pid_t pid() const { return pid_; }
  bool is_alive() const;
  // Memory that is this cell's alone; the program's own pages are shared by all cells.
  std::size_t private_kilobytes() const;
  std::size_t descriptors() const;

 private:
  [[noreturn]] void become_cell(int listener, int image, int mapped, bool login) const;
  void map_ids(std::uint32_t first_id) const;

  linux::ScratchDirectory scratch_;
  std::string socket_path_;
  std::string home_;
  pid_t pid_ = -1;
};

}  // namespace pons::cell
