#include "judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "percent_coding.h"
#include "policy_rule.h"
#include "pons/base/text.h"
#include "pons/scan/scanner.h"

namespace pons::egress {

namespace {

// Where credentials travel whatever a binding says: a bound host takes ours there and nobody
// else's.
constexpr std::array kCredentialFields = {
    "authorization", "cookie",         "x-api-key",      "api-key",
    "apikey",        "x-goog-api-key", "private-token",  "job-token",
    "deploy-token",  "x-auth-token",   "x-access-token", "x-amz-security-token"};

// WebSocket's subprotocols are words like "graphql-transport-ws" or "v5.channel.k8s.io". Some hosts
// take a credential there as well, which is longer, or has more digits, or no seams.
bool is_plain_word(std::string_view text) {
  constexpr std::size_t kBytesMax = 32;
  constexpr std::size_t kPartBytesMax = 15;
  constexpr std::ptrdiff_t kDigitsMax = 4;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.empty() || text.size() > kBytesMax) return false;
  if (std::ranges::count_if(text, is_digit) > kDigitsMax) return false;
  std::size_t part = 0;
  for (const char c : text) {
    part = c == '.' || c == '-' || c == '_' || c == '+' ? 0 : part + 1;
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (part > kPartBytesMax || (part > 0 && !is_letter && !is_digit(c))) return false;
  }
  return true;
}

Refusal refuse(std::string code, std::string reason, std::string hint) {
  return {.code = std::move(code), .reason = std::move(reason), .hint = std::move(hint)};
}

Refusal malformed(std::string reason) {
  return {.status = 400,
          .code = "malformed_request",
          .reason = std::move(reason),
          .hint = "send it as a browser or curl would"};
}

template <class Names>
bool is_one_of(std::string_view name, const Names& names) {
  return std::ranges::any_of(names,
                             [&](std::string_view n) { return equal_ignoring_case(name, n); });
}

template <class Names>
bool is_field_of(std::string_view name, const Names& names) {
  return std::ranges::any_of(
      names, [&](std::string_view n) { return vault::is_same_field_name(name, n); });
}

// "STUB", "Token STUB", "session=STUB", `Token token="STUB"`: where the credential may stand
// anywhere, and the field is one for credentials, nothing else in it is one.
bool holds_nothing_but(std::string_view stub, std::string_view value) {
  const std::size_t at = value.find(stub);
  if (at == std::string_view::npos) return false;
  std::string_view before = value.substr(0, at);
  std::string_view after = value.substr(at + stub.size());
  if (before.ends_with('"') && after == "\"") {
    before.remove_suffix(1);
    after = {};
  }
  if (!after.empty()) return false;
  if (before.ends_with('=')) {
    const std::size_t space = before.rfind(' ') + 1;  // 0 where there is none
    if (!is_plain_word(before.substr(space, before.size() - space - 1))) return false;
    before = before.substr(0, space);
  }
  return before.empty() ||
         (before.ends_with(' ') && is_plain_word(before.substr(0, before.size() - 1)));
}

// "name", "name:port", "[v6]:port": the same host and port as the connection's own.
bool names_origin(std::string_view host, const Origin& origin) {
  const std::size_t colon = host.rfind(':');
  const bool has_port = colon != std::string_view::npos &&
                        host.find(']', colon) == std::string_view::npos &&
                        (host.front() == '[' || host.find(':') == colon);
  if (has_port) {
    const auto port = parse_decimal(host.substr(colon + 1));
    if (!port || *port != origin.port) return false;
    host = host.substr(0, colon);
  }
  const auto destination = parse_destination(host);
  return destination && *destination == origin.host;
}

// A whole address as the target must be of the connection's own kind: one reader goes by the
// scheme, another one by the line.
bool has_scheme_of(const Origin& origin, std::string_view target) {
  if (target.starts_with('/')) return true;
  const std::string_view scheme = origin.tls ? "https://" : "http://";
  return equal_ignoring_case(target.substr(0, scheme.size()), scheme);
}

// Others are tokens, too, and every server that was tried refuses them.
bool is_plain_method(std::string_view method) {
  return std::ranges::all_of(method,
                             [](char c) { return (c >= 'A' && c <= 'Z') || c == '-' || c == '_'; });
}

// A field that asks to drop another one could take out what a rule relies on.
bool names_known_hops(std::string_view connection) {
  constexpr std::array kKnown = {"close",          "keep-alive",       "upgrade", "te",
                                 "http2-settings", "proxy-connection", "trailer"};
  return std::ranges::all_of(split(connection, ','), [&](std::string_view token) {
    return trim(token).empty() || is_one_of(trim(token), kKnown);
  });
}

// The usual ones, and those that a binding to the host declares, whoever has the credential.
bool is_credential_field(std::string_view name, const BoundHosts::Credentials& credentials) {
  if (is_field_of(name, kCredentialFields)) return true;
  return std::ranges::any_of(credentials, [&](const auto& credential) {
    return std::ranges::any_of(credential->bindings, [&](const vault::Binding& binding) {
      return binding.position == vault::Position::kHeader &&
             vault::is_same_field_name(binding.name, name);
    });
  });
}

// The first stub that passes as it is, for the record.
void note_tolerated(Judged& judged, std::string_view text) {
  if (judged.tolerated.empty() || !judged.inert.empty()) return;
  if (const auto finding = scan::scan_text(judged.tolerated, text))
    judged.inert = judged.stub_owners->at(finding->id);
}

class RequestJudge {
 public:
  RequestJudge(const Boundary& boundary, AttachedSandbox& sandbox, const Origin& origin,
               const http::RequestHead& head)
      : boundary_(boundary), sandbox_(sandbox), origin_(origin), head_(head) {}

