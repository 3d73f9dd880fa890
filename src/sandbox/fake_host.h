#pragma once

#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cell_reply.h"
#include "pons/linux/loop.h"
#include "pons/linux/unix_socket.h"
#include "pons/spawner/protocol.h"

// A spawner and its cells for tests: they speak the real protocols over real sockets, and what they
// run is a handful of words. They live on when a provider goes, as the real ones do.

namespace pons::sandbox {

struct FakeJob {
  cell::JobState state{};
  std::string output, error, input;
  bool input_closed = false;
  std::vector<std::string> argv;
};

class FakeCell {
 public:
  explicit FakeCell(linux::Loop& loop) : loop_(loop), changed_(loop), tasks_(loop) {}
  void serve(linux::UniqueFd socket) { tasks_.spawn(read_requests(std::move(socket))); }
  void hang_up() { tasks_.cancel_all(); }
  // What is asked of a frozen one waits in its socket.
  void thaw_or_freeze(bool frozen) {
    frozen_ = frozen;
    changed_.set();
  }

  std::map<std::string, FakeJob> jobs;
  std::map<std::string, std::string> files;
  std::string claim;
  bool silent = false;
  std::string garbage;     // sent in place of every answer
  bool backwards = false;  // answers reads from before the offset asked for
  int starts = 0;

  void end(FakeJob& job, cell::Ended how, int code) {
    if (job.state.ended != cell::Ended::kRunning) return;
    job.state.ended = how;
    job.state.code = code;
    job.state.ended_ms = job.state.started_ms + 5;
    changed_.set();
  }
  void print(FakeJob& job, std::string_view text) {
    job.output += text;
    changed_.set();
  }

 private:
  Task<> read_requests(linux::UniqueFd socket) {
    auto watch = linux::Watch::create(loop_, socket.get());
    linux::TaskGroup answers(loop_);
    for (;;) {
      auto message = linux::receive_message(socket.get(), cell::kMessageBytesMax, 0);
      if (!message) co_return;
      if (!*message) {
        co_await watch->readable(kNever);
        continue;
      }
      answers.spawn(answer(socket.get(), std::move((*message)->bytes)));
    }
  }

  template <class T>
  static T take(std::string_view& bytes) {
    T value{};
    CHECK(bytes.size() >= sizeof value);
    std::memcpy(&value, bytes.data(), sizeof value);
    bytes.remove_prefix(sizeof value);
    return value;
  }
  static std::string take_text(std::string_view& bytes) {
    const std::size_t end = bytes.find('\0');
    CHECK(end != std::string_view::npos);
    std::string text(bytes.substr(0, end));
    bytes.remove_prefix(end + 1);
    return text;
  }

  Task<> answer(int socket, std::string message) {
    std::string_view bytes = message;
    const auto request = take<cell::RequestHeader>(bytes);
    while (frozen_) {
      changed_.reset();
      co_await changed_.wait(kNever);
    }
    if (silent) co_return;
    const std::string name(request.job, strnlen(request.job, sizeof request.job));
    cell::ReplyHeader header{.magic = cell::kMagic, .status = {}, .id = request.id};
    std::string payload;
    co_await work(request.op, name, bytes, header, payload);
    if (request.id == 0) co_return;  // none is wanted
    std::string reply(reinterpret_cast<const char*>(&header), sizeof header);
    reply += payload;
    if (!garbage.empty()) reply = garbage;
    (void)linux::send_message(socket, reply, {});
  }

