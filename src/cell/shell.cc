#include "shell.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pons::cell {
namespace {

constexpr const char* kPasswd = "/etc/passwd";
constexpr const char* kGroup = "/etc/group";
constexpr uint32_t kFirstUser = 1000;
constexpr uint64_t kStartAfterMs = 20;

char script[64 * 1024];
Environment start_environment;

// Names that mean something to a running shell, which ignores them when they are inherited.
constexpr const char* kSpecialNames[] = {
    "IFS",     "OPTIND", "OPTARG", "PS1",    "PS2",       "PS4",      "PPID",
    "LINENO",  "UID",    "EUID",   "GROUPS", "SHELLOPTS", "BASHOPTS", "RANDOM",
    "SECONDS", "PWD",    "OLDPWD", "ENV",    "_",         "FUNCNAME", "DIRSTACK"};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool can_be_exported(Text name) {
  if (name.size == 0 || !is_letter(name.data[0])) return false;
  for (size_t i = 0; i < name.size; ++i) {
    if (!is_letter(name.data[i]) && (name.data[i] < '0' || name.data[i] > '9')) return false;
  }
  for (const char* special : kSpecialNames) {
    if (equal(name, text_of(special))) return false;
  }
  return name.size < 5 || strncmp(name.data, "BASH_", 5) != 0;
}

// Whether the user can enter it, as far as the directory itself tells.
bool may_enter(const char* directory, const User& user) {
  struct stat status;
  if (stat(directory, &status) != 0 || !S_ISDIR(status.st_mode)) return false;
  if (user.uid == 0 || (status.st_mode & S_IXOTH) != 0) return true;
  return status.st_uid == user.uid && (status.st_mode & S_IXUSR) != 0;
}

// What the first program's start has to look up, it finds in memory then.
void look_around(Text path) {
  char file[256];
  while (path.size > 0) {
    TextWriter writer(file, sizeof file);
    if (writer.add(cut_until(&path, ':')).add("/sh").finish() != nullptr) access(file, X_OK);
  }
}

}  // namespace

size_t write_shell_script(const WaitingShell::Line& line, char* to, size_t capacity) {
  TextWriter writer(to, capacity);
  writer.add("exec 9<&-;");
  char** strings = line.environment->strings();
  for (uint32_t i = 0; i < line.environment->count(); ++i) {
    Text value = text_of(strings[i]);
    const Text name = cut_until(&value, '=');
    if (!can_be_exported(name)) return 0;
    writer.add("export ").add(name).add_byte('=').add_quoted(value).add_byte(';');
  }
  if (strcmp(line.directory, "/") != 0) {
    writer.add("cd -P -- ").add_quoted(text_of(line.directory)).add(" || exit 126;unset OLDPWD;");
  }
  writer.add("eval ").add_quoted(text_of(line.line)).add_byte('\n');
  return writer.fits() ? writer.size() : 0;
}

void WaitingShell::set_up(Poller* poller, uint64_t now_ms) {
  poller_ = poller;
  due_ms_ = now_ms + kStartAfterMs;
  ends_ms_ = UINT64_MAX;
}

void WaitingShell::run_timers(uint64_t now_ms) {
  if (now_ms >= due_ms_) {
    due_ms_ = UINT64_MAX;
    start();
  }
  if (now_ms >= ends_ms_) {
    ends_ms_ = UINT64_MAX;
    dismiss();
  }
}

void WaitingShell::start() {
  char number[16];
  const uint32_t own = geteuid();
  const uint32_t uid = own != 0 ? own : has_user_number(kFirstUser, kPasswd) ? kFirstUser : 0;
  TextWriter(number, sizeof number).add_number(uid).finish();
  if (find_user(text_of(number), kPasswd, kGroup, &user_) != 0) return;

  int script_ends[2];
  int ready_ends[2];
  if (open_pipes(InputMode::kOpen, 0, &streams_).step != Step::kNone) return;
  if (pipe2(script_ends, O_CLOEXEC) != 0) return close_all(&streams_, 0);
  if (pipe2(ready_ends, O_CLOEXEC) != 0) {
    close(script_ends[0]);
    close(script_ends[1]);
    return close_all(&streams_, 0);
  }
  // The shell opens its script by name, which goes by the owner of the pipe.
  const bool owned = user_.uid == own || fchown(script_ends[0], user_.uid, user_.gid) == 0;
  // Others of the same user can open it as well and fill it, which must not stop the cell.
  fcntl(script_ends[1], F_SETFL, O_NONBLOCK);
  const int bytes = fcntl(script_ends[1], F_GETPIPE_SZ);
  script_bytes_max_ = bytes > 0 ? static_cast<size_t>(bytes) : 0;

  start_environment.build({}, {}, user_, false);
  char* argv[] = {nullptr, const_cast<char*>("sh"), const_cast<char*>("-c"),
                  const_cast<char*>("exec 8>&-;. /dev/fd/9"), nullptr};
  Launch launch;
  launch.user = &user_;
  launch.directory = "/";
  launch.streams = &streams_;
  launch.script = script_ends[0];
  launch.ready_line = ready_ends[1];
  launch.argv = argv + 1;
  launch.argc = 3;
  launch.environment = start_environment.strings();
  launch.program = "/bin/sh";
  Failure failure;
  pid_ = owned ? launch_program(launch, &failure) : 0;
  close_child_ends(&streams_, 0);
  close(script_ends[0]);
  close(ready_ends[1]);
  script_ = script_ends[1];
  ready_ = ready_ends[0];
  state_ = State::kStarting;
  if (pid_ == 0 || !poller_->add(ready_, EPOLLIN, Source::kShell, 0)) stop();
  look_around(text_of(start_environment.find("PATH")));
}

void WaitingShell::on_ready() {
  if (state_ != State::kStarting) return;
  state_ = State::kWaiting;
  poller_->remove(ready_);
  close(ready_);
  ready_ = 0;
}

bool WaitingShell::on_reaped(pid_t pid) {
  if (state_ == State::kNone || pid != pid_) return false;
  stop();
  return true;
}

void WaitingShell::dismiss() {
  if (state_ == State::kNone) return;
  kill(pid_, SIGKILL);
  stop();
}

void WaitingShell::stop() {
  if (ready_ > 0) close(ready_);
  if (script_ > 0) close(script_);
  ready_ = 0;
  script_ = 0;
  pid_ = 0;
  close_all(&streams_, 0);
  state_ = State::kNone;
}

pid_t WaitingShell::take(const Line& line, Streams* streams) {
  if (state_ != State::kWaiting || memcmp(line.user, &user_, sizeof user_) != 0) return 0;
  Line fed = line;
  if (!may_enter(fed.directory, user_)) {
    if (!fed.directory_is_a_wish) return 0;
    fed.directory = "/";
  }
  const size_t size = write_shell_script(fed, script, sizeof script);
  if (size == 0 || size > script_bytes_max_) return 0;
  if (write(script_, script, size) != static_cast<ssize_t>(size)) {
    stop();
    return 0;
  }
  const pid_t pid = pid_;
  *streams = streams_;
  streams_ = Streams{};
  pid_ = 0;
  stop();
  return pid;
}

}  // namespace pons::cell