  std::expected<Judged, Refusal> run() {
    for (const auto step :
         {&RequestJudge::check_shape, &RequestJudge::ask_policy, &RequestJudge::find_credentials,
          &RequestJudge::carry_target, &RequestJudge::carry_fields, &RequestJudge::set_fields,
          &RequestJudge::note_own_vaults})
      if (auto refusal = (this->*step)()) return std::unexpected(std::move(*refusal));
    return std::move(out_);
  }

 private:
  using Step = std::optional<Refusal>;

  Step check_shape() {
    if (!names_origin(head_.host, origin_))
      return refuse("host_mismatch", "the request names another host than its connection",
                    "connect to the host that the request is for");
    if (head_.target.empty() || head_.path().empty() || head_.path().front() != '/')
      return malformed("the target is not a path");
    if (!has_scheme_of(origin_, head_.target))
      return malformed("the target's scheme is not the connection's");
    if (!is_plain_method(head_.method)) return malformed("the method is not written in capitals");
    for (const char* method : {"CONNECT", "TRACE", "TRACK"})
      if (head_.method == method)
        return refuse("method_not_allowed", "this method is never allowed", "use another one");
    for (const http::Field& field : head_.fields)
      if (equal_ignoring_case(field.name, "connection") && !names_known_hops(field.value))
        return malformed("Connection names a field that is not about the connection");
    return {};
  }

  Step ask_policy() {
    const Policy& policy = *sandbox_.policy;
    if (sandbox_.has_spent_all()) return budget_spent();
    std::string target(head_.path());
    if (head_.target.contains('?')) target.append("?").append(head_.query());
    const Decision decision =
        policy.judge_request(origin_.host, origin_.port, head_.method, target);
    if (!decision.allowed()) return refusal_of(decision, origin_, boundary_.access, sandbox_.key);
    out_.rule = decision.rule;
    out_.request.method = std::string(head_.method);
    out_.request.target = std::move(target);
    return {};
  }