  Task<> work(cell::Op op, std::string name, std::string_view bytes, cell::ReplyHeader& header,
              std::string& payload) {
    using cell::Op;
    if (op == Op::kPing) co_return;
    if (op == Op::kClaim) {
      claim = std::string(bytes);
      co_return;
    }
    if (op == Op::kList) {
      for (auto& [n, job] : jobs) {
        const cell::JobState state = state_of(job);
        payload.append(reinterpret_cast<const char*>(&state), sizeof state);
      }
      co_return;
    }
    if (op == Op::kStart) {
      const auto wait = start(name, bytes);
      co_await read(name, {.bytes_max = 64 * 1024, .wait_ms = wait}, payload);
      co_return;
    }
    if (!jobs.contains(name)) {
      header.status = cell::Status::kNoSuchJob;
      co_return;
    }
    FakeJob& job = jobs[name];
    if (op == Op::kRead) {
      const auto question = take<cell::Read>(bytes);
      co_await read(
          name,
          {question.output_offset, question.error_offset, question.bytes_max, question.wait_ms},
          payload);
    } else if (op == Op::kWrite) {
      take_input(job, bytes, header, payload);
    } else if (op == Op::kCloseInput) {
      job.input_closed = true;
      finish_input(name, job);
    } else if (op == Op::kSignal) {
      end(job, cell::Ended::kSignal, take<cell::Signal>(bytes).number);
    } else if (op == Op::kForget) {
      jobs.erase(name);
    }
  }

  void take_input(FakeJob& job, std::string_view bytes, cell::ReplyHeader& header,
                  std::string& payload) {
    const auto write = take<cell::Write>(bytes);
    if (job.input_closed || job.state.ended != cell::Ended::kRunning) {
      header.status = cell::Status::kInputClosed;
      return;
    }
    // Takes a part only, as a pipe does.
    if (write.offset <= job.input.size())
      job.input += bytes.substr(job.input.size() - write.offset).substr(0, 5000);
    const cell::WriteReply reply{.taken = job.input.size()};
    payload.assign(reinterpret_cast<const char*>(&reply), sizeof reply);
  }

  void finish_input(const std::string& name, FakeJob& job) {
    if (job.argv[0] == "cat") print(job, job.input);
    if (job.argv[0] == "write") files[job.argv[1]] = job.input;
    if (job.argv[0] == "cat" || job.argv[0] == "write") end(jobs[name], cell::Ended::kExit, 0);
  }

  std::uint32_t start(const std::string& name, std::string_view bytes) {
    const auto numbers = take<cell::Start>(bytes);
    if (jobs.contains(name)) return numbers.wait_ms;
    ++starts;
    FakeJob& job = jobs[name];
    std::memcpy(job.state.job, name.data(), name.size());
    job.state.pid = 7;
    job.state.started_ms = 100;
    take_text(bytes);
    take_text(bytes);
    for (std::uint32_t i = 0; i < numbers.argument_count; ++i) job.argv.push_back(take_text(bytes));
    run(job);
    return numbers.wait_ms;
  }

  void run(FakeJob& job) {
    const std::string& word = job.argv[0];
    if (word == "echo") print(job, job.argv[1] + "\n");
    if (word == "complain") job.error = job.argv[1];
    if (word == "flood") print(job, std::string(std::stoul(job.argv[1]), 'x'));
    if (word == "killed") return end(job, cell::Ended::kSignal, SIGKILL);
    if (word == "fail") return end(job, cell::Ended::kExit, 3);
    if (word == "read" || word == "stat") return run_file(job);
    if (word != "wait" && word != "cat" && word != "write" && word != "watch")
      end(job, cell::Ended::kExit, 0);
  }

  void run_file(FakeJob& job) {
    if (!files.contains(job.argv[1])) {
      job.error = "no such file\nmore";
      return end(job, cell::Ended::kExit, ENOENT);
    }
    const std::string& content = files[job.argv[1]];
    if (job.argv[0] == "read") {
      print(job, content);
    } else {
      cell::FileRecord record{.magic = cell::kFileRecordMagic,
                              .kind = cell::FileKind::kFile,
                              .mode = 0644,
                              .size = content.size()};
      print(job, {reinterpret_cast<const char*>(&record), sizeof record});
    }
    end(job, cell::Ended::kExit, 0);
  }

  static cell::JobState state_of(const FakeJob& job) {
    cell::JobState state = job.state;
    state.output_end = job.output.size();
    state.error_end = job.error.size();
    state.input_taken = job.input.size();
    return state;
  }

