#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/e2b/directory.h"
#include "pons/http/router.h"
#include "pons/linux/loop.h"
#include "pons/sandbox/provider.h"

namespace pons::e2b {

// Who asks, as the door has found out.
struct Caller {
  std::string project;
};

// What the control plane needs beside sandboxes, and others hold.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  // kDenied with a sentence for the caller when the request opens no door.
  virtual Result<Caller> authenticate(const http::Exchange& exchange) = 0;
  // Durable when it returns.
  virtual Task<Result<void>> record_created(const Caller& caller,
                                            const sandbox::SandboxInfo& info) = 0;
  virtual Task<Result<void>> record_ended(const Caller& caller, std::string id) = 0;
  // From now on the sandbox is under this policy: JSON text.
  virtual Task<Result<void>> set_network(std::string id, std::string policy) = 0;
};

struct ControlSettings {
  std::string domain;  // of sandboxes' ports: PORT-ID.DOMAIN; empty: they have no names
};

// Sandboxes as E2B's SDKs ask for them: create, connect, list, kill, timeouts, pause, fork,
// network, snapshots, metrics; old and new paths. A caller sees the sandboxes of its own project,
// and of no other.
class ControlPlane {
 public:
  ControlPlane(linux::Loop& loop, sandbox::Provider& provider, Directory& directory,
               Surroundings& surroundings, ControlSettings settings);

  Task<> handle(http::Exchange& exchange) { return handler_(exchange); }

 private:
  struct Request;
  using Work = Task<Result<http::Response>> (ControlPlane::*)(Request);
  http::RouteHandler handler_of(Work work);
  Task<> answer(http::Exchange& exchange, Work work, std::string word);
  http::Handler make_handler();

  Task<Result<http::Response>> create(Request request);
  Task<Result<http::Response>> list(Request request);
  Task<Result<http::Response>> inspect(Request request);
  Task<Result<http::Response>> kill(Request request);
  Task<Result<http::Response>> connect(Request request);
  Task<Result<http::Response>> set_timeout(Request request);
  Task<Result<http::Response>> refresh(Request request);
  Task<Result<http::Response>> pause(Request request);
  Task<Result<http::Response>> fork(Request request);
  Task<Result<http::Response>> update_network(Request request);
  Task<Result<http::Response>> metrics(Request request);
  Task<Result<http::Response>> logs(Request request);
  Task<Result<http::Response>> snapshot(Request request);
  Task<Result<http::Response>> list_snapshots(Request request);
  Task<Result<http::Response>> remove_template(Request request);

  // kNotFound as well when it is another project's.
  Task<Result<sandbox::SandboxInfo>> find(const Caller& caller, std::string id);
  Task<Result<sandbox::SandboxInfo>> fork_one(const Caller& caller,
                                              const sandbox::SandboxInfo& from,
                                              sandbox::Milliseconds timeout);
  // The name by which the warden knows the template that the caller means.
  Task<Result<std::string>> resolve_template(const Caller& caller, std::string_view wanted);
  Task<Result<void>> learn_templates();
  bool has_template(std::string_view name) const;

  // Makes it and writes it down at the same time: both have to wait for others.
  Task<Result<sandbox::SandboxInfo>> make_recorded(const Caller& caller,
                                                   sandbox::CreateRequest create);
  Task<> record_end(Caller caller, std::string id);

  linux::Loop& loop_;
  sandbox::Provider& provider_;
  Directory& directory_;
  Surroundings& surroundings_;
  ControlSettings settings_;
  http::Handler handler_;
  std::vector<sandbox::TemplateInfo> templates_;
  TimePoint templates_until_{};
  struct Usage {
    std::int64_t unix_ms = 0;
    std::uint64_t cpu_usec = 0;
  };
  std::map<std::string, Usage> last_usage_;
  linux::TaskGroup tasks_;  // last: its tasks use all of the above
};

}  // namespace pons::e2b