  Step find_credentials() {
    const Refusal unavailable =
        refuse("vault_unavailable", "the vault cannot be used", "try later");
    for (const VaultView& view : vaults_of(boundary_, sandbox_)) {
      auto secrets = view.secrets.current();
      if (!secrets) return unavailable;
      if (*secrets != nullptr) out_.forbidden.push_back(*secrets);
    }
    const auto withheld = withheld_from(boundary_, sandbox_);
    if (!withheld) return unavailable;
    for (const WithheldSet& set : *withheld) out_.forbidden.push_back(set.set);
    out_.secret_sets = out_.forbidden.size();
    auto stubs = sandbox_.stubs(boundary_.vault);
    if (!stubs) return unavailable;
    const bool inert = sandbox_.policy->tolerates_stubs(origin_.host, origin_.port);
    if (*stubs != nullptr) (inert ? out_.tolerated : out_.forbidden).push_back(*stubs);
    out_.stub_owners = sandbox_.stub_owners();
    const auto* name = std::get_if<names::HostName>(&origin_.host);
    if (name == nullptr) return {};
    out_.host = *name;
    if (auto refusal = find_field_secrets()) return refusal;
    sent_secrets_ = boundary_.sent_secrets.contains(sandbox_.policy->project(), origin_.host);
    // Whoever takes our credential takes no other, on no port and no kind of line.
    rivals_ = credentials_for(boundary_, sandbox_, origin_.host);
    out_.scrubs = takes_ours_only() || is_bound(boundary_, sandbox_, origin_.host);
    wants_stubs_ = sandbox_.policy->requires_stubs(origin_.host, origin_.port);
    if (takes_no_other() && head_.target.contains('?'))
      query_names_ = credential_names(vault::Position::kQuery);
    if (takes_no_other() && head_.framing != http::BodyFraming::kNone)
      out_.credential_names = credential_names(vault::Position::kBody);
    if (!origin_.tls) return {};  // a line that anyone can read
    for (const Grant& grant : sandbox_.grants(boundary_.vault))
      if (vault::is_bound_to(*grant.credential, name->text(), origin_.port))
        bound_.push_back(grant);
    out_.bound = !bound_.empty();
    target_ = {
        .host = name->text(), .port = origin_.port, .method = head_.method, .path = head_.path()};
    for (const Grant& grant : bound_)
      for (const vault::Binding* binding : vault::find_bindings(*grant.credential, target_))
        fitting_.push_back({&grant, binding});
    for_each_binding(vault::Position::kBody,
                     [&](const Grant& grant, const vault::Binding& binding) {
                       out_.body_bindings.push_back({grant, binding.name});
                     });
    return {};
  }

  // Stubs in the path or the query, where a binding declares that place.
  Step carry_target() {
    const std::string target = std::move(out_.request.target);
    const std::size_t end = std::min(target.find('?'), target.size());
    std::string path = target.substr(0, end);
    std::string seen = path;  // without what was swapped
    for_each_binding(vault::Position::kPath, [&](const Grant& grant, const vault::Binding&) {
      swap_path(grant, path, seen);
    });
    out_.request.target = std::move(path);
    if (end == target.size()) return look_through(seen);
    char mark = '?';
    for (const std::string_view pair : split(std::string_view(target).substr(end + 1), '&')) {
      out_.request.target += std::exchange(mark, '&');
      if (auto swapped = swap_pair(pair)) {
        out_.request.target += *swapped;
        continue;
      }
      if (takes_no_other() && names_credential(pair)) return found_or_foreign(pair, "target");
      out_.request.target += pair;
      seen.append("&").append(pair);
    }
    return look_through(seen);
  }

  Step look_through(std::string seen) {
    seen.append(" ").append(head_.method);
    return find_forbidden(seen, "target");
  }

  Step find_forbidden(std::string_view text, std::string_view place) {
    if (const auto finding = scan::scan_text(out_.forbidden, text))
      return found_in(out_, boundary_, sandbox_, *finding, origin_, place);
    note_tolerated(out_, text);
    return {};
  }

  template <class Use>
  void for_each_binding(vault::Position position, const Use& use) {
    for (const auto& [grant, binding] : fitting_)
      if (binding->position == position) use(*grant, *binding);
  }

  // "name=stub", as a binding declares it.
  std::optional<std::string> swap_pair(std::string_view pair) {
    std::optional<std::string> swapped;
    for_each_binding(
        vault::Position::kQuery, [&](const Grant& grant, const vault::Binding& binding) {
          if (swapped || pair != fmt::format("{}={}", binding.name, grant.stub)) return;
          if (!swapped_parameters_.insert(binding.name).second) return;  // once is enough
          swapped =
              fmt::format("{}={}", binding.name, percent_encoded(grant.credential->value.reveal()));
          note_swap(grant);
        });
    return swapped;
  }

  void swap_path(const Grant& grant, std::string& path, std::string& seen) {
    const std::size_t at = path.find(grant.stub);
    const std::size_t place = seen.find(grant.stub);
    if (at == std::string::npos || place == std::string::npos) return;
    path.replace(at, grant.stub.size(), percent_encoded(grant.credential->value.reveal()));
    seen.erase(place, grant.stub.size());
    note_swap(grant);
  }

  // However it is written: "access%5Ftoken" and "+access_token" are the same to some hosts, and to
  // some a ';' is what a '&' is.
  bool names_credential(std::string_view pair) const {
    return std::ranges::any_of(split(pair, ';'), [&](std::string_view part) {
      std::string written(part.substr(0, part.find('=')));
      std::ranges::replace(written, '+', ' ');
      const std::string decoded = percent_decoded(written);
      return is_one_of(trim(std::string_view(decoded).substr(0, decoded.find('['))), query_names_);
    });
  }

