#include "pons/vault/credential.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace pons::vault {

namespace {

Secret copy_of(const Secret& secret) {
  return Secret(std::string(secret.reveal()));
}

// What may be shown of a value: what its stubs show anyway.
std::string redacted_form(const Credential& credential) {
  switch (credential.kind) {
    case Kind::kStatic: {
      const std::string& pattern = credential.shape.pattern;
      const auto kept = std::min(pattern.find('\0'), pattern.size());
      constexpr std::size_t kShownMax = 16;
      return pattern.substr(0, std::min(kept, kShownMax)) + "…";
    }
  }
  return "…";
}

}  // namespace

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::kStatic:
      return "static";
  }
  return "unknown";
}

Credential Credential::clone() const {
  return {.name = name,
          .kind = kind,
          .value = copy_of(value),
          .previous = copy_of(previous),
          .previous_until_unix_ms = previous_until_unix_ms,
          .previous_until = previous_until,
          .bindings = bindings,
          .shape = shape,
          .created_unix_ms = created_unix_ms,
          .rotated_unix_ms = rotated_unix_ms,
          .scrub = scrub};
}

bool is_credential_name(std::string_view name) {
  constexpr std::size_t kNameBytesMax = 128;
  const auto allowed = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && name.size() <= kNameBytesMax && !(name[0] >= '0' && name[0] <= '9') &&
         std::ranges::all_of(name, allowed);
}

bool is_for_sandboxes(const Credential& credential) {
  return !credential.name.starts_with(kNotForSandboxes);
}

std::vector<const Binding*> find_bindings(const Credential& credential, const Target& target) {
  std::vector<const Binding*> found;
  for (const Binding& binding : credential.bindings)
    if (binding.matches(target)) found.push_back(&binding);
  return found;
}

const Binding* find_binding(const Credential& credential, const Target& target) {
  const auto found = std::ranges::find_if(
      credential.bindings, [&](const Binding& binding) { return binding.matches(target); });
  return found == credential.bindings.end() ? nullptr : &*found;
}

bool is_bound_to(const Credential& credential, std::string_view host, std::uint16_t port) {
  return std::ranges::any_of(credential.bindings, [&](const Binding& binding) {
    return binding.matches_host(host, port);
  });
}

Json metadata(const Credential& credential) {
  Json bindings = Json::array();
  for (const Binding& binding : credential.bindings) bindings.push_back(to_json(binding));
  Json json = {{"name", credential.name},
               {"kind", to_string(credential.kind)},
               {"redacted", redacted_form(credential)},
               {"length", credential.value.size()},
               {"bindings", std::move(bindings)},
               {"scrub", credential.scrub == Scrub::kOn},
               {"created_unix_ms", credential.created_unix_ms},
               {"rotated_unix_ms", credential.rotated_unix_ms}};
  if (!credential.previous.empty())
    json["previous_until_unix_ms"] = credential.previous_until_unix_ms;
  return json;
}

}  // namespace pons::vault
