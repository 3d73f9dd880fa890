#include "attachments.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>

#include "access_requests.h"
#include "flow.h"
#include "flow_share.h"
#include "names_service.h"
#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/egress/trust_files.h"

namespace pons::egress {

namespace {

constexpr std::size_t kRecordBytesMax = 16 << 20;  // all that a request may bring, escaped
constexpr std::size_t kPolicySecretBytesMax = 64 * 1024;
constexpr std::string_view kEnvironments = "environments";

int socket_option(int socket, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  return getsockopt(socket, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

bool is_inet(int socket, int type) {
  const int domain = socket_option(socket, SO_DOMAIN);
  return (domain == AF_INET || domain == AF_INET6) && socket_option(socket, SO_TYPE) == type;
}

// What the warden hands over must be what it says: it may have been broken into.
Result<void> check_sockets(int listener, int names) {
  if (is_inet(listener, SOCK_STREAM) && socket_option(listener, SO_ACCEPTCONN) == 1 &&
      is_inet(names, SOCK_DGRAM))
    return {};
  return make_error(ErrorCode::kInvalid, "attach sandbox", "these are not its sockets");
}

std::string kept_name(std::uint64_t key, std::string_view what) {
  return fmt::format("{:016x}.{}", key, what);
}

Result<linux::UniqueFd> write_record(const std::string& text) {
  linux::UniqueFd file(memfd_create("sandbox", MFD_CLOEXEC));
  if (!file) return os_error("keep sandbox");
  TRY_VOID(linux::write_all(file.get(), text));
  return file;
}

Result<Json> read_record(int file) {
  if (lseek(file, 0, SEEK_SET) != 0) return os_error("read record");
  const std::string text = TRY(linux::read_all(file, kRecordBytesMax));
  Json record = TRY(parse_json(text, {.bytes = kRecordBytesMax}));
  if (!record.is_object()) return make_error(ErrorCode::kInvalid, "read record", "another shape");
  return record;
}

// What a credential that cannot be read any more, or is gone, was known by inside.
std::map<std::string, std::string> read_stubs(const Json& record) {
  std::map<std::string, std::string> stubs;
  const auto found = record.find("stubs");
  if (found == record.end() || !found->is_object()) return stubs;
  for (const auto& [stub, name] : found->items())
    if (name.is_string() && stub.size() >= scan::kNeedleBytesMin &&
        stub.size() <= scan::kNeedleBytesMax)
      stubs[stub] = name.get<std::string>();
  return stubs;
}

// What cannot be read is asked for again.
std::vector<AccessGrant> read_grants(const Json& record) {
  std::vector<AccessGrant> grants;
  const auto found = record.find("granted");
  if (found == record.end() || !found->is_array()) return grants;
  for (const Json& one : *found) {
    if (!one.is_object() || grants.size() >= kGrantsMax) break;
    auto wish = read_access_wish(one.value("wish", Json::object()));
    if (wish) grants.push_back({one.value("request", ""), std::move(*wish)});
  }
  return grants;
}

// A value that the vault has forgotten must not live on until somebody looks for another.
void let_go(VaultNeedles& secrets, const BoundHosts& bound_hosts) {
  bound_hosts.refresh();
  (void)secrets.current();  // an error is told to the next request
}

}  // namespace

Attachments::Attachments(Boundary& boundary, roles::Keeper& keeper, PackageHosts packages,
                         std::map<std::string, std::string> environments)
    : boundary_(boundary),
      keeper_(keeper),
      packages_(std::move(packages)),
      environments_(std::move(environments)),
      bound_patterns_(boundary.bound_hosts.patterns()),
      room_(boundary.loop) {
  boundary_.vault.on_change([this] { on_vault_change(); });
  if (boundary_.project_vaults != nullptr)
    boundary_.project_vaults->on_change([this] { on_vault_change(); });
  boundary_.sent_secrets.on_new_host([this](const std::string& project, const HostPattern& host) {
    on_sent_to_new_host(project, host);
  });
  if (boundary_.project_secrets != nullptr)
    boundary_.project_secrets->on_change(
        [this](const std::string& project, const std::string& name) {
          on_secret_change(project, name);
        });
}

Attachments::~Attachments() {
  services_.clear();
  for (auto& sandbox : all_ | std::views::values) sandbox->flows.cancel_all();
}

// ---- coming and going

Result<std::shared_ptr<const Policy>> Attachments::compile(const PolicyChoice& choice) {
  const std::string* document = &choice.document;
  if (!choice.environment.empty()) {
    const auto found = environments_.find(choice.environment);
    if (found == environments_.end())
      return make_error(ErrorCode::kNotFound, "find environment",
                        fmt::format("there is no environment \"{}\"; environments in pons.yaml "
                                    "lists them",
                                    choice.environment));
    document = &found->second;
  }
  return Policy::compile(*document, ++generation_, packages_);
}

Result<std::shared_ptr<const Policy>> Attachments::find_policy(const PolicyChoice& choice) {
  if (choice.environment.empty() == choice.document.empty())
    return make_error(ErrorCode::kInvalid, "find environment",
                      "either an environment is named, or a policy given");
  auto policy = TRY(compile(choice));
  TRY_VOID(check_secrets(*policy));
  return policy;
}

Result<OwnVaults> Attachments::find_vaults(const std::string& project,
                                           const std::vector<std::string>& ids) {
  OwnVaults all;
  for (const std::string& id : ids) {
    const auto vault = boundary_.project_vaults == nullptr
                           ? nullptr
                           : boundary_.project_vaults->find_usable(project, id);
    if (vault == nullptr)
      return make_error(ErrorCode::kDenied, "find vault",
                        fmt::format("there is no vault {}, or it is archived", id));
    all.push_back(vaults_in_use_.of(vault));
  }
  return all;
}

// One that is gone takes its own credentials away and no others.
OwnVaults Attachments::vaults_that_are_left(const Policy& policy) {
  OwnVaults all;
  for (const std::string& id : policy.vaults())
    if (auto found = find_vaults(policy.project(), {id})) all.push_back(found->front());
  return all;
}

// All that it names is looked for at each host that it names it for.
Result<void> Attachments::check_secrets(const Policy& policy) const {
  std::set<std::pair<std::string, std::string>> counted;
  std::size_t bytes = 0;
  for (const FieldRule& rule : policy.field_rules()) {
    for (const auto& literal : rule.literals) bytes += literal->size();
    for (const FieldRule::Part& part : rule.parts) {
      if (!part.is_secret || !counted.emplace(text_of(rule.host), part.text).second) continue;
      const auto secret = boundary_.project_secrets == nullptr
                              ? nullptr
                              : boundary_.project_secrets->find_named(policy.project(), part.text);
      if (secret != nullptr) bytes += secret->value.size();
    }
  }
  if (bytes <= kPolicySecretBytesMax) return {};
  return make_error(ErrorCode::kInvalid, "read policy",
                    fmt::format("/fields: sends {} bytes of secrets, counted per host; {} are the "
                                "most",
                                bytes, kPolicySecretBytesMax));
}

Result<std::map<std::string, std::string>> Attachments::attach(Request request,
                                                               linux::UniqueFd listener,
                                                               linux::UniqueFd names) {
  TRY_VOID(check_sockets(listener.get(), names.get()));
  if (all_.contains(request.key))
    return make_error(ErrorCode::kConflict, "attach sandbox", "it is attached already");
  auto policy = TRY(compile(request.policy));
  TRY_VOID(check_secrets(*policy));
  // Stubs are made for an id: two that live at once would have the same ones.
  if (const auto namesake = find(request.id)) detach(namesake->key);
  auto sandbox =
      std::make_shared<AttachedSandbox>(boundary_.loop, request.key, request.id, std::move(policy));
  sandbox->own_vaults = vaults_that_are_left(*sandbox->policy);
  sandbox->listener = std::move(listener);
  sandbox->resolver = std::move(names);
  // A credential that is not there sets no variable: programs would take it for one that works.
  auto variables = trust_environment();
  for (const Grant& grant : sandbox->grants(boundary_.vault))
    variables[grant.credential->name] = grant.stub;
  sandbox->remember_grants(boundary_.vault);
  choices_[request.key] = request.policy;
  keep(*sandbox, request.policy);
  serve(sandbox);
  return variables;
}

void Attachments::serve(const std::shared_ptr<AttachedSandbox>& sandbox) {
  sandbox->remember_grants(boundary_.vault);
  all_[sandbox->key] = sandbox;
  auto& services = services_[sandbox->key];
  services = std::make_unique<linux::TaskGroup>(boundary_.loop);
  services->spawn(accept_flows(*sandbox));
  services->spawn(answer_names(boundary_, *sandbox));
}

void Attachments::detach(std::uint64_t key) {
  const auto found = all_.find(key);
  if (found == all_.end()) return;
  const std::shared_ptr<AttachedSandbox> sandbox = found->second;
  services_.erase(key);
  sandbox->flows.cancel_all();
  all_.erase(found);
  choices_.erase(key);
  granted_.erase(key);
  withdraw_requests();
  const std::string names[] = {kept_name(key, "tcp"), kept_name(key, "names"),
                               kept_name(key, "record")};
  if (auto dropped = keeper_.drop_soon(names); !dropped)
    LOG_WARN("cannot drop descriptors", {"error", dropped.error()});
  room_.set();
}

void Attachments::keep_only(const std::set<std::uint64_t>& keys) {
  std::vector<std::uint64_t> gone;
  for (const std::uint64_t key : all_ | std::views::keys)
    if (!keys.contains(key)) gone.push_back(key);
  for (const std::uint64_t key : gone) detach(key);
  withdraw_requests();  // also of those that a former process of egress had
}

// Nobody waits for what a sandbox wished that is gone.
void Attachments::withdraw_requests() {
  const auto withdrawn =
      boundary_.access.withdraw_others([this](std::uint64_t key) { return all_.contains(key); });
  if (!withdrawn)
    LOG_ERROR("access requests of a sandbox that is gone stay pending",
              {"error", withdrawn.error()});
}

// ---- over restarts

void Attachments::keep(const AttachedSandbox& sandbox, const PolicyChoice& choice) {
  Json granted = Json::array();
  if (const auto found = granted_.find(sandbox.key); found != granted_.end())
    for (const AccessGrant& grant : found->second)
      granted.push_back({{"request", grant.request}, {"wish", to_json(grant.wish)}});
  const auto record = write_record(dump_json({{"id", sandbox.id},
                                              {"environment", choice.environment},
                                              {"policy", choice.document},
                                              {"granted", std::move(granted)},
                                              {"stubs", sandbox.known_stubs()}}));
  if (!record) {
    LOG_ERROR("a sandbox will not be found again after a restart", {"error", record.error()});
    return;
  }
  const roles::Keeper::Put all[] = {{kept_name(sandbox.key, "tcp"), sandbox.listener.get()},
                                    {kept_name(sandbox.key, "names"), sandbox.resolver.get()},
                                    {kept_name(sandbox.key, "record"), record->get()}};
  if (auto put = keeper_.put_soon(all); !put)
    LOG_ERROR("a sandbox will not be found again after a restart", {"error", put.error()});
}

// They were set after the start, and stand above those of the start.
Result<void> Attachments::adopt_environments(int file) {
  const Json record = TRY(read_record(file));
  std::map<std::string, std::string> environments;
  for (const auto& [name, document] : record.items()) {
    if (!document.is_string())
      return make_error(ErrorCode::kInvalid, "read environments", "another shape");
    environments[name] = document.get<std::string>();
  }
  environments_ = std::move(environments);
  return {};
}

Result<void> Attachments::adopt() {
  std::map<std::uint64_t, std::map<std::string, linux::UniqueFd>> kept;
  for (roles::Keeper::Kept& item : TRY(keeper_.take_back())) {
    if (item.name == kEnvironments) TRY_VOID(adopt_environments(item.descriptor.get()));
    const auto dot = item.name.find('.');
    if (const auto key = parse_hex(item.name.substr(0, dot)))
      kept[*key][item.name.substr(dot + 1)] = std::move(item.descriptor);
  }
  for (auto& [key, parts] : kept) {
    if (parts.size() != 3) continue;  // its warden was told that it failed
    const auto record = read_record(parts["record"].get());
    if (!record) {
      // One that cannot be read must not keep all others from their network.
      LOG_ERROR("a sandbox cannot be taken over; it has no network", {"error", record.error()});
      continue;
    }
    const PolicyChoice choice{.environment = record->value("environment", ""),
                              .document = record->value("policy", "")};
    auto policy = compile(choice);
    if (!policy) {
      LOG_ERROR("a sandbox's policy is no more; its network is closed",
                {"sandbox", record->value("id", "")}, {"error", policy.error()});
      policy = Policy::closed(++generation_);
    }
    granted_[key] = read_grants(*record);
    policy = widen(std::move(*policy), key);
    auto sandbox = std::make_shared<AttachedSandbox>(boundary_.loop, key, record->value("id", ""),
                                                     std::move(*policy));
    sandbox->own_vaults = vaults_that_are_left(*sandbox->policy);
    sandbox->remember_stubs(read_stubs(*record));
    sandbox->listener = std::move(parts["tcp"]);
    sandbox->resolver = std::move(parts["names"]);
    choices_[key] = choice;
    assume_sent(*sandbox);
    serve(sandbox);
  }
  return {};
}

// What a former process has sent it does not tell: all that it may have.
void Attachments::assume_sent(const AttachedSandbox& sandbox) {
  const Policy& policy = *sandbox.policy;
  const auto note = [&](const HostPattern& host, const std::string& name,
                        std::shared_ptr<const Secret> value, std::uint16_t port = kHttpsPort) {
    if (auto noted = boundary_.sent_secrets.note({.host = host,
                                                  .port = port,
                                                  .project = policy.project(),
                                                  .name = name,
                                                  .value = std::move(value)});
        !noted)
      LOG_ERROR("a secret is not looked for until it is sent again", {"error", noted.error()});
  };
  for (const FieldRule& rule : policy.field_rules()) {
    for (const auto& literal : rule.literals) note(rule.host, "", literal);
    for (const FieldRule::Part& part : rule.parts) {
      if (!part.is_secret || boundary_.project_secrets == nullptr) continue;
      const auto secret = boundary_.project_secrets->find_named(policy.project(), part.text);
      if (secret != nullptr && secret->value.size() >= scan::kNeedleBytesMin)
        note(rule.host, part.text, std::shared_ptr<const Secret>(secret, &secret->value));
    }
  }
  for (const auto& own : sandbox.own_vaults)
    for (const auto& credential : own->vault->list())
      for (const vault::Binding& binding : credential->bindings)
        for (const std::uint16_t port : binding.ports)
          if (credential->scrub == vault::Scrub::kOn)
            note(pattern_of(binding), "",
                 std::shared_ptr<const Secret>(credential, &credential->value), port);
}

// ---- change

void Attachments::adopt_policy(AttachedSandbox& sandbox, std::shared_ptr<const Policy> policy) {
  sandbox.policy = std::move(policy);
  sandbox.own_vaults = vaults_that_are_left(*sandbox.policy);
  sandbox.remember_grants(boundary_.vault);
  sandbox.flows.cancel_all();
  room_.set();
}

std::shared_ptr<const Policy> Attachments::widen(std::shared_ptr<const Policy> policy,
                                                 std::uint64_t key) {
  const auto found = granted_.find(key);
  if (found == granted_.end()) return policy;
  for (const AccessGrant& grant : found->second)
    if (policy->find_obstacle(grant.wish.host).empty())
      policy = policy->widened(std::get<names::HostName>(grant.wish.host), grant.wish.port,
                               grant.wish.methods, fmt::format("person {}", grant.request));
  return policy;
}

// Nothing that is under way ends: all of it is allowed still.
Result<void> Attachments::grant(std::uint64_t key, AccessGrant grant) {
  const auto found = all_.find(key);
  if (found == all_.end())
    return make_error(ErrorCode::kNotFound, "grant access", "its sandbox is gone");
  AttachedSandbox& sandbox = *found->second;
  std::vector<AccessGrant>& granted = granted_[key];
  if (std::ranges::find(granted, grant.request, &AccessGrant::request) != granted.end()) return {};
  if (const auto obstacle = sandbox.policy->find_obstacle(grant.wish.host); !obstacle.empty())
    return make_error(ErrorCode::kDenied, "grant access", std::string(obstacle));
  if (granted.size() >= kGrantsMax)
    return make_error(ErrorCode::kLimit, "grant access",
                      "this sandbox has been allowed as much as one may be");
  sandbox.policy =
      sandbox.policy->widened(std::get<names::HostName>(grant.wish.host), grant.wish.port,
                              grant.wish.methods, fmt::format("person {}", grant.request));
  granted.push_back(std::move(grant));
  keep(sandbox, choices_[key]);
  return {};
}

Result<void> Attachments::set_policy(std::string_view id, PolicyChoice choice) {
  const auto sandbox = find(id);
  if (sandbox == nullptr)
    return make_error(ErrorCode::kNotFound, "set policy",
                      fmt::format("no sandbox \"{}\" has a network", id));
  auto policy = TRY(compile(choice));
  TRY_VOID(check_secrets(*policy));
  granted_.erase(sandbox->key);
  adopt_policy(*sandbox, std::move(policy));
  keep(*sandbox, choice);
  choices_[sandbox->key] = std::move(choice);
  return {};
}

Result<std::string> Attachments::document_of(std::string_view id) const {
  const auto sandbox = find(id);
  const auto choice = sandbox == nullptr ? choices_.end() : choices_.find(sandbox->key);
  if (choice == choices_.end())
    return make_error(ErrorCode::kNotFound, "find policy",
                      fmt::format("no sandbox \"{}\" has a network", id));
  if (choice->second.environment.empty()) return choice->second.document;
  const auto found = environments_.find(choice->second.environment);
  if (found == environments_.end())
    return make_error(ErrorCode::kNotFound, "find policy", "its environment is no more");
  return found->second;
}

// All or nothing: one document that cannot be used leaves everything as it was.
Result<void> Attachments::set_environments(std::map<std::string, std::string> environments) {
  for (const auto& [name, document] : environments) {
    if (auto compiled = Policy::compile(document, generation_, packages_); !compiled)
      return make_error(compiled.error().code, "set environments",
                        fmt::format("{}: {}", name, compiled.error().message));
  }
  // First of all, so that a restart does not bring back what was looser.
  const auto record = TRY(write_record(dump_json(environments)));
  const roles::Keeper::Put kept[] = {{std::string(kEnvironments), record.get()}};
  TRY_VOID(keeper_.put_soon(kept));
  environments_.swap(environments);
  const auto is_changed = [&](const std::string& name) {
    if (name.empty()) return false;
    const auto before = environments.find(name);
    const auto after = environments_.find(name);
    return before == environments.end() || after == environments_.end() ||
           before->second != after->second;
  };
  for_each_visitor([&](AttachedSandbox& sandbox, const std::string& environment) {
    if (is_changed(environment)) sandbox.flows.cancel_all();
  });
  for (auto& [key, sandbox] : all_) {
    if (!is_changed(choices_[key].environment)) continue;
    auto policy = compile(choices_[key]);
    adopt_policy(*sandbox, widen(policy ? *policy : Policy::closed(++generation_), key));
    keep(*sandbox, choices_[key]);
  }
  return {};
}

// A host that gets its first credential is looked into from now on, for every sandbox: what passes
// unseen to it ends.
bool Attachments::may_reach_newly_bound(const AttachedSandbox& sandbox,
                                        const std::set<BoundHosts::Pattern>& before) const {
  return std::ranges::any_of(bound_patterns_, [&](const BoundHosts::Pattern& pattern) {
    if (before.contains(pattern)) return false;
    const auto name = names::HostName::parse(pattern.first);
    return !name || sandbox.policy->judge_name(*name).allowed();  // a wildcard is no name
  });
}

// A credential that was taken away or replaced may be in use: what uses it ends. False when it is
// as it was.
bool Attachments::renew_grants(AttachedSandbox& sandbox,
                               const std::set<BoundHosts::Pattern>& bound_before) {
  const auto before = sandbox.granted;
  sandbox.remember_grants(boundary_.vault);
  const bool is_same =
      std::ranges::equal(sandbox.granted, before, [](const auto& now, const auto& then) {
        return now.first == then.first && is_same_use(*now.second, *then.second);
      });
  if (!is_same || may_reach_newly_bound(sandbox, bound_before)) sandbox.flows.cancel_all();
  for (const auto& own : sandbox.own_vaults) let_go(own->secrets, own->bound_hosts);
  return !is_same;
}

void Attachments::watch(const std::shared_ptr<AttachedSandbox>& visitor, std::string environment) {
  std::erase_if(visitors_, [](const Visitor& known) { return known.sandbox.expired(); });
  visitor->remember_grants(boundary_.vault);
  visitors_.push_back({.sandbox = visitor, .environment = std::move(environment)});
}

template <class Use>
void Attachments::for_each_visitor(const Use& use) {
  for (const Visitor& visitor : visitors_)
    if (const auto sandbox = visitor.sandbox.lock()) use(*sandbox, visitor.environment);
}

void Attachments::on_vault_change() {
  const std::set<BoundHosts::Pattern> bound_before =
      std::exchange(bound_patterns_, boundary_.bound_hosts.patterns());
  for (auto& [key, sandbox] : all_)
    if (renew_grants(*sandbox, bound_before)) keep(*sandbox, choices_[key]);
  for_each_visitor([&](AttachedSandbox& sandbox, const std::string&) {
    (void)renew_grants(sandbox, bound_before);
  });
  let_go(boundary_.secrets, boundary_.bound_hosts);
  room_.set();
}

// The same for a project's secret.
void Attachments::on_secret_change(const std::string& project, const std::string& name) {
  const auto now = boundary_.project_secrets->find_named(project, name);
  boundary_.sent_secrets.retire(project, name, now == nullptr ? nullptr : &now->value);
  for (auto& [key, sandbox] : all_)
    if (sandbox->policy->uses_secret(project, name)) sandbox->flows.cancel_all();
  for_each_visitor([&](AttachedSandbox& sandbox, const std::string&) {
    if (sandbox.policy->uses_secret(project, name)) sandbox.flows.cancel_all();
  });
  room_.set();
}

// Looked into from now on, for every sandbox of the project: what passes unseen to it ends. Whoever
// has a rule or a binding for the host is looked into already, and is the one who is about to send.
void Attachments::on_sent_to_new_host(const std::string& project, const HostPattern& host) {
  const std::string pattern = text_of(host);
  for (auto& [key, sandbox] : all_) {
    const bool has_rule =
        std::ranges::any_of(sandbox->policy->field_rules(),
                            [&](const FieldRule& rule) { return text_of(rule.host) == pattern; });
    const bool has_vault = std::ranges::any_of(sandbox->own_vaults, [&](const auto& own) {
      return std::ranges::any_of(own->bound_hosts.patterns(),
                                 [&](const auto& bound) { return bound.first == pattern; });
    });
    if (has_rule || has_vault || sandbox->policy->project() != project ||
        !sandbox->names.has_name([&](const names::HostName& name) { return host.matches(name); }))
      continue;
    sandbox->flows.cancel_all();
  }
  room_.set();
}

std::shared_ptr<AttachedSandbox> Attachments::find(std::string_view id) const {
  const auto found =
      std::ranges::find_if(all_, [&](const auto& item) { return item.second->id == id; });
  return found == all_.end() ? nullptr : found->second;
}

// ---- connections

Task<> Attachments::accept_flows(AttachedSandbox& sandbox) {
  auto watch = linux::Watch::create(boundary_.loop, sandbox.listener.get());
  if (!watch) co_return;
  for (int accepted = 0;;) {
    if (sandbox.traffic.connections >=
        flow_share(boundary_.flows, sandbox.policy->limits().connections)) {
      room_.reset();
      co_await room_.wait(boundary_.loop.now() + std::chrono::seconds(1));
      continue;
    }
    linux::UniqueFd socket(
        accept4(sandbox.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      sandbox.flows.spawn(run_flow(sandbox, std::move(socket)));
      // One that connects without pause must not keep the loop for itself.
      if (++accepted % 16 == 0) co_await boundary_.loop.next_round();
    } else if (errno == EAGAIN) {
      co_await watch->readable(kNever);
    } else if (errno != ECONNABORTED && errno != EINTR) {
      co_await boundary_.loop.sleep_for(std::chrono::milliseconds(100));
    }
  }
}

Task<> Attachments::run_flow(AttachedSandbox& sandbox, linux::UniqueFd socket) {
  struct Counted {
    std::uint64_t& own;
    std::uint64_t& all;
    linux::Event& room;
    Counted(std::uint64_t& o, std::uint64_t& a, linux::Event& r) : own(++o), all(++a), room(r) {}
    ~Counted() {
      --own;
      --all;
      room.set();
    }
  } const counted(sandbox.traffic.connections, boundary_.flows, room_);
  auto watch = linux::Watch::create(boundary_.loop, socket.get());
  if (!watch) co_return;
  Flow flow(boundary_, all_.at(sandbox.key), std::move(socket), std::move(*watch));
  co_await flow.run();
}

}  // namespace pons::egress
