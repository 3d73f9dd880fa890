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
    if (writer.add(cut_until(&path, ':')).add("/sh").finish() != nullptr) (void)access(file, X_OK);
  }
}

struct Variable {
  explicit Variable(const char* string) : value(text_of(string)), name(cut_until(&value, '=')) {}
  Text value;
  Text name;
};

void add_variable(TextWriter* writer, const Variable& variable) {
  writer->add(variable.name).add_byte('=').add_quoted(variable.value);
}

void add_change_of_directory(TextWriter* writer, const char* directory) {
  if (strcmp(directory, "/") == 0) return;
  writer->add("cd -P -- ").add_quoted(text_of(directory)).add(" || exit 126;unset OLDPWD;");
}

bool write_plain(const WaitingShell::Line& line, TextWriter* writer) {
  for (uint32_t i = 0; i < line.environment->count(); ++i) {
    const Variable variable(line.environment->strings()[i]);
    if (!can_be_exported(variable.name)) return false;
    add_variable(&writer->add("export "), variable);
    writer->add_byte(';');
  }
  add_change_of_directory(writer, line.directory);
  writer->add("eval ").add_quoted(text_of(line.line)).add_byte('\n');
  return true;
}

enum class Standing { kNew, kSame, kOther };

Standing standing_of(const Variable& variable, const Environment& begun_with) {
  for (uint32_t i = 0; i < begun_with.count(); ++i) {
    const Variable earlier(begun_with.strings()[i]);
    if (!equal(earlier.name, variable.name)) continue;
    return equal(earlier.value, variable.value) ? Standing::kSame : Standing::kOther;
  }
  return Standing::kNew;
}

// Names of its own that the line could trip over are gone when the line runs. A profile that knows
// one of the new variables may have decided otherwise with it: then it is a new shell's turn.
bool write_login(const WaitingShell::Line& line, const Environment& begun_with,
                 TextWriter* writer) {
  const Environment& environment = *line.environment;
  writer->add("_pons_line=").add_quoted(text_of(line.line)).add(";_pons_new=(");
  uint32_t count = 0;
  for (uint32_t i = 0; i < environment.count(); ++i) {
    const Variable variable(environment.strings()[i]);
    const Standing standing = standing_of(variable, begun_with);
    if (standing == Standing::kSame) continue;
    if (standing == Standing::kOther || !can_be_exported(variable.name)) return false;
    if (count++ > 0) writer->add_byte(' ');
    add_variable(writer, variable);
  }
  writer->add(");");
  add_change_of_directory(writer, line.directory);
  if (count > 0) {
    writer->add("for _pons_name in \"${_pons_new[@]%%=*}\";do [[ -v $_pons_name ]] && exec env -i");
    for (uint32_t i = 0; i < begun_with.count(); ++i) {
      add_variable(&writer->add_byte(' '), Variable(begun_with.strings()[i]));
    }
    writer->add(
        " \"${_pons_new[@]}\" /bin/bash -l -c \"$_pons_line\";done;export \"${_pons_new[@]}\";");
  }
  writer->add("unset _pons_new _pons_name\n");
  return true;
}

}  // namespace

size_t write_shell_script(const WaitingShell::Line& line, const Environment& begun_with, char* to,
                          size_t capacity) {
  TextWriter writer(to, capacity);
  writer.add("exec 9<&-;");
  const bool written = line.kind == ShellKind::kPlain ? write_plain(line, &writer)
                                                      : write_login(line, begun_with, &writer);
  return written && writer.fits() ? writer.size() : 0;
}

void WaitingShell::set_up(Poller* poller, ShellKind kind, uint64_t now_ms) {
  poller_ = poller;
  kind_ = kind;
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
  // A line that bash evaluates inside of a sourced file names that file in its complaints: there
  // the script only prepares. The shell's argv has room in front, see Launch.
  char* plain[] = {nullptr, const_cast<char*>("sh"), const_cast<char*>("-c"),
                   const_cast<char*>("exec 8>&-;. /dev/fd/9"), nullptr};
  char* login[] = {nullptr,
                   const_cast<char*>("/bin/bash"),
                   const_cast<char*>("-l"),
                   const_cast<char*>("-c"),
                   const_cast<char*>("exec 8>&-;. /dev/fd/9;eval \"unset _pons_line;$_pons_line\""),
                   nullptr};
  Launch launch;
  launch.user = &user_;
  launch.directory = "/";
  launch.streams = &streams_;
  launch.script = script_ends[0];
  launch.ready_line = ready_ends[1];
  launch.argv = (kind_ == ShellKind::kPlain ? plain : login) + 1;
  launch.argc = kind_ == ShellKind::kPlain ? 3 : 4;
  launch.environment = start_environment.strings();
  launch.program = kind_ == ShellKind::kPlain ? "/bin/sh" : "/bin/bash";
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
  if (state_ != State::kWaiting || line.kind != kind_ ||
      memcmp(line.user, &user_, sizeof user_) != 0)
    return 0;
  Line fed = line;
  if (!may_enter(fed.directory, user_)) {
    if (!fed.directory_is_a_wish) return 0;
    fed.directory = "/";
  }
  const size_t size = write_shell_script(fed, start_environment, script, sizeof script);
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
