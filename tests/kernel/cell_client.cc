#include "cell_client.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <fstream>

#include "pons/cell/image.h"

namespace pons::cell {
namespace {

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

std::string header_for(Op op, std::uint64_t id, std::string_view job) {
  RequestHeader header = {.magic = kMagic, .version = kVersion, .op = op, .id = id, .job = {}};
  job.copy(header.job, sizeof header.job);
  return bytes_of(header);
}

void add_string(std::string* payload, std::string_view string) {
  payload->append(string);
  payload->push_back('\0');
}

}  // namespace

Outcome outcome_of(const Reply& reply) {
  Outcome outcome{.status = reply.header.status,
                  .step = reply.header.step,
                  .os_error = reply.header.os_error,
                  .state = {},
                  .output = {},
                  .error = {}};
  ReadReply read;
  if (outcome.status != Status::kDone || reply.payload.size() < sizeof read) return outcome;
  std::memcpy(&read, reply.payload.data(), sizeof read);
  outcome.state = read.state;
  outcome.output = reply.payload.substr(sizeof read, read.output_size);
  outcome.error = reply.payload.substr(sizeof read + read.output_size, read.error_size);
  return outcome;
}

CellClient::CellClient(const std::string& socket_path) {
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const sockaddr_un address = address_of(socket_path);
  if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    socket_ = socket;
  } else {
    close(socket);
  }
}

CellClient::~CellClient() {
  if (socket_ >= 0) close(socket_);
}

