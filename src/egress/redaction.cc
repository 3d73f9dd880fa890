#include "redaction.h"

#include <algorithm>
#include <set>

#include "pons/scan/scrubber.h"

namespace pons::egress {

namespace {

constexpr std::string_view kWithheld = "[withheld: it holds a credential]";

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

std::string crossed_out(std::string_view value) {
  std::string out(value);
  std::ranges::replace_if(out, is_letter_or_digit, 'x');
  // What consists of that letter already must look different, too.
  if (out == value) std::ranges::replace(out, 'x', 'y');
  return out;
}

// What is looked for, and whose it is.
struct Wanted {
  scan::NeedleSets sets;
  std::vector<std::vector<std::string>> names;
  std::vector<std::vector<std::string>> stand_ins;
};

Result<void> add_secrets(VaultNeedles& vault, Wanted& wanted) {
  const auto secrets = TRY(vault.current());
  if (secrets == nullptr) return {};
  auto& names = wanted.names.emplace_back();
  auto& stand_ins = wanted.stand_ins.emplace_back();
  for (const VaultNeedles::Owner& owner : *vault.owners()) {
    names.push_back(owner.credential->name);
    stand_ins.push_back(crossed_out(owner.value->reveal()));
  }
  wanted.sets.push_back(secrets);
  return {};
}

void add_withheld(const WithheldSet& set, Wanted& wanted) {
  auto& names = wanted.names.emplace_back();
  auto& stand_ins = wanted.stand_ins.emplace_back();
  for (const WithheldSecret& secret : *set.secrets) {
    names.push_back(secret.name);
    stand_ins.push_back(crossed_out(secret.value->reveal()));
  }
  wanted.sets.push_back(set.set);
}

Result<Wanted> everything(Boundary& boundary, const std::vector<AttachedSandbox*>& sandboxes) {
  Wanted wanted;
  TRY_VOID(add_secrets(boundary.secrets, wanted));
  std::set<VaultInUse*> own;  // several sandboxes may have the same vault
  for (AttachedSandbox* sandbox : sandboxes)
    for (const auto& vault : sandbox->own_vaults)
      if (own.insert(vault.get()).second) TRY_VOID(add_secrets(vault->secrets, wanted));
  std::set<const scan::NeedleSet*> withheld;  // and of the same project
  for (AttachedSandbox* sandbox : sandboxes)
    for (const WithheldSet& set : TRY(withheld_from(boundary, *sandbox)))
      if (withheld.insert(set.set.get()).second) add_withheld(set, wanted);
  for (AttachedSandbox* sandbox : sandboxes) {
    const auto stubs = TRY(sandbox->stubs(boundary.vault));
    if (stubs == nullptr) continue;
    auto& names = wanted.names.emplace_back();
    auto& stand_ins = wanted.stand_ins.emplace_back();
    for (const auto& [stub, name] : sandbox->known_stubs()) {
      names.push_back(name);
      stand_ins.push_back(crossed_out(stub));
    }
    wanted.sets.push_back(stubs);
  }
  return wanted;
}

}  // namespace

Result<Redacted> redact(Boundary& boundary, const std::vector<AttachedSandbox*>& sandboxes,
                        std::string_view text, bool more) {
  const Wanted wanted = TRY(everything(boundary, sandboxes));
  Redacted out;
  if (wanted.sets.empty()) {
    out.text = text;
    return out;
  }
  scan::Scrubber scrubber(wanted.sets, [&](std::uint32_t set, std::uint32_t id) {
    return std::optional(wanted.stand_ins[set][id]);
  });
  bool is_clean = scrubber.feed(text, out.text) == scan::Scrubber::State::kOk;
  if (is_clean && more) out.held = scrubber.held_bytes();
  if (is_clean) is_clean = scrubber.finish(out.text) == scan::Scrubber::State::kOk;
  for (const scan::Scrubber::Replaced& replaced : scrubber.replaced()) {
    const std::string& name = wanted.names[replaced.finding.set][replaced.finding.id];
    if (std::ranges::find(out.names, name) == out.names.end()) out.names.push_back(name);
  }
  if (is_clean) return out;
  // A text that goes on waits for the rest of it.
  if (more) return Redacted{.text = std::string(text), .names = {}, .held = text.size()};
  out.text = kWithheld;
  return out;
}

}  // namespace pons::egress
