#include "pons/store_testing/postgres_server.h"

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "direct_stream.h"
#include "pons/base/check.h"
#include "pons/linux/run_task.h"

namespace pons::store {

namespace {

constexpr const char* kUser = "pons";
constexpr const char* kDatabase = "postgres";
constexpr Duration kStartTime = std::chrono::minutes(1);

[[noreturn]] void give_up(std::string_view why) {
  fmt::print(stderr, "cannot start PostgreSQL for tests: {}\n", why);
  std::abort();
}

std::string find_programs() {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/usr/lib/postgresql", ignored))
    if (std::filesystem::exists(entry.path() / "bin/postgres"))
      found.push_back(entry.path() / "bin");
  if (found.empty()) give_up("there is none below /usr/lib/postgresql");
  return *std::ranges::max_element(found);
}

// The server refuses to be root; what root starts is somebody else's, and ends with the test.
std::vector<std::string> as_nobody(std::vector<std::string> argv) {
  if (geteuid() != 0) return argv;
  std::vector<std::string> all = {"/usr/bin/setpriv", "--reuid=nobody", "--regid=nogroup",
                                  "--clear-groups", "--pdeathsig=KILL"};
  all.insert(all.end(), argv.begin(), argv.end());
  return all;
}

linux::ChildProcess spawn(std::vector<std::string> argv, const std::string& log) {
  argv = as_nobody(std::move(argv));
  const auto output = linux::open_file(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (!output) give_up(output.error().describe());
  auto child = linux::ChildProcess::spawn(
      argv.front(), {.argv = argv,
                     .environment = {"PATH=/usr/bin:/bin", "LC_ALL=C"},
                     .descriptors = {{output->get(), 1}, {output->get(), 2}}});
  if (!child) give_up(child.error().describe());
  return std::move(*child);
}

}  // namespace

PostgresServer::PostgresServer() : programs_(find_programs()) {
  char name[] = "/tmp/pons-postgres-XXXXXX";
  if (mkdtemp(name) == nullptr) give_up("no temporary folder");
  directory_ = name;
  if (geteuid() == 0) {
    const passwd* nobody = getpwnam("nobody");
    CHECK(nobody != nullptr && chown(name, nobody->pw_uid, nobody->pw_gid) == 0);
  }
  const std::string log = directory_ + "/log";
  auto made = spawn({programs_ + "/initdb", "-D", directory_ + "/data", "-U", kUser, "-E", "UTF8",
                     "--locale=C", "--auth-local=trust", "--auth-host=reject", "--no-sync"},
                    log);
  if (!made.wait().success()) give_up(linux::read_file(log).value_or("initdb failed"));
  start();
}

PostgresServer::~PostgresServer() {
  if (process_) stop(SIGQUIT);
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

PostgresServer& PostgresServer::shared() {
  static PostgresServer server;
  return server;
}

void PostgresServer::spawn_server() {
  process_ =
      spawn({programs_ + "/postgres", "-D", directory_ + "/data", "-c", "listen_addresses=", "-c",
             "unix_socket_directories=" + directory_, "-c", "shared_buffers=16MB", "-c",
             "max_connections=60", "-c", "log_min_messages=log"},
            directory_ + "/log");
}

void PostgresServer::start() {
  spawn_server();
  // Until it lets somebody in.
  const TimePoint deadline = std::chrono::steady_clock::now() + kStartTime;
  const auto loop = std::move(*linux::Loop::create());
  while (!linux::run_to_end(*loop, opener(*loop, kDatabase)(deadline))) {
    if (std::chrono::steady_clock::now() > deadline)
      give_up(linux::read_file(directory_ + "/log").value_or("it does not answer"));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    // It refuses to run while children of one that was killed have not noticed that yet.
    if (process_->try_wait()) spawn_server();
  }
}

void PostgresServer::stop(int signal) {
  (void)process_->send_signal(signal);
  process_->wait();
  process_.reset();
  if (signal != SIGKILL) return;
  // Its children notice that it is gone; the next one waits for them.
  std::error_code ignored;
  std::filesystem::remove(directory_ + "/data/postmaster.pid", ignored);
}

std::string PostgresServer::empty_database() {
  execute(kDatabase, "DROP SCHEMA public CASCADE; CREATE SCHEMA public");
  return kDatabase;
}

void PostgresServer::execute(const std::string& database, const std::string& sql) {
  const auto loop = std::move(*linux::Loop::create());
  const auto run = [](OpenStream open, std::string text) -> Task<Result<void>> {
    CO_TRY(const auto stream, co_await open(std::chrono::steady_clock::now() + kStartTime));
    co_return co_await run_directly(*stream, std::move(text));
  };
  const auto done = linux::run_to_end(*loop, run(opener(*loop, database), sql));
  if (!done) give_up(fmt::format("{}: {}", sql, done.error().describe()));
}

OpenStream PostgresServer::opener(linux::Loop& loop, std::string database) const {
  return [&loop, path = directory_ + "/.s.PGSQL.5432", database = std::move(database)](
             TimePoint deadline) { return open_directly(loop, path, kUser, database, deadline); };
}

}  // namespace pons::store
