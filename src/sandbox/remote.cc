#include "pons/sandbox/remote.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <nlohmann/json.hpp>

#include "line_stream.h"
#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/http/error_status.h"
#include "pons/linux/unix_socket.h"
#include "pons/sandbox/wire.h"
#include "remote_dial.h"
#include "remote_job.h"
#include "target.h"

namespace pons::sandbox {

namespace {

constexpr const char* kStep = "ask for sandbox";
constexpr std::size_t kAnswerBytesMax = 64 * 1024 * 1024;
constexpr std::size_t kHeadBytesMax = 8 * 1024;  // a buffer of this size for every stream
constexpr std::size_t kErrorBytesMax = 64 * 1024;
// A cold template may have to be unpacked before a create answers.
constexpr Duration kFirstByteTime = std::chrono::minutes(5);
constexpr Duration kOpenTime = std::chrono::minutes(1);

http::ClientRequest get(Target target) {
  return {.method = "GET", .target = std::move(target).text()};
}

http::ClientRequest with_body(const char* method, Target target, const Json& body) {
  return {.method = method,
          .target = std::move(target).text(),
          .fields = {{"Content-Type", "application/json"}},
          .body = dump_json(body)};
}

http::ClientRequest without_body(const char* method, Target target) {
  return {.method = method, .target = std::move(target).text()};
}

// JSON has no way to write such a name, and another name must not be set in its place.
Result<void> check_names(const std::map<std::string, std::string>& values) {
  for (const auto& [name, value] : values)
    if (!is_valid_utf8(name))
      return make_error(ErrorCode::kInvalid, kStep, "a name in the environment is no UTF-8");
  return {};
}

class RemoteBytes final : public ByteSource {
 public:
  explicit RemoteBytes(http::ClientResponse response) : response_(std::move(response)) {}
  Task<Result<std::string>> next() override {
    CO_TRY(const std::string_view piece, co_await response_.read_body());
    co_return std::string(piece);
  }

 private:
  http::ClientResponse response_;
};

// A body that a ByteSource gives.
struct Upload {
  std::unique_ptr<ByteSource> source;
  std::string piece;

  static Task<Result<std::string_view>> next(std::shared_ptr<Upload> self) {
    CO_TRY(self->piece, co_await self->source->next());
    co_return std::string_view(self->piece);
  }
};

}  // namespace

RemoteProvider::RemoteProvider(linux::Loop& loop, http::Connector connector, std::string host)
    : loop_(loop),
      client_(loop, std::move(connector), std::move(host),
              {.head = {.bytes = kHeadBytesMax}, .first_byte_time = kFirstByteTime}),
      dialled_(loop) {}

// ---- asking

Task<Result<http::ClientResponse>> RemoteProvider::send(http::ClientRequest request) {
  CO_TRY(auto response, co_await client_.send(std::move(request)));
  if (response.status() >= 200 && response.status() < 300) co_return std::move(response);
  const auto body = co_await response.read_whole_body(kErrorBytesMax);
  co_return http::error_of(kStep, response.status(), body.value_or(""));
}

Task<Result<Json>> RemoteProvider::ask(http::ClientRequest request) {
  CO_TRY(auto response, co_await send(std::move(request)));
  CO_TRY(const std::string body, co_await response.read_whole_body(kAnswerBytesMax));
  co_return parse_json(body, {.bytes = kAnswerBytesMax});
}

Task<Result<void>> RemoteProvider::tell(http::ClientRequest request) {
  CO_TRY(auto response, co_await send(std::move(request)));
  CO_TRY_VOID(co_await response.read_whole_body(kErrorBytesMax));
  co_return {};
}

template <class T>
Task<Result<T>> RemoteProvider::ask_for(http::ClientRequest request) {
  CO_TRY(const Json json, co_await ask(std::move(request)));
  co_return from_json<T>(json);
}

template <class T>
Task<Result<std::vector<T>>> RemoteProvider::ask_for_list(http::ClientRequest request,
                                                          const char* key) {
  CO_TRY(const Json json, co_await ask(std::move(request)));
  if (!json.is_object() || json.size() != 1 || !json.contains(key) || !json[key].is_array())
    co_return make_error(ErrorCode::kInvalid, kStep,
                         fmt::format("the answer is not {{\"{}\":[…]}}", key));
  std::vector<T> values;
  for (const Json& entry : json[key]) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (!entry.is_string())
        co_return make_error(ErrorCode::kInvalid, kStep, fmt::format("\"{}\" must hold text", key));
      values.push_back(entry.get<std::string>());
    } else {
      CO_TRY(T value, from_json<T>(entry));
      values.push_back(std::move(value));
    }
  }
  co_return values;
}

