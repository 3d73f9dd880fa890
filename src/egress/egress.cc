#include "pons/egress/egress.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "access_requests.h"
#include "attachments.h"
#include "authority_rotation.h"
#include "mcp_probe.h"
#include "pons/audit/routes.h"
#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/egress/trust_files.h"
#include "pons/mcp/server.h"
#include "pons/supervisor/role_runtime.h"
#include "pons/vault/routes.h"
#include "pons/vault/secret_routes.h"
#include "pons/vault/vault_api.h"
#include "routes.h"

namespace pons::egress {

namespace {

using roles::Role;

// Where the resolver of a sandbox is: everywhere, but programs want to be told.
constexpr Duration kLookBeforeSleeping = std::chrono::microseconds(100);
constexpr std::string_view kResolverFile = "nameserver 127.0.0.1\noptions edns0\n";

Result<void> make_directory(const char* path) {
  if (mkdir(path, 0700) != 0 && errno != EEXIST) return os_error("make directory", path);
  return {};
}

Result<void> write_tree_file(const std::string& place, const std::string& bytes) {
  const std::filesystem::path path = std::filesystem::path("trust") / place;
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) return os_error("write trust files", path.string(), error.value());
  if (const auto before = linux::read_file(path.string(), bytes.size() + 1);
      before && *before == bytes)
    return {};
  const auto out =
      TRY(linux::open_file(path.string(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644));
  return linux::write_all(out.get(), bytes);
}

// This role may not make links: what one leads to stands in its place.
const std::string& bytes_of(const TrustFile& file, const std::vector<TrustFile>& all) {
  if (file.link_target.empty()) return file.bytes;
  const auto target = ("/" / std::filesystem::path(file.path).parent_path() / file.link_target)
                          .lexically_normal()
                          .relative_path();
  for (const TrustFile& other : all)
    if (other.path == target && other.link_target.empty()) return other.bytes;
  return file.bytes;
}

// Laid out in the role's own directory; the spawner makes a layer of it that every sandbox has.
Result<void> lay_out_trust(const CertificateAuthority& authority) {
  TrustFiles trust = TRY(make_trust_files(authority));
  trust.files.push_back(
      {.path = "etc/resolv.conf", .bytes = std::string(kResolverFile), .link_target = {}});
  for (const TrustFile& file : trust.files)
    TRY_VOID(write_tree_file(file.path, bytes_of(file, trust.files)));
  return {};
}

Result<std::map<std::string, std::string>> read_map(const roles::RoleStart& start,
                                                    const char* name) {
  const auto found = start.values.find(name);
  if (found == start.values.end()) return std::map<std::string, std::string>{};
  const Json json = TRY(parse_json(found->second));
  try {
    return json.get<std::map<std::string, std::string>>();
  } catch (const Json::exception&) {
    return make_error(ErrorCode::kInternal, "read settings", name);
  }
}

Result<PackageHosts> read_packages(const roles::RoleStart& start) {
  const auto found = start.values.find("packages");
  if (found == start.values.end()) return PackageHosts{};
  return parse_package_hosts(TRY(parse_json(found->second)));
}

// Callers of the API come through the front, which knows their project.
bool refuse_unless_caller(http::Exchange& exchange) {
  if (exchange.peer().role == "front") return false;
  return supervisor::refuse_unless_operator(exchange);
}

Task<> flush_audit(linux::Loop& loop, audit::AuditLog& audit) {
  for (;;) {
    co_await loop.sleep_for(std::chrono::milliseconds(100));
    if (const auto flushed = audit.flush(); !flushed)
      LOG_ERROR("the audit log cannot be written", {"error", flushed.error()});
  }
}

Task<> forget_old_secrets(linux::Loop& loop, vault::Vault& vault, vault::ProjectVaults& projects,
                          SentSecrets& sent) {
  for (;;) {
    co_await loop.sleep_for(std::chrono::seconds(10));
    sent.forget_expired();
    projects.forget_expired();
    if (const auto done = vault.forget_expired(); !done)
      LOG_ERROR("an expired secret could not be forgotten", {"error", done.error()});
  }
}

void write_metrics(telemetry::Page& page, const Boundary& boundary,
                   const Attachments& attachments) {
  const audit::Counts& audit = boundary.audit.counts();
  boundary.metrics.write(page, {.sandboxes = attachments.all().size(),
                                .connections = boundary.flows,
                                .access_requests = boundary.access.pending(),
                                .credentials = boundary.vault.list().size(),
                                .credentials_damaged = boundary.vault.damaged().size(),
                                .audit_written = audit.written,
                                .audit_suppressed = audit.suppressed,
                                .audit_lost = audit.lost});
}

Result<int> serve(roles::RoleStart start) {
  const auto runtime = TRY(supervisor::RoleRuntime::create(std::move(start)));
  static const SystemClock kClock;
  linux::Loop& loop = runtime->loop();
  const Secret key = TRY(vault::load_or_create_key("."));
  const auto vault = TRY(vault::Vault::open(".", key, kClock));
  // Names of sandboxes' ports; what stands behind it is the listener's port.
  const std::string& domain = runtime->start().values.at("domain");
  const std::string own_domain = domain.substr(0, domain.find(':'));
  vault->reserve(own_domain);
  for (const auto& damaged : vault->damaged())
    LOG_ERROR("a credential cannot be used", {"name", damaged.name}, {"file", damaged.file},
              {"why", damaged.reason});
  const auto project_secrets = TRY(vault::ProjectSecrets::open(".", key, kClock));
  for (const std::string& file : project_secrets->damaged())
    LOG_ERROR("a project's secret cannot be used", {"file", file});
  const auto project_vaults = TRY(vault::ProjectVaults::open(".", key, kClock));
  project_vaults->reserve(own_domain);
  for (const std::string& file : project_vaults->damaged())
    LOG_ERROR("a project's vault, or a credential in it, cannot be used", {"file", file});
  TRY_VOID(make_directory("authority"));
  auto authority = TRY(CertificateAuthority::open("authority", kClock));
  TRY_VOID(lay_out_trust(authority));
  AuthorityRotation rotation(authority);
  const auto leaves = TRY(LeafCache::create(authority, kClock));
  VaultNeedles secrets(*vault);
  BoundHosts bound_hosts(*vault);
  SentSecrets sent_secrets(kClock);
  const auto audit = TRY(audit::AuditLog::open("audit", kClock));
  const auto access = TRY(AccessRequests::open(".", kClock));
  // A request waits twice for this loop; waking it costs more than the work it does.
  loop.look_before_sleeping(kLookBeforeSleeping);
  names::Resolver resolver(loop, names::read_resolver_settings());
  Boundary boundary{.loop = loop,
                    .clock = kClock,
                    .vault = *vault,
                    .secrets = secrets,
                    .bound_hosts = bound_hosts,
                    .sent_secrets = sent_secrets,
                    .audit = *audit,
                    .access = *access,
                    .resolver = resolver,
                    .leaves = *leaves,
                    .server_tls = TRY(http::TlsContext::create_server()),
                    .client_tls = TRY(http::TlsContext::create_client(
                        http::TlsTrust{.authority_file = {}, .forbidden = authority.own_pem()})),
                    .sessions = std::make_shared<http::TlsSessions>(kClock),
                    .project_secrets = project_secrets.get(),
                    .project_vaults = project_vaults.get(),
                    .gateway_channel = runtime->channel_to(Role::kGateway),
                    .brain_channel = runtime->channel_to(Role::kBrain)};
  Attachments attachments(boundary, runtime->keeper(), TRY(read_packages(runtime->start())),
                          TRY(read_map(runtime->start(), "environments")));
  TRY_VOID(attachments.adopt());
  runtime->metrics().add(
      [&](telemetry::Page& page) { write_metrics(page, boundary, attachments); });
  runtime->add_routes(egress_routes(boundary, attachments));
  runtime->add_routes(authority_routes(rotation, supervisor::refuse_unless_operator));
  runtime->set_body_bytes_max(kRedactedBytesMax);
  runtime->add_routes(vault::vault_routes(*vault, supervisor::refuse_unless_operator));
  runtime->add_routes(vault::secret_routes(*project_secrets, refuse_unless_caller));
  McpProbe probe(boundary, attachments);
  runtime->add_routes(
      vault::vault_api(*project_vaults, kClock, [&probe](vault::VaultPlace place, std::string url) {
        return probe.greet(std::move(place), std::move(url));
      }));
  runtime->add_routes(audit::audit_routes(*audit, supervisor::refuse_unless_operator));
  loop.spawn(flush_audit(loop, *audit));
  loop.spawn(forget_old_secrets(loop, *vault, *project_vaults, sent_secrets));
  return runtime->run();
}

}  // namespace

int run_egress(roles::RoleStart start) {
  const auto served = serve(std::move(start));
  if (served) return *served;
  LOG_ERROR("cannot start", {"error", served.error()});
  return 1;
}

}  // namespace pons::egress