bool CellClient::send_raw(std::string_view message) {
  pollfd entry{.fd = socket_, .events = POLLOUT, .revents = 0};
  if (poll(&entry, 1, 5'000) != 1) return false;
  return ::send(socket_, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

std::uint64_t CellClient::send(Op op, std::string_view job, std::string_view payload) {
  const std::uint64_t id = next_id_++;
  send_raw(header_for(op, id, job).append(payload));
  return id;
}

std::optional<Reply> CellClient::receive(std::uint64_t id, int timeout_ms) {
  std::string buffer(kMessageBytesMax + 1, '\0');
  while (!arrived_.contains(id)) {
    pollfd entry{.fd = socket_, .events = POLLIN, .revents = 0};
    if (poll(&entry, 1, timeout_ms) != 1) return std::nullopt;
    const ssize_t size = recv(socket_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size < static_cast<ssize_t>(sizeof(ReplyHeader))) return std::nullopt;
    Reply reply;
    std::memcpy(&reply.header, buffer.data(), sizeof reply.header);
    reply.payload.assign(buffer, sizeof reply.header,
                         static_cast<std::size_t>(size) - sizeof reply.header);
    arrived_[reply.header.id] = std::move(reply);
  }
  Reply reply = std::move(arrived_[id]);
  arrived_.erase(id);
  return reply;
}

Reply CellClient::call(Op op, std::string_view job, std::string_view payload) {
  const auto reply = receive(send(op, job, payload));
  if (!reply) {
    ADD_FAILURE() << "no answer to operation " << static_cast<int>(op) << " on job " << job;
    return Reply{.header = {.status = Status{0xFFFF}}, .payload = {}};
  }
  return *reply;
}

Reply CellClient::claim(std::string_view user, std::string_view hostname,
                        const std::vector<std::string>& environment, std::uint32_t output_kib_max) {
  std::string payload =
      bytes_of(Claim{.environment_count = static_cast<std::uint32_t>(environment.size()),
                     .output_kib_max = output_kib_max});
  add_string(&payload, hostname);
  add_string(&payload, user);
  add_string(&payload, "");
  for (const auto& one : environment) add_string(&payload, one);
  return call(Op::kClaim, {}, payload);
}

Reply CellClient::start(std::string_view job, const JobOptions& options) {
  Start start = options.start;
  start.argument_count = static_cast<std::uint32_t>(options.argv.size());
  start.environment_count = static_cast<std::uint32_t>(options.environment.size());
  std::string payload = bytes_of(start);
  add_string(&payload, options.user);
  add_string(&payload, options.directory);
  for (const auto& one : options.argv) add_string(&payload, one);
  for (const auto& one : options.environment) add_string(&payload, one);
  return call(Op::kStart, job, payload);
}

Outcome CellClient::run(std::string_view job, const JobOptions& options) {
  const Outcome begin = outcome_of(start(job, options));
  if (begin.status != Status::kDone) return begin;
  return read_to_end(job, begin);
}

Outcome CellClient::run_line(std::string_view job, std::string line, std::string_view input) {
  JobOptions options{.argv = {std::move(line)}, .user = {}, .directory = {}, .environment = {}};
  options.start.flags = kShellLine | (input.empty() ? 0U : kInputOpen);
  const Outcome begin = outcome_of(start(job, options));
  if (begin.status != Status::kDone) return begin;
  if (!input.empty()) {
    write(job, 0, input);
    call(Op::kCloseInput, job);
  }
  return read_to_end(job, begin);
}

Outcome CellClient::read_to_end(std::string_view job, Outcome so_far) {
  for (;;) {
    const std::uint64_t output = so_far.state.output_kept > so_far.output.size()
                                     ? so_far.state.output_kept
                                     : so_far.output.size();
    const Outcome next = read_once(job, output, so_far.error.size(), 20'000);
    if (next.status != Status::kDone) return next;
    so_far.state = next.state;
    so_far.output += next.output;
    so_far.error += next.error;
    if (next.state.ended != Ended::kRunning && next.output.empty() && next.error.empty()) {
      return so_far;
    }
    if (next.state.ended == Ended::kRunning && next.output.empty() && next.error.empty()) {
      ADD_FAILURE() << "job " << job << " does not end";
      return so_far;
    }
  }
}

Outcome CellClient::read_once(std::string_view job, std::uint64_t output_offset,
                              std::uint64_t error_offset, std::uint32_t wait_ms,
                              std::uint32_t bytes_max) {
  return outcome_of(call(Op::kRead, job,
                         bytes_of(Read{.output_offset = output_offset,
                                       .error_offset = error_offset,
                                       .wait_ms = wait_ms,
                                       .bytes_max = bytes_max})));
}

Reply CellClient::write(std::string_view job, std::uint64_t offset, std::string_view bytes) {
  return call(Op::kWrite, job, bytes_of(Write{.offset = offset}).append(bytes));
}

Reply CellClient::signal(std::string_view job, int number, Reach reach) {
  return call(Op::kSignal, job, bytes_of(Signal{.number = number, .reach = reach}));
}

std::vector<JobState> CellClient::list() {
  const Reply reply = call(Op::kList);
  std::vector<JobState> states(reply.payload.size() / sizeof(JobState));
  if (!states.empty()) {
    std::memcpy(states.data(), reply.payload.data(), states.size() * sizeof(JobState));
  }
  return states;
}

CellUnderTest::CellUnderTest(std::uint32_t first_id, const char* profile) {
  chmod(scratch_.path().c_str(), 0755);
  home_ = scratch_.make_directory("home");
  if (chown(home_.c_str(), first_id + 1000, first_id + 1000) != 0) std::abort();
  if (profile != nullptr) std::ofstream(home_ + "/.profile") << profile;
  std::ofstream(scratch_ / "passwd")
      << "root:x:0:0:root:/root:/bin/sh\nworker:x:1000:1000::" << home_ << ":/bin/sh\n";
  std::ofstream(scratch_ / "group") << "root:x:0:\nworker:x:1000:\ntools:x:2000:a,worker\n";
  socket_path_ = scratch_ / "cell.sock";
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const sockaddr_un address = address_of(socket_path_);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener, 16) != 0) {
    std::abort();
  }
  const int image = memfd_create("cell", MFD_CLOEXEC);
  const auto bytes = cell_image();
  if (::write(image, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    std::abort();
  }
  // Nobody in a user namespace can read it, so nobody there can trace who runs it.
  fchmod(image, 0111);
  int mapped[2];
  if (pipe2(mapped, O_CLOEXEC) != 0) std::abort();
  const unsigned long flags =
      CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS | SIGCHLD | (first_id != 0 ? CLONE_NEWUSER : 0UL);
  pid_ = static_cast<pid_t>(syscall(SYS_clone, flags, 0, 0, 0, 0));
  if (pid_ == 0) become_cell(listener, image, mapped[0], profile != nullptr);
  if (first_id != 0) map_ids(first_id);
  if (::write(mapped[1], "x", 1) != 1) std::abort();
  close(mapped[0]);
  close(mapped[1]);
  close(listener);
  close(image);
}

void CellUnderTest::map_ids(std::uint32_t first_id) const {
  for (const char* name : {"uid_map", "gid_map"}) {
    std::ofstream("/proc/" + std::to_string(pid_) + "/" + name) << "0 " << first_id << " 65536";
  }
}

void CellUnderTest::become_cell(int listener, int image, int mapped, bool login) const {
  char go = 0;
  if (read(mapped, &go, 1) != 1 || setgroups(0, nullptr) != 0 || setgid(0) != 0 || setuid(0) != 0) {
    _exit(89);
  }
  const std::string passwd = scratch_ / "passwd";
  const std::string group = scratch_ / "group";
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("proc", "/proc", "proc", 0, nullptr) != 0 ||
      mount(passwd.c_str(), "/etc/passwd", nullptr, MS_BIND, nullptr) != 0 ||
      mount(group.c_str(), "/etc/group", nullptr, MS_BIND, nullptr) != 0) {
    _exit(90);
  }
  const int moved = fcntl(image, F_DUPFD_CLOEXEC, 10);
  if (dup2(fcntl(listener, F_DUPFD_CLOEXEC, 10), 3) != 3) _exit(91);
  char* const argv[] = {const_cast<char*>("cell"), login ? const_cast<char*>("login") : nullptr,
                        nullptr};
  char* const environment[] = {nullptr};
  fexecve(moved, argv, environment);
  _exit(92);
}

CellUnderTest::~CellUnderTest() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool CellUnderTest::is_alive() const {
  return waitpid(pid_, nullptr, WNOHANG) == 0;
}

std::size_t CellUnderTest::private_kilobytes() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/smaps_rollup");
  std::size_t total = 0;
  std::string word;
  while (file >> word) {
    std::size_t kilobytes = 0;
    if (word == "Anonymous:" && file >> kilobytes) total += kilobytes;
  }
  return total;
}

std::size_t CellUnderTest::descriptors() const {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/fd")) {
    ++count;
  }
  return count;
}

}  // namespace pons::cell
