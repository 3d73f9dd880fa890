#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <csignal>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "pons/linux/loop.h"
#include "pons/linux/unix_socket.h"
#include "pons/sandbox/provider.h"

// Sandboxes for tests: files in a map, jobs that do what the test says.

namespace pons::e2b {

using namespace sandbox;

struct FakeJob {
  explicit FakeJob(linux::Loop& loop) : changed(loop) {}
  JobSpec spec;
  JobInfo info;
  std::string output, error, input;
  std::size_t output_kept = 0;  // offset of the first byte of `output` still there
  bool input_closed = false;
  std::vector<int> signals;
  std::optional<TerminalSize> size;
  linux::Event changed;

  void print(std::string_view text) {
    output += text;
    info.output_bytes = output.size();
    changed.set();
  }
  void end(Outcome outcome, int code = 0) {
    info.outcome = outcome;
    info.code = code;
    changed.set();
  }
};

class FakeJobStream final : public JobStream {
 public:
  FakeJobStream(std::shared_ptr<FakeJob> job, JobOffsets at, bool announce)
      : job_(std::move(job)), at_(at), announce_(announce) {}
  const std::string& job_id() const override { return job_->info.id; }
  Task<Result<std::optional<JobEvent>>> next(
      std::chrono::steady_clock::time_point deadline) override {
    using Event = std::optional<JobEvent>;
    if (std::exchange(announce_, false)) co_return Event(JobStarted{.pid = job_->info.pid});
    for (;;) {
      if (at_.output < job_->output.size()) {
        const std::size_t from = std::max<std::size_t>(at_.output, job_->output_kept);
        Output piece{.offset = from, .lost = from - at_.output, .bytes = job_->output.substr(from)};
        at_.output = job_->output.size();
        co_return Event(std::move(piece));
      }
      if (at_.error < job_->error.size()) {
        Output piece{.stream = Output::Stream::kError,
                     .offset = at_.error,
                     .bytes = job_->error.substr(at_.error)};
        at_.error = job_->error.size();
        co_return Event(std::move(piece));
      }
      if (over_) co_return Event();
      if (job_->info.outcome != Outcome::kRunning) {
        over_ = true;
        co_return Event(job_->info);
      }
      job_->changed.reset();
      if (co_await job_->changed.wait(deadline) == linux::Wait::kTimeout)
        co_return make_error(ErrorCode::kTimeout, "follow job", "nothing");
    }
  }

 private:
  std::shared_ptr<FakeJob> job_;
  JobOffsets at_;
  bool announce_;
  bool over_ = false;
};

struct FakeChanges {
  explicit FakeChanges(linux::Loop& loop) : changed(loop) {}
  std::deque<FileChange> waiting;
  linux::Event changed;
  bool gone = false;
  bool cut = false;
  void add(FileChange change) {
    waiting.push_back(std::move(change));
    changed.set();
  }
};

class FakeChangeStream final : public ChangeStream {
 public:
  explicit FakeChangeStream(std::shared_ptr<FakeChanges> changes) : changes_(std::move(changes)) {}
  Task<Result<FileChange>> next(std::chrono::steady_clock::time_point deadline) override {
    while (changes_->waiting.empty()) {
      if (changes_->gone) co_return make_error(ErrorCode::kNotFound, "watch files", "gone");
      if (changes_->cut) co_return make_error(ErrorCode::kIo, "watch files", "the warden is gone");
      changes_->changed.reset();
      if (co_await changes_->changed.wait(deadline) == linux::Wait::kTimeout)
        co_return make_error(ErrorCode::kTimeout, "watch files", "nothing");
    }
    FileChange change = std::move(changes_->waiting.front());
    changes_->waiting.pop_front();
    co_return change;
  }