  struct Question {
    std::uint64_t output_offset = 0;
    std::uint64_t error_offset = 0;
    std::uint32_t bytes_max = 0;
    std::uint32_t wait_ms = 0;
  };
  Task<> read(std::string name, Question question, std::string& payload) {
    const TimePoint deadline = loop_.now() + std::chrono::milliseconds(question.wait_ms);
    for (;;) {
      const FakeJob& job = jobs[name];
      if (job.state.ended != cell::Ended::kRunning || job.output.size() > question.output_offset ||
          job.error.size() > question.error_offset || loop_.now() >= deadline)
        break;
      changed_.reset();
      co_await changed_.wait(deadline);
    }
    const FakeJob& job = jobs[name];
    const std::string output = job.output.substr(question.output_offset, question.bytes_max);
    const std::string error =
        job.error.substr(question.error_offset, question.bytes_max - output.size());
    cell::ReadReply reply{.state = state_of(job),
                          .output_offset = question.output_offset - (backwards ? 1 : 0),
                          .error_offset = question.error_offset,
                          .output_size = static_cast<std::uint32_t>(output.size()),
                          .error_size = static_cast<std::uint32_t>(error.size())};
    payload.assign(reinterpret_cast<const char*>(&reply), sizeof reply);
    payload += output + error;
  }

  linux::Loop& loop_;
  bool frozen_ = false;
  linux::Event changed_;
  linux::TaskGroup tasks_;
};

class FakeSpawner {
 public:
  explicit FakeSpawner(linux::Loop& loop) : loop_(loop), tasks_(loop) {
    ends_ = std::move(*linux::create_socket_pair(SOCK_SEQPACKET));
    tasks_.spawn(serve());
  }
  int wardens_end() const { return ends_.first.get(); }

  struct Box {
    std::unique_ptr<FakeCell> cell;
    spawner::Request made;
    bool frozen = false;
    std::uint32_t upper = 1;
  };
  std::map<std::uint64_t, Box> boxes;
  // Requests of these kinds are lost before they are done, or their answers afterwards.
  std::set<spawner::RequestKind> lost_requests, lost_answers;

  // As when another process takes the place of one that was killed.
  void restart() {
    has_begun_ = false;
    notify(0);
  }
  std::vector<spawner::Request> requests;
  int seal_error = 0;
  bool busy = false;  // processes run in all of them
  int copy_error = 0;
  bool copied_frozen = false;  // at the time of the last kCopyLayer
  int create_error = 0;
  spawner::Step create_step = spawner::Step::kSeal;
  std::uint32_t stiff_layer = 0;  // cannot be merged with any other
  std::uint64_t oom_kills = 0;
  std::uint64_t pids_refused = 0;
  std::uint64_t disk_bytes = 0;
  bool hold_creates = false;  // answered when they are released
  std::vector<spawner::Request> held;

  void release_creates() {
    hold_creates = false;
    for (const auto& request : std::exchange(held, {})) answer(request);
  }
  std::uint8_t snapshot_fill = 1;  // what digests of snapshots are made of

  std::vector<spawner::Request> asked(spawner::RequestKind kind) const {
    std::vector<spawner::Request> found;
    for (const auto& request : requests)
      if (request.kind == kind) found.push_back(request);
    return found;
  }

 private:
  void notify(std::uint64_t first_request) {
    const spawner::Reply notice{.id = spawner::kNoticeId, .values = {first_request}};
    CHECK(linux::send_message(ends_.second.get(), spawner::bytes_of(notice), {}));
  }

  bool is_stiff(const spawner::Request& request) const {
    const auto run = std::span(request.view.layers).first(request.argument);
    return stiff_layer != 0 &&
           std::ranges::find(run, stiff_layer, &spawner::OwnLayer::number) != run.end();
  }

  Task<> serve() {
    auto watch = linux::Watch::create(loop_, ends_.second.get());
    for (;;) {
      auto message = linux::receive_message(ends_.second.get(), sizeof(spawner::Request), 0);
      if (!message) co_return;
      if (!*message) {
        co_await watch->readable(kNever);
        continue;
      }
      const auto request = spawner::parse_request((*message)->bytes);
      CHECK(request.has_value());
      if (!std::exchange(has_begun_, true)) notify(request->id);
      requests.push_back(*request);
      if (lost_requests.contains(request->kind)) continue;
      const bool hold = hold_creates && request->kind == spawner::RequestKind::kCreate;
      if (hold)
        held.push_back(*request);
      else
        answer(*request);
    }
  }

