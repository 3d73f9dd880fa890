#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "kernel.h"
#include "launch.h"

namespace pons::cell {
namespace {

int set_non_blocking(int file) {
  return fcntl(file, F_SETFL, O_NONBLOCK);
}

bool open_pipe(int* read_end, int* write_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  *read_end = ends[0];
  *write_end = ends[1];
  return true;
}

}  // namespace

Failure open_pipes(InputMode input, int empty_input, Streams* streams) {
  *streams = Streams{};
  bool good = true;
  if (input == InputMode::kOpen) {
    good =
        open_pipe(&streams->child[0], &streams->own[0]) && set_non_blocking(streams->own[0]) == 0;
  } else {
    streams->child[0] = empty_input;
  }
  for (int i = 1; i <= 2 && good; ++i) {
    good =
        open_pipe(&streams->own[i], &streams->child[i]) && set_non_blocking(streams->own[i]) == 0;
  }
  if (good) return {};
  const Failure failure{Step::kPipes, errno};
  close_all(streams, empty_input);
  return failure;
}

Failure open_terminal(const User& user, uint16_t rows, uint16_t columns, Streams* streams) {
  *streams = Streams{};
  const int unlock = 0;
  winsize size = {};
  size.ws_row = rows != 0 ? rows : 24;
  size.ws_col = columns != 0 ? columns : 80;
  const int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (master < 0) return {Step::kTerminal, errno};
  streams->own[1] = master;
  int slave = -1;
  if (ioctl(master, TIOCSPTLCK, &unlock) == 0) {
    slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  }
  if (slave >= 0) {
    for (int& end : streams->child) end = slave;
    streams->own[0] = fcntl(master, F_DUPFD_CLOEXEC, 3);
  }
  if (slave < 0 || streams->own[0] < 0 || ioctl(master, TIOCSWINSZ, &size) != 0) {
    const Failure failure{Step::kTerminal, errno};
    if (streams->own[0] < 0) streams->own[0] = 0;
    close_all(streams, 0);
    return failure;
  }
  // So that the user can open its own terminal by name. A cell without the right to give files
  // away runs jobs as itself only.
  if (user.uid != geteuid() && fchown(slave, user.uid, static_cast<gid_t>(-1)) != 0) {
    const Failure failure{Step::kTerminal, errno};
    close_all(streams, 0);
    return failure;
  }
  return {};
}

void close_child_ends(Streams* streams, int empty_input) {
  for (int i = 0; i < 3; ++i) {
    const int end = streams->child[i];
    streams->child[i] = 0;
    if (end == 0 || end == empty_input) continue;
    if (i < 2 && end == streams->child[2]) continue;  // a terminal: closed with the last of them
    close(end);
  }
}

void close_all(Streams* streams, int empty_input) {
  close_child_ends(streams, empty_input);
  for (int& end : streams->own) {
    if (end > 0) close(end);
    end = 0;
  }
}

}  // namespace pons::cell