// ---- templates

Task<Result<std::vector<TemplateInfo>>> RemoteProvider::list_templates() {
  return ask_for_list<TemplateInfo>(get(Target({"templates"})), "templates");
}

Task<Result<void>> RemoteProvider::put_template(TemplateInfo info) {
  CO_TRY_VOID(check_names(info.environment));
  co_return co_await tell(with_body("PUT", Target({"templates", info.name}), to_json(info)));
}

Task<Result<std::vector<std::string>>> RemoteProvider::remove_template(std::string name) {
  return ask_for_list<std::string>(without_body("DELETE", Target({"templates", name})),
                                   "unreferenced_layers");
}

// ---- sandboxes

Task<Result<SandboxInfo>> RemoteProvider::create(CreateRequest request) {
  CO_TRY_VOID(check_names(request.environment));
  CO_TRY_VOID(check_names(request.labels));
  co_return co_await ask_for<SandboxInfo>(
      with_body("POST", Target({"sandboxes"}), to_json(request)));
}

Task<Result<SandboxInfo>> RemoteProvider::inspect(std::string id) {
  return ask_for<SandboxInfo>(get(Target({"sandboxes", id})));
}

Task<Result<std::vector<SandboxInfo>>> RemoteProvider::list() {
  return ask_for_list<SandboxInfo>(get(Target({"sandboxes"})), "sandboxes");
}

Task<Result<void>> RemoteProvider::destroy(std::string id) {
  return tell(without_body("DELETE", Target({"sandboxes", id})));
}

Task<Result<Metrics>> RemoteProvider::metrics(std::string id) {
  return ask_for<Metrics>(get(Target({"sandboxes", id, "metrics"})));
}

Task<Result<SandboxInfo>> RemoteProvider::set_limits(std::string id, Limits limits) {
  return ask_for<SandboxInfo>(
      with_body("PUT", Target({"sandboxes", id, "limits"}), to_json(limits)));
}

Task<Result<SandboxInfo>> RemoteProvider::set_lifetime(std::string id, Milliseconds from_now,
                                                       bool pause_at_end) {
  return ask_for<SandboxInfo>(
      with_body("PUT", Target({"sandboxes", id, "lifetime"}),
                {{"from_now_ms", from_now.count()}, {"pause_at_end", pause_at_end}}));
}

Task<Result<SandboxInfo>> RemoteProvider::set_label(std::string id, std::string name,
                                                    std::string value) {
  std::map<std::string, std::string> label{{std::move(name), std::move(value)}};
  CO_TRY_VOID(check_names(label));
  co_return co_await ask_for<SandboxInfo>(
      with_body("PUT", Target({"sandboxes", id, "labels"}), label));
}

Task<Result<SandboxInfo>> RemoteProvider::pause(std::string id) {
  return ask_for<SandboxInfo>(without_body("POST", Target({"sandboxes", id, "pause"})));
}

Task<Result<SandboxInfo>> RemoteProvider::resume(std::string id) {
  return ask_for<SandboxInfo>(without_body("POST", Target({"sandboxes", id, "resume"})));
}

// ---- jobs