  // Those that hosts usually take credentials by, and those that a binding to the host declares,
  // whoever has the credential.
  std::vector<std::string> credential_names(vault::Position position) const {
    std::vector<std::string> names = vault::credential_parameters(out_.host->text(), position);
    for (const auto& credential : rivals_)
      for (const vault::Binding& binding : credential->bindings)
        if (binding.position == position && !binding.name.empty()) names.push_back(binding.name);
    return names;
  }

  // A stub that stands in the right place in a wrong form deserves its own answer.
  Refusal found_or_foreign(std::string_view text, std::string_view place) const {
    if (const auto finding = scan::scan_text(out_.forbidden, text))
      return found_in(out_, boundary_, sandbox_, *finding, origin_, place);
    return foreign_credential();
  }

  Step carry_fields() {
    std::string seen;  // all of the head that was not swapped: what is to be looked through
    std::vector<std::string_view> filled;  // credential fields that hold ours
    for (const http::Field& field : head_.fields) {
      if (is_hop_field(field.name) || is_dropped(field.name)) {
        // Dropped or not, nobody may write a stub there: a reason to look closer.
        seen.append(field.value).append("\n");
        if (takes_no_other() && vault::is_same_field_name(field.name, "sec-websocket-protocol") &&
            !std::ranges::all_of(split(field.value, ','),
                                 [](std::string_view word) { return is_plain_word(trim(word)); }))
          return found_or_foreign(field.value, "field");
        // Some servers read it as the one with hyphens, and others as a field like any other: to
        // the former it must not come, and from the latter it must not be taken.
        if (field.name.find('_') != std::string_view::npos)
          return malformed("a field that is not passed on has underscores in place of hyphens");
        continue;
      }
      const Slot slot = slot_of(field.name);
      if (slot == Slot::kOfCredentials && is_field_of(field.name, filled))
        return refuse("duplicate_credential", "the credential's field stands twice in the request",
                      "send it once");
      if (auto swapped = swap_field(field, slot)) {
        filled.push_back(field.name);
        seen.append(field.name).append(": ").append(swapped->rest).append("\n");
        out_.request.fields.emplace_back(field.name, std::move(swapped->sent));
        continue;
      }
      seen.append(field.name).append(": ").append(field.value).append("\n");
      if (slot == Slot::kOfCredentials) return found_or_foreign(field.value, "field");
      out_.request.fields.emplace_back(field.name, field.value);
    }
    if (auto refusal = find_forbidden(seen, "field")) return refusal;
    if (is_guarded()) out_.request.fields.emplace_back("Accept-Encoding", "identity");
    return {};
  }

  // What the policy says of requests to this host stands in place of what the sandbox wrote.
  Step set_fields() {
    for (const FieldRule* rule : sandbox_.policy->fields_for(origin_.host)) {
      if (rule->needs_tls() && !origin_.tls) continue;  // a line that anyone can read
      if (takes_ours_only() && is_credential_field(rule->name, rivals_))
        return foreign_credential();
      std::string value;
      for (const FieldRule::Part& part : rule->parts) {
        if (!part.is_secret) {
          value += part.text;
          continue;
        }
        value += own_.at(part.text)->value.reveal();
      }
      std::erase_if(out_.request.fields, [&](const auto& field) {
        return vault::is_same_field_name(field.first, rule->name);
      });
      out_.request.fields.emplace_back(rule->name, std::move(value));
    }
    return {};
  }

  // Remembered before they leave, so that whoever asks the host meanwhile does not see them.
  Step find_field_secrets() {
    if (!origin_.tls) return {};  // none travels on a line that anyone can read
    for (const FieldRule* rule : sandbox_.policy->fields_for(origin_.host)) {
      for (const auto& literal : rule->literals)
        if (auto refusal = note_sent(rule->host, "", literal)) return refusal;
      for (const FieldRule::Part& part : rule->parts) {
        if (!part.is_secret) continue;
        const auto secret = find_own(part.text);
        if (!secret) return secret.error();
        if (auto refusal = note_sent(rule->host, part.text,
                                     std::shared_ptr<const Secret>(*secret, &(*secret)->value)))
          return refusal;
      }
    }
    return {};
  }

