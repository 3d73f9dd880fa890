#include "cell.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "privileges.h"
#include "session_kill.h"

namespace pons::cell {
namespace {

constexpr const char* kPasswd = "/etc/passwd";
constexpr const char* kGroup = "/etc/group";
constexpr uint64_t kPingMsMax = 5000;
constexpr int kReapAtOnce = 1024;
constexpr rlim_t kOpenFilesWanted = 4096;
constexpr size_t kHeaderBytes = sizeof(RequestHeader);

uint64_t deadline_of(uint32_t wait_ms) {
  return wait_ms == kWaitForever ? UINT64_MAX : now_ms() + wait_ms;
}

// A job has up to seven descriptors here.
void raise_open_files() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kOpenFilesWanted) return;
  limit.rlim_cur = limit.rlim_max < kOpenFilesWanted ? limit.rlim_max : kOpenFilesWanted;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Something has to stand at 0, 1 and 2, so that 0 can mean "none" and no job gets in their way.
bool fill_standard_streams(int* null_device) {
  int file = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int i = 0; file >= 0 && file <= 2 && i < 3; ++i) file = fcntl(file, F_DUPFD_CLOEXEC, 0);
  *null_device = file;
  return file > 2;
}

// Without /dev/null, a pipe that nobody writes to is as empty.
int open_empty_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  const int file = fcntl(ends[0], F_DUPFD_CLOEXEC, 3);
  for (int i = 0; i < 2; ++i) {
    if (ends[i] > 2 || i == 1) close(ends[i]);
  }
  return file;
}

}  // namespace

bool Cell::set_up(int listener) {
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  prctl(PR_SET_NAME, "cell", 0, 0, 0);
  raise_open_files();
  if (!fill_standard_streams(&empty_input_)) empty_input_ = open_empty_pipe();
  if (empty_input_ < 0) return false;
  sigset_t all;
  sigset_t child;
  sigfillset(&all);
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  signals_ = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  listener_ = listener;
  if (signals_ < 0 || !poller_.open()) return false;
  if (fcntl(listener, F_SETFL, O_NONBLOCK) != 0 || fcntl(listener, F_SETFD, FD_CLOEXEC) != 0) {
    return false;
  }
  jobs_.set_up(&poller_);
  connections_.set_up(&poller_, &jobs_, &shell_);
  return poller_.add(listener, EPOLLIN, Source::kListener, 0) &&
         poller_.add(signals_, EPOLLIN, Source::kSignals, 0);
}

int Cell::run(int listener, ShellKind shell) {
  if (!set_up(listener)) return 1;
  shell_.set_up(&poller_, shell, now_ms());
  for (;;) {
    uint64_t next = jobs_.next_timer();
    const uint64_t others[] = {connections_.next_timer(), shell_.next_timer()};
    for (const uint64_t other : others) next = other < next ? other : next;
    const uint64_t now = now_ms();
    int timeout = -1;
    if (next != UINT64_MAX)
      timeout = next <= now ? 0 : next - now > 60'000 ? 60'000 : int(next - now);
    epoll_event events[32];
    const int count = poller_.wait(events, 32, more_to_reap_ ? 0 : timeout);
    for (int i = 0; i < count; ++i) handle(events[i]);
    if (more_to_reap_) reap();
    const uint64_t later = now_ms();
    jobs_.run_timers(later);
    connections_.flush(later);
    shell_.run_timers(later);
  }
}

void Cell::handle(const epoll_event& event) {
  const uint32_t index = Poller::index_of(event);
  switch (Poller::source_of(event)) {
    case Source::kListener:
      return connections_.accept_from(listener_);
    case Source::kSignals: {
      signalfd_siginfo ignored[8];
      while (read(signals_, ignored, sizeof ignored) > 0) {
      }
      more_to_reap_ = true;
      return;
    }
    case Source::kConnection:
      if ((event.events & EPOLLOUT) != 0) connections_.on_writable(index);
      if ((event.events & EPOLLIN) != 0) return serve(index);
      if ((event.events & (EPOLLHUP | EPOLLERR)) != 0) connections_.close_at(index);
      return;
    case Source::kInput:
      return jobs_.on_writable(index);
    case Source::kOutput:
      return jobs_.on_readable(index, 0);
    case Source::kError:
      return jobs_.on_readable(index, 1);
    case Source::kShell:
      return shell_.on_ready();
    case Source::kOrphan:
      return jobs_.on_orphan(static_cast<int>(index));
  }
}

// Orphans are everybody's here. A storm of them is taken in portions, so that it holds up nobody.
void Cell::reap() {
  more_to_reap_ = false;
  for (int i = 0; i < kReapAtOnce; ++i) {
    int status = 0;
    rusage usage = {};
    const pid_t pid = wait4(-1, &status, WNOHANG, &usage);
    if (pid <= 0) return;
    if (!shell_.on_reaped(pid)) jobs_.on_reaped(pid, status, usage);
  }
  more_to_reap_ = true;
}