Task<Result<std::unique_ptr<JobStream>>> RemoteProvider::follow(http::ClientRequest request,
                                                                JobOffsets from) {
  CO_TRY(auto response, co_await send(std::move(request)));
  auto job = std::make_unique<RemoteJob>(LineStream(loop_, std::move(response)), from);
  CO_TRY_VOID(co_await job->open(loop_.now() + kOpenTime));
  co_return std::unique_ptr<JobStream>(std::move(job));
}

Task<Result<std::unique_ptr<JobStream>>> RemoteProvider::execute(std::string id, JobSpec job) {
  CO_TRY_VOID(check_names(job.environment));
  co_return co_await follow(with_body("POST", Target({"sandboxes", id, "jobs"}), to_json(job)), {});
}

Task<Result<std::unique_ptr<JobStream>>> RemoteProvider::attach(std::string id, std::string job,
                                                                JobOffsets from) {
  return follow(get(Target({"sandboxes", id, "jobs", job})
                        .with("output", from.output)
                        .with("error", from.error)),
                from);
}

Task<Result<std::vector<JobInfo>>> RemoteProvider::list_jobs(std::string id) {
  return ask_for_list<JobInfo>(get(Target({"sandboxes", id, "jobs"})), "jobs");
}

Task<Result<void>> RemoteProvider::write_input(std::string id, std::string job, std::string bytes) {
  return tell({.method = "POST",
               .target = Target({"sandboxes", id, "jobs", job, "input"}).text(),
               .fields = {{"Content-Type", "application/octet-stream"}},
               .body = std::move(bytes)});
}

Task<Result<void>> RemoteProvider::close_input(std::string id, std::string job) {
  return tell(without_body("DELETE", Target({"sandboxes", id, "jobs", job, "input"})));
}

Task<Result<void>> RemoteProvider::signal(std::string id, std::string job, int number) {
  return tell(
      with_body("POST", Target({"sandboxes", id, "jobs", job, "signal"}), {{"signal", number}}));
}

Task<Result<void>> RemoteProvider::kill(std::string id, std::string job) {
  return tell(without_body("POST", Target({"sandboxes", id, "jobs", job, "kill"})));
}

Task<Result<void>> RemoteProvider::resize(std::string id, std::string job, TerminalSize size) {
  return tell(with_body("POST", Target({"sandboxes", id, "jobs", job, "resize"}), to_json(size)));
}

// ---- files

Task<Result<std::unique_ptr<ByteSource>>> RemoteProvider::read_file(
    std::string id, std::string path, std::string user, std::uint64_t offset, std::uint64_t size) {
  CO_TRY(auto response, co_await send(get(Target({"sandboxes", id, "file"})
                                              .with("path", path)
                                              .with("user", user)
                                              .with("offset", offset)
                                              .with("size", size))));
  co_return std::unique_ptr<ByteSource>(std::make_unique<RemoteBytes>(std::move(response)));
}

Task<Result<FileInfo>> RemoteProvider::write_file(std::string id, std::string path,
                                                  WriteOptions options,
                                                  std::unique_ptr<ByteSource> bytes) {
  CO_TRY_VOID(check_names(options.attributes));
  Target target = Target({"sandboxes", id, "file"})
                      .with("path", path)
                      .with("user", options.user)
                      .with("mode", fmt::format("{:04o}", options.mode))
                      .with("parents", options.create_parents ? "1" : "0")
                      .with("append", options.append ? "1" : "0")
                      .with("exclusive", options.must_not_exist ? "1" : "0");
  if (options.in_place) target.with("in_place", "1");
  if (!options.owner.empty()) target.with("owner", options.owner);
  for (const auto& [name, value] : options.attributes) target.with("attribute", name + "=" + value);
  http::ClientRequest request{.method = "PUT",
                              .target = std::move(target).text(),
                              .fields = {{"Content-Type", "application/octet-stream"}}};
  auto upload = std::make_shared<Upload>(std::move(bytes));
  request.body_source = [upload] { return Upload::next(upload); };
  co_return co_await ask_for<FileInfo>(std::move(request));
}