 private:
  std::shared_ptr<FakeChanges> changes_;
};

struct FakeFile {
  FileKind kind = FileKind::kFile;
  std::string content;
  std::uint32_t mode = 0644;
  std::uint32_t uid = 1000;
  std::string link_target;
  std::string owner;  // as it was asked for
  std::map<std::string, std::string> attributes;
};

class FakeBytes final : public ByteSource {
 public:
  explicit FakeBytes(std::string bytes) : left_(std::move(bytes)) {}
  Task<Result<std::string>> next() override {
    std::string piece = left_.substr(0, 10'000);
    left_.erase(0, piece.size());
    co_return piece;
  }

 private:
  std::string left_;
};

class FakeProvider final : public Provider {
 public:
  explicit FakeProvider(linux::Loop& loop) : loop_(loop) {
    put("/", FileKind::kDirectory, "", 0);
    put("/home/user", FileKind::kDirectory, "", 1000);
    put("/etc/passwd", FileKind::kFile,
        "root:x:0:0::/root:/bin/sh\nnonsense\nuser:x:1000:1000::/home/user:/bin/bash\n", 0);
    put("/etc/group", FileKind::kFile, "root:x:0:\nuser:x:1000:\n", 0);
  }

  std::map<std::string, SandboxInfo> sandboxes;
  std::vector<std::shared_ptr<FakeJob>> jobs;
  std::map<std::string, FakeFile> files;
  std::vector<std::shared_ptr<FakeChanges>> watches;
  std::vector<linux::UniqueFd> dialled;  // the ends inside
  std::set<std::uint16_t> open_ports;
  bool written_in_place = false;  // the last file
  std::optional<Error> write_error;
  std::optional<Error> watch_error;
  std::optional<Error> execute_error;
  std::optional<Error> pause_error;
  int resumes = 0;
  int attached = 0;
  int lists = 0;
  int stats = 0;

  void put(const std::string& path, FileKind kind, std::string content, std::uint32_t uid) {
    files[path] = {.kind = kind, .content = std::move(content), .uid = uid};
  }
  FakeJob& job(std::size_t i = 0) { return *jobs.at(i); }

  Task<Result<SandboxInfo>> inspect(std::string id) override {
    const auto found = sandboxes.find(id);
    if (found == sandboxes.end()) co_return none();
    co_return found->second;
  }
  Task<Result<std::vector<SandboxInfo>>> list() override {
    ++lists;
    std::vector<SandboxInfo> all;
    for (const auto& [id, info] : sandboxes) all.push_back(info);
    co_return all;
  }
  Task<Result<SandboxInfo>> resume(std::string id) override {
    ++resumes;
    sandboxes.at(id).state = State::kRunning;
    co_return sandboxes.at(id);
  }
  Task<Result<Metrics>> metrics(std::string id) override {
    CO_TRY_VOID(enter(id));
    co_return Metrics{.memory_bytes = 100,
                      .memory_cache_bytes = 40,
                      .cpu_usec = 5,
                      .disk_bytes = 7,
                      .memory_bytes_max = 512ULL << 20,
                      .disk_bytes_max = 1000,
                      .cpu_percent_max = 200};
  }

  // ---- jobs