void Cell::serve(uint32_t connection) {
  const size_t size = connections_.receive(connection, message_);
  if (size == 0) return;
  Request request;
  if (parse_request(message_, size, &request)) return obey(connection, request, message_, size);
  Answer answer = {};
  answer.id = request.id;
  answer.status = Status::kBadRequest;
  connections_.answer(connection, answer);
}

void Cell::obey(uint32_t connection, const Request& request, const char* message, size_t size) {
  Answer answer = {};
  answer.id = request.id;
  Job* job = jobs_.find(request.job);
  const bool needs_job = request.op != Op::kPing && request.op != Op::kClaim &&
                         request.op != Op::kStart && request.op != Op::kList;
  if (needs_job && job == nullptr) {
    answer.status = Status::kNoSuchJob;
    return connections_.answer(connection, answer);
  }
  switch (request.op) {
    case Op::kPing:
      answer.kind = Answer::Kind::kPing;
      answer.deadline_ms = now_ms() + kPingMsMax;
      break;
    case Op::kClaim:
      claim(&answer, request, message, size);
      break;
    case Op::kStart:
      start(&answer, request);
      break;
    case Op::kRead:
      // Who asks for no bytes waits for the end only.
      if (request.read.bytes_max > 0)
        jobs_.note_reader(job, request.read.output_offset, request.read.error_offset);
      wait_for_news(&answer, job, request.read);
      break;
    case Op::kWrite:
      write_input(&answer, job, request);
      break;
    case Op::kCloseInput:
      jobs_.close_input(job);
      break;
    case Op::kSignal:
      signal(&answer, *job, request.signal);
      break;
    case Op::kResize:
      resize(&answer, *job, request.resize);
      break;
    case Op::kList:
      answer.kind = Answer::Kind::kList;
      break;
    case Op::kForget:
      if (job->reaped) {
        jobs_.release(job);
      } else {
        answer.status = Status::kFailed;
        answer.os_error = EBUSY;
      }
      break;
  }
  connections_.answer(connection, answer);
}

void Cell::claim(Answer* answer, const Request& request, const char* message, size_t size) {
  const size_t payload = size - kHeaderBytes;
  if (claimed_) {
    const bool same =
        payload == claim_size_ && memcmp(claim_message_, message + kHeaderBytes, payload) == 0;
    answer->status = same ? Status::kDone : Status::kOtherClaim;
    return;
  }
  // A cell that was never given the right keeps the name it has.
  const bool named = *request.hostname == '\0' ||
                     sethostname(request.hostname, strlen(request.hostname)) == 0 || errno == EPERM;
  const int error = named ? drop_sys_admin() : errno;
  if (error != 0) {
    answer->status = Status::kFailed;
    answer->step = named ? Step::kIdentity : Step::kHostname;
    answer->os_error = error;
    return;
  }
  claimed_ = true;
  if (request.output_bytes_max != 0) jobs_.limit_output(request.output_bytes_max);
  shell_.on_claim(now_ms());
  claim_size_ = payload;
  memcpy(claim_message_, message + kHeaderBytes, payload);
  const char* from = message + kHeaderBytes;
  claim_user_ = claim_message_ + (request.user - from);
  claim_directory_ = claim_message_ + (request.directory - from);
  claim_environment_ = {claim_message_ + (request.environment.first - from),
                        request.environment.count};
}

void Cell::start(Answer* answer, const Request& request) {
  Job* job = jobs_.find(request.job);
  if (job == nullptr) {
    if (!claimed_) {
      answer->status = Status::kNotClaimed;
      return;
    }
    job = jobs_.allocate(request.job, request.start);
    if (job == nullptr) {
      answer->status = Status::kTableFull;
      return;
    }
    const Failure failure = launch(job, request);
    if (failure.step != Step::kNone) {
      jobs_.release(job);
      answer->status = Status::kFailed;
      answer->step = failure.step;
      answer->os_error = failure.os_error;
      return;
    }
  }
  Read read = {};
  read.wait_ms = request.start.wait_ms;
  read.bytes_max = kMessageBytesMax;
  wait_for_news(answer, job, read);
}

namespace {

// The line of `/bin/bash -l -c LINE`; nullptr for any other program.
const char* login_line(const Request& request) {
  if ((request.start.flags & kBuiltin) != 0 || request.arguments.count != 4) return nullptr;
  constexpr const char* kWords[] = {"/bin/bash", "-l", "-c"};
  const char* argument = request.arguments.first;
  for (const char* const word : kWords) {
    if (strcmp(argument, word) != 0) return nullptr;
    argument += strlen(argument) + 1;
  }
  return argument;
}

}  // namespace

