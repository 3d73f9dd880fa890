#include "throwaway_pons.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "pons/base/text.h"
#include "pons/supervisor/supervisor.h"

namespace pons::trial {

namespace {

namespace files = std::filesystem;

constexpr Duration kStartTime = std::chrono::minutes(2);
constexpr Duration kEndTime = std::chrono::minutes(1);
constexpr Duration kLook = std::chrono::milliseconds(50);
constexpr std::size_t kAnswerBytesMax = 64 << 20;
constexpr std::size_t kLogBytesShown = 2'000;

std::string state_of(const std::string& directory) {
  return directory + "/state";
}

// A directory cannot have two names: it is made anew, as it was.
Result<void> make_like(const std::string& from, const std::string& to) {
  struct stat info{};
  if (mkdir(to.c_str(), 0700) != 0 || lstat(from.c_str(), &info) != 0 ||
      lchown(to.c_str(), info.st_uid, info.st_gid) != 0 ||
      chmod(to.c_str(), info.st_mode & 07777U) != 0)
    return os_error("link layers of the harness", to);
  return {};
}

// Layers never change: the same files serve both, under names of their own.
Result<void> link_layer(const std::string& from, const std::string& to) {
  TRY_VOID(make_like(from, to));
  std::error_code error;
  for (auto entry = files::recursive_directory_iterator(from, error);
       !error && entry != files::recursive_directory_iterator(); entry.increment(error)) {
    const std::string path = entry->path().string();
    const std::string place = to + path.substr(from.size());
    if (entry->is_directory() && !entry->is_symlink()) {
      TRY_VOID(make_like(path, place));
    } else if (link(path.c_str(), place.c_str()) != 0) {
      return os_error("link layers of the harness", place);
    }
  }
  if (!error) return {};
  return make_error(ErrorCode::kIo, "link layers of the harness", error.message());
}

std::string refusal_text(const std::string& body) {
  const auto json = parse_json(body);
  if (json && json->is_object() && json->contains("error") && json->at("error").is_object())
    return json->at("error").value("message", body);
  return body;
}

}  // namespace

void DirectoryTraits::close(const std::string& path) noexcept {
  std::error_code ignored;
  files::remove_all(path, ignored);
}

ThrowawayPons::ThrowawayPons(linux::Loop& loop, TemporaryDirectory directory,
                             linux::ChildProcess child)
    : loop_(loop),
      directory_(std::move(directory)),
      child_(std::move(child)),
      sandboxes_(std::make_unique<sandbox::RemoteProvider>(
          loop, http::unix_connector(
                    loop, supervisor::control_socket_path(state_of(directory_.get()), "warden")))) {
}

ThrowawayPons::~ThrowawayPons() {
  (void)child_.send_signal(SIGTERM);
  (void)child_.wait_until(std::chrono::steady_clock::now() + kEndTime);
}

Result<std::unique_ptr<ThrowawayPons>> ThrowawayPons::start(linux::Loop& loop, const Order& order,
                                                            Json settings) {
  if (mkdir(order.directory.c_str(), 0711) != 0)
    return os_error("make directory for the trial", order.directory);
  TemporaryDirectory directory(order.directory);
  chmod(order.directory.c_str(), 0711);  // whatever umask there is: roles have users of their own
  settings["state_dir"] = state_of(order.directory);
  settings["listen"] = "127.0.0.1:0";
  const std::string config = order.directory + "/pons.yaml";
  TRY_VOID(linux::write_file_atomically(config, dump_json(settings), 0600));
  const linux::UniqueFd log =
      TRY(linux::open_file(order.directory + "/log", O_WRONLY | O_CREAT | O_APPEND, 0600));
  std::vector<std::string> environment;
  for (const char* name : {"PATH", "LANG", "TZ"})
    if (const char* value = std::getenv(name))
      environment.push_back(fmt::format("{}={}", name, value));
  auto child = TRY(linux::ChildProcess::spawn(
      order.program, {.argv = {"pons", "up", "--config", config},
                      .environment = std::move(environment),
                      .descriptors = {{log.get(), STDOUT_FILENO}, {log.get(), STDERR_FILENO}}}));
  return std::unique_ptr<ThrowawayPons>(
      new ThrowawayPons(loop, std::move(directory), std::move(child)));
}

std::string ThrowawayPons::log() const {
  std::string text =
      linux::read_file(directory_.get() + "/log", std::size_t{64} << 20).value_or("");
  if (text.size() > kLogBytesShown) text.erase(0, text.size() - kLogBytesShown);
  return text;
}

http::Client& ThrowawayPons::client_of(const std::string& role) {
  auto& client = clients_[role];
  if (!client)
    client = std::make_unique<http::Client>(
        loop_,
        http::unix_connector(loop_,
                             supervisor::control_socket_path(state_of(directory_.get()), role)),
        "pons");
  return *client;
}

Task<Result<Json>> ThrowawayPons::ask(std::string role, std::string method, std::string target,
                                      Json body) {
  CO_TRY(auto response,
         co_await client_of(role).send({.method = std::move(method),
                                        .target = std::move(target),
                                        .body = body.is_null() ? std::string() : dump_json(body)}));
  CO_TRY(const std::string text, co_await response.read_whole_body(kAnswerBytesMax));
  if (response.status() >= 400)
    co_return make_error(ErrorCode::kUnavailable, "ask the Pons of the trial", refusal_text(text));
  co_return parse_json(text, {.depth = 128, .bytes = kAnswerBytesMax});
}

Task<Result<Json>> ThrowawayPons::status() {
  CO_TRY(Json status, co_await ask("supervisor", "GET", "/status"));
  if (!status.value("ready", false))
    co_return make_error(ErrorCode::kUnavailable, "ask the Pons of the trial", "it is not ready");
  co_return std::move(status);
}

Task<Result<void>> ThrowawayPons::make_ready(std::string layers,
                                             std::vector<sandbox::TemplateInfo> templates) {
  const TimePoint deadline = loop_.now() + kStartTime;
  while (!co_await status()) {
    if (const auto ended = child_.try_wait())
      co_return make_error(
          ErrorCode::kUnavailable, "start a Pons for the trial",
          fmt::format("it ended ({}); it said: {}", ended->describe(), trim(log())));
    if (loop_.now() > deadline)
      co_return make_error(ErrorCode::kTimeout, "start a Pons for the trial",
                           fmt::format("it is not ready; it said: {}", trim(log())));
    co_await loop_.sleep_for(kLook);
  }
  const std::string own = state_of(directory_.get()) + "/spawner/layers";
  if (mkdir(own.c_str(), 0700) != 0 && errno != EEXIST)
    co_return os_error("link layers of the harness", own);
  for (sandbox::TemplateInfo& info : templates) {
    for (const std::string& layer : info.layers)
      if (const std::string place = fmt::format("{}/{}", own, layer); !files::exists(place))
        CO_TRY_VOID(link_layer(fmt::format("{}/{}", layers, layer), place));
    info.held_layers.clear();
    CO_TRY_VOID(co_await sandboxes_->put_template(std::move(info)));
  }
  co_return {};
}

Task<Result<void>> ThrowawayPons::restart_role(std::string role) {
  const auto pid_in = [&](const Json& status) {
    for (const Json& each : status.at("roles"))
      if (each.value("role", "") == role && each.value("state", "") == "ready")
        return each.value("pid", 0);
    return 0;
  };
  CO_TRY(const Json before, co_await status());
  const int former = pid_in(before);
  if (former <= 0 || kill(former, SIGKILL) != 0) co_return os_error("kill role", role);
  const TimePoint deadline = loop_.now() + kStartTime;
  for (;;) {
    co_await loop_.sleep_for(kLook);
    const auto now = co_await status();
    if (now && pid_in(*now) != 0 && pid_in(*now) != former) co_return {};
    if (loop_.now() > deadline)
      co_return make_error(ErrorCode::kTimeout, "restart role", role + " does not come back");
  }
}

Result<std::vector<Json>> ThrowawayPons::decisions() const {
  std::vector<Json> all;
  std::error_code error;
  const std::string directory = state_of(directory_.get()) + "/egress/audit";
  for (const auto& entry : files::directory_iterator(directory, error)) {
    if (!entry.is_regular_file(error)) continue;
    const std::string text = TRY(linux::read_file(entry.path().string(), std::size_t{64} << 20));
    for (const std::string_view line : split(text, '\n'))
      if (auto json = parse_json(line); json && json->is_object()) all.push_back(std::move(*json));
  }
  if (error) return make_error(ErrorCode::kIo, "read decisions", error.message());
  return all;
}

Task<Result<std::vector<std::string>>> ThrowawayPons::written_files(std::string sandbox) {
  // Its topmost layer is what was written in it, and nothing else.
  CO_TRY(const auto taken,
         co_await sandboxes_->snapshot(sandbox, fmt::format("trial-{}", ++snapshots_)));
  std::vector<std::string> paths;
  if (taken.layers.empty()) co_return paths;
  const files::path root =
      fmt::format("{}/spawner/layers/{}/fs", state_of(directory_.get()), taken.layers.front());
  std::error_code error;
  for (auto entry = files::recursive_directory_iterator(root, error);
       !error && entry != files::recursive_directory_iterator(); entry.increment(error))
    if (!entry->is_directory(error) || entry->is_symlink(error))
      paths.push_back(entry->path().lexically_relative(root).string());
  if (error) co_return make_error(ErrorCode::kIo, "read what was written", error.message());
  std::ranges::sort(paths);
  co_return paths;
}

}  // namespace pons::trial