Task<Result<FileInfo>> RemoteProvider::stat_file(std::string id, std::string path,
                                                 std::string user) {
  return ask_for<FileInfo>(
      get(Target({"sandboxes", id, "stat"}).with("path", path).with("user", user)));
}

Task<Result<std::vector<FileInfo>>> RemoteProvider::list_files(std::string id, std::string path,
                                                               std::string user,
                                                               std::uint32_t depth) {
  return ask_for_list<FileInfo>(get(Target({"sandboxes", id, "files"})
                                        .with("path", path)
                                        .with("user", user)
                                        .with("depth", depth)),
                                "files");
}

Task<Result<FileInfo>> RemoteProvider::make_directory(std::string id, std::string path,
                                                      std::string user, std::string owner) {
  return ask_for<FileInfo>(without_body("POST", Target({"sandboxes", id, "directory"})
                                                    .with("path", path)
                                                    .with("user", user)
                                                    .with("owner", owner)));
}

Task<Result<void>> RemoteProvider::remove_file(std::string id, std::string path, std::string user) {
  return tell(without_body(
      "DELETE", Target({"sandboxes", id, "file"}).with("path", path).with("user", user)));
}

Task<Result<FileInfo>> RemoteProvider::rename_file(std::string id, std::string from, std::string to,
                                                   std::string user) {
  return ask_for<FileInfo>(without_body(
      "POST",
      Target({"sandboxes", id, "rename"}).with("from", from).with("to", to).with("user", user)));
}

Task<Result<std::unique_ptr<ChangeStream>>> RemoteProvider::watch_files(std::string id,
                                                                        std::string path,
                                                                        std::string user,
                                                                        bool recursive) {
  CO_TRY(auto response, co_await send(get(Target({"sandboxes", id, "changes"})
                                              .with("path", path)
                                              .with("user", user)
                                              .with("recursive", recursive ? "1" : "0"))));
  co_return std::unique_ptr<ChangeStream>(
      std::make_unique<RemoteChanges>(LineStream(loop_, std::move(response))));
}

// ---- versions

Task<Result<std::string>> RemoteProvider::checkpoint(std::string id, std::string name) {
  CO_TRY(const Json json, co_await ask(with_body("POST", Target({"sandboxes", id, "checkpoints"}),
                                                 {{"name", name}})));
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string())
    co_return make_error(ErrorCode::kInvalid, kStep, "the answer names no checkpoint");
  co_return json["name"].get<std::string>();
}

Task<Result<void>> RemoteProvider::rollback(std::string id, std::string name) {
  return tell(without_body("POST", Target({"sandboxes", id, "checkpoints", name, "rollback"})));
}

Task<Result<void>> RemoteProvider::commit(std::string id, std::string name) {
  return tell(without_body("POST", Target({"sandboxes", id, "checkpoints", name, "commit"})));
}

Task<Result<SandboxInfo>> RemoteProvider::fork(std::string id, CreateRequest request) {
  CO_TRY_VOID(check_names(request.environment));
  CO_TRY_VOID(check_names(request.labels));
  co_return co_await ask_for<SandboxInfo>(
      with_body("POST", Target({"sandboxes", id, "fork"}), to_json(request)));
}

Task<Result<TemplateInfo>> RemoteProvider::snapshot(std::string id, std::string template_name) {
  return ask_for<TemplateInfo>(
      with_body("POST", Target({"sandboxes", id, "snapshot"}), {{"template", template_name}}));
}

Task<Result<linux::UniqueFd>> RemoteProvider::dial(std::string id, std::uint16_t port) {
  CO_TRY(auto socket, co_await client_.open_websocket(
                          Target({"sandboxes", id, "dial", std::to_string(port)}).text()));
  CO_TRY(auto pair, linux::create_socket_pair(SOCK_STREAM));
  CO_TRY(auto local, http::create_plain_transport(loop_, std::move(pair.second)));
  dialled_.spawn(carry(loop_, std::move(socket), std::move(local)));
  co_return std::move(pair.first);
}

}  // namespace pons::sandbox