  Task<Result<std::unique_ptr<JobStream>>> execute(std::string id, JobSpec spec) override {
    CO_TRY_VOID(enter(id));
    if (execute_error) co_return *execute_error;
    auto job = std::make_shared<FakeJob>(loop_);
    job->info.id = spec.id;
    job->info.label = spec.label;
    job->info.pid = 100 + static_cast<std::uint32_t>(jobs.size());
    job->spec = spec;
    jobs.push_back(job);
    if (!spec.shell_line.empty()) {
      job->end(Outcome::kExit);
    } else if (spec.argv.front() == "say") {
      job->print(spec.argv.at(1));
      job->end(Outcome::kExit, spec.argv.size() > 2 ? std::stoi(spec.argv[2]) : 0);
    }
    co_return std::unique_ptr<JobStream>(
        std::make_unique<FakeJobStream>(job, JobOffsets{}, spec.announce_start));
  }
  Task<Result<std::unique_ptr<JobStream>>> attach(std::string id, std::string name,
                                                  JobOffsets from) override {
    CO_TRY(const auto job, find_job(id, name));
    ++attached;
    co_return std::unique_ptr<JobStream>(std::make_unique<FakeJobStream>(job, from, false));
  }
  Task<Result<std::vector<JobInfo>>> list_jobs(std::string id) override {
    CO_TRY_VOID(enter(id));
    std::vector<JobInfo> all;
    for (const auto& job : jobs) all.push_back(job->info);
    co_return all;
  }
  Task<Result<void>> write_input(std::string id, std::string name, std::string bytes) override {
    CO_TRY(const auto job, find_job(id, name));
    if (!job->spec.input_open || job->input_closed)
      co_return make_error(ErrorCode::kConflict, "write input", "the job reads no more input");
    job->input += bytes;
    co_return {};
  }
  Task<Result<void>> close_input(std::string id, std::string name) override {
    CO_TRY(const auto job, find_job(id, name));
    job->input_closed = true;
    co_return {};
  }
  Task<Result<void>> signal(std::string id, std::string name, int number) override {
    CO_TRY(const auto job, find_job(id, name));
    job->signals.push_back(number);
    job->end(Outcome::kSignal, number);
    co_return {};
  }
  Task<Result<void>> kill(std::string id, std::string name) override {
    return signal(std::move(id), std::move(name), SIGKILL);
  }
  Task<Result<void>> resize(std::string id, std::string name, TerminalSize size) override {
    CO_TRY(const auto job, find_job(id, name));
    job->size = size;
    co_return {};
  }

  // ---- files

  Task<Result<std::unique_ptr<ByteSource>>> read_file(std::string id, std::string path, std::string,
                                                      std::uint64_t offset,
                                                      std::uint64_t size) override {
    CO_TRY_VOID(enter(id));
    CO_TRY(const auto* file, find_file(end_of(path)));
    if (file->kind != FileKind::kFile)
      co_return make_error(ErrorCode::kInvalid, "use file", "is a directory");
    co_return std::unique_ptr<ByteSource>(std::make_unique<FakeBytes>(
        file->content.substr(std::min<std::size_t>(offset, file->content.size()),
                             size == 0 ? std::string::npos : size)));
  }
  Task<Result<FileInfo>> write_file(std::string id, std::string path, WriteOptions options,
                                    std::unique_ptr<ByteSource> bytes) override {
    CO_TRY_VOID(enter(id));
    std::string content;
    for (;;) {
      CO_TRY(const auto piece, co_await bytes->next());
      if (piece.empty()) break;
      content += piece;
      if (write_error) co_return *write_error;
    }
    EXPECT_EQ(options.user, "root");
    written_in_place = options.in_place;
    files[end_of(path)] = {.content = std::move(content),
                           .mode = options.mode,
                           .owner = options.owner,
                           .attributes = options.attributes};
    co_return info_of(path);
  }
  Task<Result<FileInfo>> stat_file(std::string id, std::string path, std::string) override {
    ++stats;
    CO_TRY_VOID(enter(id));
    if (path == ".") path = "/home/user";
    CO_TRY_VOID(find_file(path));
    co_return info_of(path);
  }
  Task<Result<std::vector<FileInfo>>> list_files(std::string id, std::string path, std::string,
                                                 std::uint32_t depth) override {
    CO_TRY_VOID(enter(id));
    CO_TRY(const auto* directory, find_file(path));
    if (directory->kind != FileKind::kDirectory)
      co_return make_error(ErrorCode::kInvalid, "use file", "not a directory");
    const std::string below = path == "/" ? "/" : path + "/";
    std::vector<FileInfo> found;
    for (const auto& [name, file] : files)
      if (name.starts_with(below) && name != path &&
          std::ranges::count(name.substr(below.size()), '/') < static_cast<long>(depth))
        found.push_back(info_of(name));
    std::ranges::reverse(found);
    co_return found;
  }
  Task<Result<FileInfo>> make_directory(std::string id, std::string path, std::string user,
                                        std::string owner) override {
    EXPECT_EQ(user, "root");
    CO_TRY_VOID(enter(id));
    if (files.contains(path))
      co_return make_error(ErrorCode::kConflict, "use file", "it is there already");
    files[path] = {.kind = FileKind::kDirectory, .mode = 0755, .owner = std::move(owner)};
    co_return info_of(path);
  }
  Task<Result<void>> remove_file(std::string id, std::string path, std::string) override {
    CO_TRY_VOID(enter(id));
    CO_TRY_VOID(find_file(path));
    std::erase_if(files, [&](const auto& file) {
      return file.first == path || file.first.starts_with(path + "/");
    });
    co_return {};
  }
  Task<Result<FileInfo>> rename_file(std::string id, std::string from, std::string to,
                                     std::string) override {
    CO_TRY_VOID(enter(id));
    CO_TRY_VOID(find_file(from));
    auto node = files.extract(from);
    node.key() = to;
    files.insert(std::move(node));
    co_return info_of(to);
  }
  Task<Result<std::unique_ptr<ChangeStream>>> watch_files(std::string id, std::string path,
                                                          std::string, bool) override {
    CO_TRY_VOID(enter(id));
    CO_TRY_VOID(find_file(path));
    if (watch_error) co_return *watch_error;
    watches.push_back(std::make_shared<FakeChanges>(loop_));
    co_return std::unique_ptr<ChangeStream>(std::make_unique<FakeChangeStream>(watches.back()));
  }