  // What is in a vault of the project concerns the sandboxes that have that vault; what it sends to
  // a host concerns all of the project. Of a body it is not known yet whether it asks for some.
  Step note_own_vaults() {
    if (sandbox_.own_vaults.empty()) return {};
    auto sent = out_.used;
    if (head_.framing != http::BodyFraming::kNone)
      for (const BodyBinding& binding : out_.body_bindings)
        sent.push_back(binding.grant.credential);
    for (const auto& credential : sent) {
      const auto known = boundary_.vault.load(credential->name);
      if ((known && *known == credential) || credential->scrub == vault::Scrub::kOff) continue;
      for (const vault::Binding& binding : credential->bindings) {
        if (!binding.matches_host(target_.host, target_.port)) continue;
        if (auto refusal = note_sent(pattern_of(binding), "",
                                     std::shared_ptr<const Secret>(credential, &credential->value)))
          return refusal;
      }
    }
    return {};
  }

  Step note_sent(const HostPattern& host, const std::string& name,
                 std::shared_ptr<const Secret> value) {
    const auto noted = boundary_.sent_secrets.note({.host = host,
                                                    .port = origin_.port,
                                                    .project = sandbox_.policy->project(),
                                                    .name = name,
                                                    .value = std::move(value)});
    if (noted) return {};
    return refuse("secret_limit", noted.error().message,
                  "name fewer hosts or secrets in the sandbox's network rules");
  }

  std::expected<vault::ProjectSecrets::Found, Refusal> find_own(const std::string& name) {
    if (const auto known = own_.find(name); known != own_.end()) return known->second;
    auto secret = boundary_.project_secrets == nullptr
                      ? nullptr
                      : boundary_.project_secrets->find_named(sandbox_.policy->project(), name);
    if (secret == nullptr)
      return std::unexpected(refuse("secret_unavailable",
                                    fmt::format("the project has no secret {}", name),
                                    "create it, or change the sandbox's network rules"));
    // What cannot be found in an answer could come back in one.
    if (secret->value.size() < scan::kNeedleBytesMin)
      return std::unexpected(
          refuse("secret_too_short",
                 fmt::format("the value of {} is too short to be kept out of answers", name),
                 fmt::format("use a value of at least {} characters", scan::kNeedleBytesMin)));
    out_.credentials.push_back("e2b.secrets." + name);
    out_.own_used.push_back(secret);
    own_[name] = secret;
    return secret;
  }

  bool takes_ours_only() const { return !rivals_.empty(); }
  // The same where a rule says so: whatever credential the host is to get stands in the rules.
  bool takes_no_other() const { return takes_ours_only() || wants_stubs_; }
  // Its answers are looked through.
  bool is_guarded() const { return out_.scrubs || sent_secrets_; }

  enum class Slot : std::uint8_t { kOther, kOfCredentials };
  Slot slot_of(std::string_view field) const {
    if (!takes_no_other() || !is_credential_field(field, rivals_)) return Slot::kOther;
    // What the policy sets stands in place of what the sandbox wrote.
    return !takes_ours_only() && is_set_by_policy(field) ? Slot::kOther : Slot::kOfCredentials;
  }

  bool is_set_by_policy(std::string_view field) const {
    return std::ranges::any_of(sandbox_.policy->fields_for(origin_.host), [&](const auto* rule) {
      return equal_ignoring_case(rule->name, field) && (origin_.tls || !rule->needs_tls());
    });
  }

  std::optional<vault::Swapped> swap_field(const http::Field& field, Slot slot) {
    for (const auto& [grant, binding] : fitting_) {
      if (!binding->names_header(field.name)) continue;
      if (binding->is_any_header() && slot == Slot::kOfCredentials &&
          !holds_nothing_but(grant->stub, field.value))
        continue;
      auto swapped =
          binding->swap_header(field.value, grant->stub, grant->credential->value.reveal());
      if (!swapped) continue;
      note_swap(*grant);
      return swapped;
    }
    return std::nullopt;
  }

  // Toward a host that gets secrets also what would let its answer come in a form, or in parts, in
  // which a secret cannot be seen.
  bool is_dropped(std::string_view name) const {
    constexpr std::array kPartial = {"accept-encoding", "range", "if-range"};
    return is_override_field(name) || (is_guarded() && is_field_of(name, kPartial));
  }

  void note_swap(const Grant& grant) { note_use(out_, grant.credential); }

  const Boundary& boundary_;
  AttachedSandbox& sandbox_;
  const Origin& origin_;
  const http::RequestHead& head_;
  // A binding of a grant in `bound_` that the request's method and path fit. Found once: paths may
  // be long, and a request has thousands of parameters.
  struct Fitting {
    const Grant* grant;
    const vault::Binding* binding;
  };