  void answer(const spawner::Request& request) {
    using Kind = spawner::RequestKind;
    spawner::Reply reply{.id = request.id};
    std::vector<linux::UniqueFd> descriptors;
    const auto fail = [&](int error) {
      reply.status = spawner::Status::kFailed;
      reply.step = spawner::Step::kSeal;
      reply.os_error = error;
    };
    const bool known = boxes.contains(request.sandbox);
    if (request.kind == Kind::kCreate && create_error != 0) {
      fail(create_error);
      reply.step = create_step;
    } else if (request.kind == Kind::kCreate || (request.kind == Kind::kConnect && known)) {
      Box& box = boxes[request.sandbox];
      if (box.cell == nullptr) box = {std::make_unique<FakeCell>(loop_), request};
      auto ends = std::move(*linux::create_socket_pair(SOCK_SEQPACKET));
      box.cell->serve(std::move(ends.second));
      descriptors.push_back(std::move(ends.first));
    } else if (request.kind == Kind::kDestroy) {
      boxes.erase(request.sandbox);
    } else if (request.kind == Kind::kList) {
      auto next = boxes.upper_bound(request.argument);
      for (std::size_t i = 0; i < 8 && next != boxes.end(); ++i, ++next)
        reply.values[i] = next->first;
    } else if (!known) {
      reply.status = spawner::Status::kNoSuchSandbox;
    } else if (request.kind == Kind::kSwitchView && request.view.must_seal == spawner::kSealAlone &&
               busy) {
      fail(EBUSY);
    } else if (request.kind == Kind::kSwitchView && request.view.must_seal != 0 &&
               seal_error != 0) {
      fail(seal_error);
    } else if (request.kind == Kind::kSwitchView) {
      boxes[request.sandbox].upper = request.view.upper;
    } else if (request.kind == Kind::kFindView) {
      reply.values[0] = boxes[request.sandbox].upper;
    } else if (request.kind == Kind::kCopyLayer) {
      copied_frozen = boxes[request.sandbox].frozen;
      if (copy_error != 0) fail(copy_error);
    } else if (request.kind == Kind::kMergeLayers && is_stiff(request)) {
      fail(EOPNOTSUPP);
    } else if (request.kind == Kind::kFreeze || request.kind == Kind::kThaw) {
      Box& box = boxes[request.sandbox];
      reply.values[0] = box.frozen ? 1 : 0;
      box.frozen = request.kind == Kind::kFreeze;
      box.cell->thaw_or_freeze(box.frozen);
    } else if (request.kind == Kind::kOpenNetwork) {
      auto ends = std::move(*linux::create_socket_pair(SOCK_STREAM));
      descriptors.push_back(std::move(ends.first));
      descriptors.push_back(std::move(ends.second));
    } else if (request.kind == Kind::kUsage) {
      reply.values.fill(~0ULL);
      reply.values[spawner::kOomKills] = oom_kills;
      reply.values[spawner::kPidsRefused] = pids_refused;
      reply.values[spawner::kDiskBytes] = disk_bytes;
    } else if (request.kind == Kind::kSnapshot) {
      reply.values[0] = request.view.layer_count;
      for (std::size_t i = 0; i < request.view.layer_count; ++i)
        reply.digests[i].bytes.fill(static_cast<std::uint8_t>(i + snapshot_fill));
    }
    if (lost_answers.contains(request.kind)) return;
    std::vector<int> raw;
    for (const auto& descriptor : descriptors) raw.push_back(descriptor.get());
    CHECK(linux::send_message(ends_.second.get(), spawner::bytes_of(reply), raw));
  }

  linux::Loop& loop_;
  bool has_begun_ = true;
  linux::SocketPair ends_;
  linux::TaskGroup tasks_;
};

}  // namespace pons::sandbox