  Task<Result<linux::UniqueFd>> dial(std::string id, std::uint16_t port) override {
    CO_TRY_VOID(enter(id));
    if (!open_ports.contains(port))
      co_return make_error(ErrorCode::kUnavailable, "dial", "nobody listens at this port");
    CO_TRY(auto pair, linux::create_socket_pair(SOCK_STREAM));
    dialled.push_back(std::move(pair.second));
    if (on_dial) on_dial(port);
    co_return std::move(pair.first);
  }
  std::function<void(std::uint16_t)> on_dial;

  // ---- lives

  std::vector<TemplateInfo> templates{{.name = "host"}};

  Task<Result<std::vector<TemplateInfo>>> list_templates() override { co_return templates; }
  Task<Result<SandboxInfo>> create(CreateRequest request) override {
    SandboxInfo info;
    info.id = request.id;
    info.template_name = request.template_name;
    info.created_unix_ms = 1'700'000'000'000 + static_cast<std::int64_t>(sandboxes.size());
    info.labels = request.labels;
    info.limits = request.limits;
    info.ends_unix_ms = info.created_unix_ms + request.limits.lifetime_max.count();
    created.push_back(request);
    sandboxes[request.id] = info;
    co_return info;
  }
  std::vector<CreateRequest> created;
  Task<Result<void>> destroy(std::string id) override {
    sandboxes.erase(id);
    co_return {};
  }
  Task<Result<SandboxInfo>> set_lifetime(std::string id, Milliseconds from_now,
                                         bool pause_at_end) override {
    lifetimes.push_back(from_now);
    if (wakes_before_lifetime) sandboxes.at(id).state = State::kRunning;
    if (std::exchange(pauses_before_lifetime, false)) sandboxes.at(id).state = State::kPaused;
    sandboxes.at(id).limits.pause_at_end = pause_at_end;
    co_return sandboxes.at(id);
  }
  Task<Result<SandboxInfo>> set_label(std::string id, std::string name,
                                      std::string value) override {
    auto& labels = sandboxes.at(id).labels;
    if (value.empty())
      labels.erase(name);
    else
      labels[name] = value;
    co_return sandboxes.at(id);
  }
  std::vector<Milliseconds> lifetimes;
  bool wakes_before_lifetime = false;  // somebody else is quicker
  bool pauses_before_lifetime = false;
  Task<Result<SandboxInfo>> pause(std::string id) override {
    if (pause_error) co_return *pause_error;
    sandboxes.at(id).state = State::kPaused;
    co_return sandboxes.at(id);
  }
  Task<Result<SandboxInfo>> fork(std::string, CreateRequest request) override {
    ++forks_asked;
    if (fork_error) co_return *fork_error;
    co_return co_await create(std::move(request));
  }
  std::optional<Error> fork_error;
  int forks_asked = 0;
  Task<Result<TemplateInfo>> snapshot(std::string id, std::string name) override {
    templates.push_back({.name = name, .kind = "snapshot", .source = "snapshot of " + id});
    co_return templates.back();
  }

