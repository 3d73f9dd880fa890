#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
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

struct OpenRecord {
  std::string id;
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
  virtual Task<Result<void>> record_ended(std::string project, std::string id,
                                          std::string reason) = 0;
  // Sandboxes of whose making there is a record and of whose end there is none: some of those
  // behind `after`, by id; none when there are no more.
  virtual Task<Result<std::vector<OpenRecord>>> list_open_records(std::string after) = 0;
  // From now on the sandbox is under this policy: JSON text.
  virtual Task<Result<void>> set_network(std::string id, std::string policy) = 0;
  // The policy that it is under.
  virtual Task<Result<std::string>> find_network(std::string id) = 0;
  // A question about the secrets of a project, and the answer: JSON texts, as of the vault's
  // secret_routes.h.
  virtual Task<Result<std::string>> ask_secrets(std::string question) = 0;
};

struct ControlSettings {
  std::string domain;  // of sandboxes' ports: PORT-ID.DOMAIN; empty: they have no names
};

// Sandboxes as E2B's SDKs ask for them: create, connect, list, kill, timeouts, pause, fork,
// network, snapshots, metrics, secrets; old and new paths. A caller sees the sandboxes of its own
// project, and of no other.
class ControlPlane {
 public:
  ControlPlane(linux::Loop& loop, sandbox::Provider& provider, Directory& directory,
               Surroundings& surroundings, ControlSettings settings);

  Task<> handle(http::Exchange& exchange) { return handler_(exchange); }
  // Answers a request that gets no further, in the words that its caller expects.
  static void refuse(http::Exchange& exchange, int status, std::string_view message);
  // Tells the store of sandboxes that ended by themselves; happens now and then without being
  // asked.
  Task<Result<void>> record_ends();

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
  Task<Result<http::Response>> metrics_of_several(Request request);
  Task<Result<http::Response>> logs(Request request);
  Task<Result<http::Response>> snapshot(Request request);
  Task<Result<http::Response>> list_snapshots(Request request);
  Task<Result<http::Response>> remove_template(Request request);
  Task<Result<http::Response>> find_alias(Request request);
  Task<Result<http::Response>> create_secret(Request request);
  Task<Result<http::Response>> list_secrets(Request request);
  Task<Result<http::Response>> inspect_secret(Request request);
  Task<Result<http::Response>> update_secret(Request request);
  Task<Result<http::Response>> remove_secret(Request request);

  // kNotFound as well when it is another project's.
  Task<Result<sandbox::SandboxInfo>> find(const Caller& caller, std::string id);
  Task<Result<sandbox::SandboxInfo>> fork_one(const Caller& caller,
                                              const sandbox::SandboxInfo& from,
                                              sandbox::Milliseconds timeout,
                                              std::string checkpoint);
  Task<Result<void>> end_processes(std::string id);
  Task<> follow_ends();
  // The name by which the warden knows the template that the caller means.
  Task<Result<std::string>> resolve_template(const Caller& caller, std::string_view wanted);
  Task<Result<void>> learn_templates();
  bool has_template(std::string_view name) const;

  // Makes it and writes it down at the same time: both have to wait for others.
  Task<Result<sandbox::SandboxInfo>> make_recorded(const Caller& caller,
                                                   sandbox::CreateRequest create);
  Task<> give_up(std::string project, std::string id);
  Task<> record_end(std::string project, std::string id, std::string reason);

  linux::Loop& loop_;
  sandbox::Provider& provider_;
  Directory& directory_;
  Surroundings& surroundings_;
  ControlSettings settings_;
  http::Handler handler_;
  std::vector<sandbox::TemplateInfo> templates_;
  TimePoint templates_until_{};
  // What was measured when somebody asked, oldest first.
  struct Sample {
    std::int64_t unix_ms = 0;
    double cpu_pct = 0;
    sandbox::Metrics usage;
  };
  Task<Result<const std::deque<Sample>*>> measure(sandbox::SandboxInfo info);
  std::map<std::string, std::deque<Sample>> usage_;
  std::set<std::string> being_made_;  // have a record, and may not live yet
  linux::TaskGroup background_;       // last: it uses all of the above
};

}  // namespace pons::e2b
