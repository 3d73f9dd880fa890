#pragma once

// For tests of this folder: a boundary with a real vault, and one sandbox that is attached to it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "access_requests.h"
#include "attached_sandbox.h"
#include "egress_fixture.h"
#include "judge.h"
#include "pons/egress/authority.h"

namespace pons::egress {

inline constexpr std::string_view kSecret = "ghp_Zx81mQpL0vTr5Ke9WbYs7NcGd2HjUaFo46iX";
inline constexpr std::string_view kOtherSecret = "ghp_n3Vt6JwRk8CzPq1LxDy5MbSh0FgAe9UuTo27";

class BoundaryTest : public ::testing::Test {
 protected:
  BoundaryTest() {
    vault_key_ = std::make_unique<Secret>(*vault::load_or_create_key(dir_.path()));
    vault_ = *vault::Vault::open(dir_.path(), *vault_key_, clock_);
    project_secrets_ = *vault::ProjectSecrets::open(dir_.path(), *vault_key_, clock_);
    project_vaults_ = *vault::ProjectVaults::open(dir_.path(), *vault_key_, clock_);
    std::filesystem::create_directory(dir_.file("authority"));
    authority_ = std::make_unique<CertificateAuthority>(
        *CertificateAuthority::open(dir_.file("authority"), clock_));
    leaves_ = *LeafCache::create(*authority_, clock_);
    audit_ = *audit::AuditLog::open(dir_.file("audit"), clock_);
    access_ = *AccessRequests::open(dir_.path(), clock_);
    secrets_ = std::make_unique<VaultNeedles>(*vault_);
    bound_hosts_ = std::make_unique<BoundHosts>(*vault_);
    sent_secrets_ = std::make_unique<SentSecrets>(clock_);
    resolver_ = std::make_unique<names::Resolver>(*loop_, names::ResolverSettings{});
    boundary_ = std::unique_ptr<Boundary>(new Boundary{.loop = *loop_,
                                                       .clock = clock_,
                                                       .vault = *vault_,
                                                       .secrets = *secrets_,
                                                       .bound_hosts = *bound_hosts_,
                                                       .sent_secrets = *sent_secrets_,
                                                       .audit = *audit_,
                                                       .access = *access_,
                                                       .resolver = *resolver_,
                                                       .leaves = *leaves_,
                                                       .server_tls = nullptr,
                                                       .client_tls = nullptr,
                                                       .sessions = nullptr,
                                                       .project_secrets = project_secrets_.get(),
                                                       .project_vaults = project_vaults_.get()});
    adopt(R"({"mode":"list","credentials":["TOKEN","OTHER"],"allow":[
        {"host":"api.test.example","ports":[443,80,8443]},{"host":"else.test.example"}]})");
  }

  void adopt(std::string_view document) {
    auto policy = Policy::compile(document, ++generation_, {});
    EXPECT_TRUE(policy) << policy.error().describe();
    sandbox_ = std::make_shared<AttachedSandbox>(*loop_, 1, "sandbox-1", *policy);
  }

  void set(std::string name, std::string_view value, std::vector<std::string> bindings) {
    vault::NewCredential wanted{
        .name = std::move(name), .value = Secret(std::string(value)), .bindings = {}};
    for (const std::string& text : bindings) {
      auto binding = vault::parse_binding_text(text);
      EXPECT_TRUE(binding) << binding.error().describe();
      wanted.bindings.push_back(*binding);
    }
    const auto done = vault_->set(std::move(wanted));
    EXPECT_TRUE(done) << done.error().describe();
  }
  std::string stub(std::string_view name = "TOKEN") {
    return sandbox_->stub_for(*vault_, **vault_->load(name));
  }

  static Origin origin(std::string_view host = "api.test.example", std::uint16_t port = 443,
                       bool tls = true) {
    return {*names::HostName::parse(host), port, tls};
  }

  // As a client writes it, without the empty line.
  std::expected<Judged, Refusal> judge(const std::string& text, const Origin& to = origin()) {
    bytes_ = text + "\r\n\r\n";
    std::size_t scanned = 0;
    const auto parsed = http::parse_request_head(bytes_, scanned, {}, head_);
    EXPECT_EQ(parsed.state, http::HeadParse::State::kDone) << parsed.reason;
    return judge_request(*boundary_, *sandbox_, to, head_);
  }
  std::string code(const std::string& text, const Origin& to = origin()) {
    const auto judged = judge(text, to);
    return judged ? "" : judged.error().code;
  }
  std::string logged() {
    (void)audit_->flush();
    std::string all;
    for (const auto& file : std::filesystem::directory_iterator(dir_.file("audit")))
      if (file.path().extension() == ".jsonl") all += read_text(file.path());
    return all;
  }

  TempDir dir_;
  SystemClock clock_;
  std::unique_ptr<linux::Loop> loop_ = std::move(*linux::Loop::create());
  std::unique_ptr<Secret> vault_key_;
  std::unique_ptr<vault::Vault> vault_;
  std::unique_ptr<vault::ProjectSecrets> project_secrets_;
  std::unique_ptr<vault::ProjectVaults> project_vaults_;
  std::unique_ptr<CertificateAuthority> authority_;
  std::unique_ptr<LeafCache> leaves_;
  std::unique_ptr<audit::AuditLog> audit_;
  std::unique_ptr<AccessRequests> access_;
  std::unique_ptr<VaultNeedles> secrets_;
  std::unique_ptr<BoundHosts> bound_hosts_;
  std::unique_ptr<SentSecrets> sent_secrets_;
  std::unique_ptr<names::Resolver> resolver_;
  std::unique_ptr<Boundary> boundary_;
  std::shared_ptr<AttachedSandbox> sandbox_;
  std::string bytes_;
  http::RequestHead head_;
  std::uint64_t generation_ = 0;
};

}  // namespace pons::egress