  // ---- not used here

  Task<Result<void>> put_template(TemplateInfo) override { co_return unsupported(); }
  Task<Result<std::vector<std::string>>> remove_template(std::string) override {
    co_return unsupported();
  }
  Task<Result<SandboxInfo>> set_limits(std::string, Limits) override { co_return unsupported(); }
  Task<Result<std::string>> checkpoint(std::string, std::string) override {
    co_return unsupported();
  }
  Task<Result<void>> rollback(std::string, std::string) override { co_return unsupported(); }
  Task<Result<void>> commit(std::string, std::string name) override {
    committed.push_back(std::move(name));
    co_return {};
  }
  std::vector<std::string> committed;

 private:
  static Error none() { return make_error(ErrorCode::kNotFound, "find sandbox", "there is none"); }
  static Error unsupported() { return make_error(ErrorCode::kUnsupported, "fake", "not here"); }
  Result<void> enter(const std::string& id) const {
    const auto found = sandboxes.find(id);
    if (found == sandboxes.end()) return none();
    if (found->second.state == State::kPaused)
      return make_error(ErrorCode::kConflict, "use sandbox", "it is paused; resume it first");
    return {};
  }
  Result<std::shared_ptr<FakeJob>> find_job(const std::string& id, const std::string& name) const {
    TRY_VOID(enter(id));
    for (const auto& job : jobs)
      if (job->info.id == name) return job;
    return make_error(ErrorCode::kNotFound, "find job", "there is none");
  }
  Result<const FakeFile*> find_file(const std::string& path) const {
    const auto found = files.find(path);
    if (found == files.end()) return make_error(ErrorCode::kNotFound, "use file", path);
    return &found->second;
  }
  // What a link and those that follow lead to; targets here have no "..".
  std::string end_of(std::string path) const {
    for (int i = 0; i < 40; ++i) {
      const auto link = files.find(path);
      if (link == files.end() || link->second.kind != FileKind::kLink) return path;
      path = link->second.link_target.starts_with('/')
                 ? link->second.link_target
                 : path.substr(0, path.rfind('/') + 1) + link->second.link_target;
    }
    return "";
  }
  FileInfo info_of(const std::string& path) const {
    const FakeFile& file = files.at(path);
    std::optional<LinkEnd> end;
    if (const auto found = files.find(end_of(path));
        file.kind == FileKind::kLink && found != files.end())
      end = LinkEnd{.path = found->first,
                    .kind = found->second.kind,
                    .mode = found->second.mode,
                    .size = found->second.content.size()};
    return {.path = path,
            .kind = file.kind,
            .mode = file.mode,
            .uid = file.uid,
            .gid = file.uid,
            .size = file.content.size(),
            .inode = 1 + static_cast<std::uint64_t>(std::distance(files.begin(), files.find(path))),
            .modified_ns = 1'700'000'000'123'456'789,
            .link_target = file.link_target,
            .link_end = std::move(end),
            .attributes = file.attributes};
  }

  linux::Loop& loop_;
};

}  // namespace pons::e2b
