#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "candidate.h"

namespace pons::bench {

namespace {

constexpr int kPatienceMs = 30'000;

std::string with_id(std::string word, const std::string& id) {
  const auto at = word.find("{id}");
  return at == std::string::npos ? word : word.replace(at, 4, id);
}

}  // namespace

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

void fail(const std::string& what) {
  std::fprintf(stderr, "bench sandbox: %s\n", what.c_str());
  std::exit(1);
}

std::vector<Peer> read_peers(const std::string& path) {
  std::vector<Peer> peers;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Peer peer;
    std::getline(words, peer.name, '\t');
    for (std::string word; std::getline(words, word, '\t');) peer.words.push_back(word);
    peers.push_back(std::move(peer));
  }
  return peers;
}

Taken Peer::run() const {
  static std::atomic<unsigned> number = 0;
  const std::string id = std::to_string(getpid()) + "-" + std::to_string(++number);
  std::vector<std::string> owned;
  for (const std::string& word : words) owned.push_back(with_id(word, id));
  std::vector<char*> argv;
  for (std::string& word : owned) argv.push_back(word.data());
  argv.push_back(nullptr);

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  const auto began = Clock::now();
  pid_t pid = -1;
  if (posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ) != 0)
    fail("cannot start " + name);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  Taken taken;
  pollfd ready{.fd = ends[0], .events = POLLIN, .revents = 0};
  char byte = 0;
  if (poll(&ready, 1, kPatienceMs) != 1 || read(ends[0], &byte, 1) != 1)
    fail(name + " said nothing");
  taken.first_byte = milliseconds(Clock::now() - began);
  int status = 0;
  waitpid(pid, &status, 0);
  taken.ended = milliseconds(Clock::now() - began);
  close(ends[0]);
  if (status != 0) fail(name + " ended with " + std::to_string(status));
  return taken;
}

}  // namespace pons::bench