  std::vector<Grant> bound_;
  std::vector<Fitting> fitting_;
  BoundHosts::Credentials rivals_;  // all that are bound to the host, on any port, granted or not
  std::vector<std::string> query_names_;  // of parameters that hold credentials
  vault::Target target_;
  std::map<std::string, vault::ProjectSecrets::Found> own_;  // of the project, by name
  bool sent_secrets_ = false;                 // the host was sent some of the project
  bool wants_stubs_ = false;                  // a rule says that it takes no other credential
  std::set<std::string> swapped_parameters_;  // of the query, as they came
  Judged out_;
};

}  // namespace

bool is_hop_field(std::string_view name) {
  constexpr std::array kHops = {
      "connection", "keep-alive", "proxy-authorization", "proxy-connection", "proxy-authenticate",
      "te",         "trailer",    "transfer-encoding",   "upgrade",          "http2-settings",
      "host",       "expect",     "content-length",      "forwarded",        "via",
      "x-real-ip",  "alt-used",   "early-data"};
  constexpr std::array kPrefixes = {"x-forwarded-", "x-pons-", "sec-websocket-"};
  if (is_field_of(name, kHops)) return true;
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) {
    return vault::is_same_field_name(name.substr(0, prefix.size()), prefix);
  });
}

bool is_override_field(std::string_view name) {
  constexpr std::array kOverrides = {"x-http-method-override", "x-method-override", "x-http-method",
                                     "x-original-url",         "x-rewrite-url",     "max-forwards"};
  return is_field_of(name, kOverrides);
}

void note_use(Judged& judged, const std::shared_ptr<const vault::Credential>& credential) {
  if (std::ranges::find(judged.used, credential) != judged.used.end()) return;
  judged.credentials.push_back(credential->name);
  judged.used.push_back(credential);
}

Refusal foreign_credential() {
  return refuse("foreign_credential",
                "this host takes only the credential that was given to the sandbox",
                "send the value of the credential's environment variable; without one, send none");
}

Refusal found_in(const Judged& judged, const Boundary& boundary, const AttachedSandbox& sandbox,
                 const scan::Finding& finding, const Origin& origin, std::string_view place) {
  if (finding.set < judged.secret_sets)
    return refuse("secret_in_request",
                  fmt::format("the request's {} holds the value of a credential itself", place),
                  "a real secret is in this sandbox: rotate it, and use the stub");
  const std::string& owner = judged.stub_owners->at(finding.id);
  const auto credential = find_credential(boundary, sandbox, owner);
  const auto* name = std::get_if<names::HostName>(&origin.host);
  const bool bound_here =
      credential && name != nullptr && vault::is_bound_to(*credential, name->text(), origin.port);
  if (!credential)
    return refuse("credential_unavailable", fmt::format("{} cannot be used any more", owner),
                  "it was taken away; work without it or ask for another one");
  if (!bound_here)
    return refuse("credential_endpoint_mismatch", fmt::format("{} is not for this host", owner),
                  "send the credential only to the host it is bound to");
  return refuse(
      "undeclared_position",
      fmt::format("{} stands in the request's {}, where it is not declared", owner, place),
      "send it in the field, and in the form, that its binding names");
}

std::expected<http::OwnedFields, Refusal> judge_trailers(const Boundary& boundary,
                                                         const AttachedSandbox& sandbox,
                                                         Judged& judged, const Origin& origin,
                                                         const http::OwnedFields& trailers) {
  std::string seen;
  for (const auto& [name, value] : trailers)
    seen.append(name).append(": ").append(value).append("\n");
  if (const auto finding = scan::scan_text(judged.forbidden, seen))
    return std::unexpected(found_in(judged, boundary, sandbox, *finding, origin, "trailers"));
  note_tolerated(judged, seen);
  const auto rivals = credentials_for(boundary, sandbox, origin.host);
  http::OwnedFields kept;
  for (const auto& [name, value] : trailers) {
    if (is_hop_field(name) || is_override_field(name)) continue;
    if ((!rivals.empty() || sandbox.policy->requires_stubs(origin.host, origin.port)) &&
        is_credential_field(name, rivals))
      return std::unexpected(foreign_credential());
    kept.emplace_back(name, value);
  }
  return kept;
}

std::expected<Judged, Refusal> judge_request(const Boundary& boundary, AttachedSandbox& sandbox,
                                             const Origin& origin, const http::RequestHead& head) {
  return RequestJudge(boundary, sandbox, origin, head).run();
}

}  // namespace pons::egress
