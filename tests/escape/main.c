#include "attack.h"

#include <signal.h>
#include <stdarg.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { kSecondsPerAttack = 5, kHeld = 0, kThrough = 1 };

const char* broken(const char* format, ...) {
  static char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

// In a process of its own: a filter may kill, an attack may hang, and none spoils the next.
static void attempt(const struct Attack* attack) {
  int lines[2];
  if (pipe(lines) != 0) exit(2);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kSecondsPerAttack);
    const char* through = attack->run();
    if (through != NULL) dprintf(lines[1], "%s", through);
    _exit(through == NULL ? kHeld : kThrough);
  }
  close(lines[1]);
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  // Not until the end: an attack's own children may hold the other side.
  fcntl(lines[0], F_SETFL, O_NONBLOCK);
  char text[512] = "";
  const ssize_t size = read(lines[0], text, sizeof text - 1);
  text[size > 0 ? size : 0] = 0;
  close(lines[0]);
  if (child < 0)
    printf("%s ERROR no process\n", attack->name);
  else if (WIFSIGNALED(status) && WTERMSIG(status) != SIGSYS)
    printf("%s ERROR signal %d\n", attack->name, WTERMSIG(status));
  else if (WIFEXITED(status) && WEXITSTATUS(status) == kThrough)
    printf("%s THROUGH %s\n", attack->name, text);
  else
    printf("%s held\n", attack->name);
  fflush(stdout);
}

// ---- the other half of attacks across sandboxes

static int listen_abstract(const char* name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const size_t size = strlen(name);
  if (size >= sizeof address.sun_path) return 2;
  memcpy(address.sun_path + 1, name, size);
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(listener, (struct sockaddr*)&address, (socklen_t)(sizeof(sa_family_t) + 1 + size)) !=
          0 ||
      listen(listener, 1) != 0)
    return 2;
  printf("ready\n");
  fflush(stdout);
  pause();
  return 0;
}

static int share_memory(const char* key) {
  const int id = shmget((key_t)atoi(key), 4096, IPC_CREAT | 0666);
  if (id < 0) return 2;
  printf("ready\n");
  fflush(stdout);
  pause();
  return 0;
}

int main(int count, char** arguments) {
  if (count == 3 && strcmp(arguments[1], "--listen") == 0) return listen_abstract(arguments[2]);
  if (count == 3 && strcmp(arguments[1], "--share") == 0) return share_memory(arguments[2]);
  if (count == 2 && strcmp(arguments[1], "--whoami") == 0)
    return printf("%d %d\n", (int)getuid(), (int)geteuid()) < 0;
  const char* descriptors = odd_descriptors();
  printf("inherited_descriptors %s%s\n", descriptors == NULL ? "held" : "THROUGH ",
         descriptors == NULL ? "" : descriptors);
  fflush(stdout);
  const struct Attack* tables[] = {kKernelAttacks, kNamespaceAttacks, kProcessAttacks, kFileAttacks,
                                   kNetworkAttacks};
  for (size_t table = 0; table < sizeof tables / sizeof *tables; ++table)
    for (const struct Attack* attack = tables[table]; attack->name != NULL; ++attack)
      if (count < 2 || strcmp(arguments[1], attack->name) == 0) attempt(attack);
  return 0;
}