Failure Cell::launch(Job* job, const Request& request) {
  shell_.on_job();
  const Start& start = request.start;
  const bool terminal = (start.flags & kTerminal) != 0;
  const bool shell_line = (start.flags & kShellLine) != 0;
  const char* name = *request.user != '\0' ? request.user : claim_user_;
  User user;
  char own[16];
  TextWriter(own, sizeof own).add_number(geteuid()).finish();
  // Before the first job nobody can have changed the files in which users are found.
  if (!started_any_ && *name != '\0' && strcmp(name, shell_.user().name) == 0) {
    user = shell_.user();
  } else if (const int error =
                 find_user(text_of(*name != '\0' ? name : own), kPasswd, kGroup, &user)) {
    return {Step::kFindUser, error};
  }
  const bool first = !started_any_;
  started_any_ = true;
  // A sandbox that was made without root has one user. The template's choice is a default, which
  // gives way; who asks for another one is refused.
  if (*request.user == '\0' && geteuid() != 0) {
    user.uid = geteuid();
    user.gid = getegid();
    user.group_count = 0;
  }
  environment_.build(claim_environment_, request.environment, user, terminal);

  const bool chosen = *request.directory != '\0' || *claim_directory_ != '\0';
  const char* directory = *request.directory != '\0' ? request.directory : claim_directory_;
  TextWriter path(directory_, sizeof directory_);
  if (*directory != '/') path.add(user.home);
  if (*directory != '/' && *directory != '\0') path.add_byte('/');
  if (path.add(directory).finish() == nullptr) return {Step::kDirectory, ENAMETOOLONG};

  Streams streams = {};
  // The profiles that a login shell has read are the template's: another job may have changed them.
  const char* const line_of_login = first ? login_line(request) : nullptr;
  const bool for_shell = shell_line || line_of_login != nullptr;
  if (for_shell && !terminal && start.open_files_max == 0 && start.file_bytes_max == 0) {
    const WaitingShell::Line line{shell_line ? ShellKind::kPlain : ShellKind::kLogin,
                                  &user,
                                  &environment_,
                                  directory_,
                                  !chosen,
                                  shell_line ? request.arguments.first : line_of_login};
    if (const pid_t pid = shell_.take(line, &streams)) {
      jobs_.run(job, pid, &streams, start);
      return {};
    }
  }

  Launch launch;
  launch.user = &user;
  launch.directory = directory_;
  launch.directory_is_a_wish = !chosen;
  launch.terminal = terminal;
  launch.open_files_max = start.open_files_max;
  launch.file_bytes_max = start.file_bytes_max;
  launch.environment = environment_.strings();
  launch.path = environment_.find("PATH");
  launch.argv = argv_ + 1;
  if (shell_line) {
    launch.program = "/bin/sh";
    launch.argv[launch.argc++] = const_cast<char*>("sh");
    launch.argv[launch.argc++] = const_cast<char*>("-c");
  }
  const char* argument = request.arguments.first;
  for (uint32_t i = 0; i < request.arguments.count; ++i, argument += strlen(argument) + 1) {
    launch.argv[launch.argc++] = const_cast<char*>(argument);
  }
  launch.argv[launch.argc] = nullptr;

  const InputMode input = (start.flags & kInputOpen) != 0 ? InputMode::kOpen : InputMode::kEmpty;
  Failure failure = terminal ? open_terminal(user, start.rows, start.columns, &streams)
                             : open_pipes(input, empty_input_, &streams);
  if (failure.step != Step::kNone) return failure;
  launch.streams = &streams;
  const bool builtin = (start.flags & kBuiltin) != 0;
  const pid_t pid = builtin ? launch_builtin(launch, &failure) : launch_program(launch, &failure);
  if (pid == 0) {
    close_all(&streams, empty_input_);
    return failure;
  }
  close_child_ends(&streams, empty_input_);
  jobs_.run(job, pid, &streams, start);
  return {};
}

void Cell::wait_for_news(Answer* answer, Job* job, const Read& read) {
  answer->kind = Answer::Kind::kRead;
  answer->job = jobs_.index_of(job);
  answer->generation = job->generation;
  answer->deadline_ms = deadline_of(read.wait_ms);
  answer->read = read;
}

void Cell::write_input(Answer* answer, Job* job, const Request& request) {
  answer->kind = Answer::Kind::kWrite;
  answer->job = jobs_.index_of(job);
  answer->generation = job->generation;
  answer->read.output_offset = request.input_offset;
  const bool held =
      !jobs_.write_input(job, request.input_offset, request.input, request.input_size);
  answer->deadline_ms = held ? UINT64_MAX : 0;
}

void Cell::signal(Answer* answer, const Job& job, const Signal& signal) {
  const pid_t pid = static_cast<pid_t>(job.state.pid);
  // The number of a process that was reaped may be another's.
  if (!job.reaped) {
    if (signal.reach == Reach::kJob) return kill_job_processes(pid);
    if (kill(signal.reach == Reach::kGroup ? -pid : pid, signal.number) == 0) return;
  }
  answer->status = Status::kFailed;
  answer->step = Step::kSignal;
  answer->os_error = job.reaped ? ESRCH : errno;
}

void Cell::resize(Answer* answer, const Job& job, const Resize& resize) {
  winsize size = {};
  size.ws_row = resize.rows;
  size.ws_col = resize.columns;
  const int file = job.streams[0].file;
  if ((job.state.flags & kTerminal) != 0 && file > 0 && ioctl(file, TIOCSWINSZ, &size) == 0) return;
  answer->status = Status::kFailed;
  answer->step = Step::kTerminal;
  answer->os_error = ENOTTY;
}

}  // namespace pons::cell
