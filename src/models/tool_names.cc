#include "pons/models/tool_names.h"

#include <algorithm>

#include <fmt/format.h>

#include "json_node.h"
#include "pons/base/text.h"

namespace pons::models {

namespace {

constexpr std::size_t kHashDigits = 8;

std::size_t name_bytes_max(Protocol target) {
  return target == Protocol::kMessages ? 128 : 64;
}

bool is_legal(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

bool is_legal(std::string_view name, std::string_view space, Protocol target) {
  return !name.empty() && name.size() <= name_bytes_max(target) &&
         (space.empty() || target == Protocol::kResponses) &&
         std::ranges::all_of(name, [](char c) { return is_legal(c); });
}

// The length keeps the two apart.
std::string key_of(std::string_view name, std::string_view space) {
  return fmt::format("{}:{}{}", space.size(), space, name);
}

std::string_view space_at(Protocol target, std::string_view space) {
  return target == Protocol::kResponses ? space : "";
}

template <class Visit>
void for_each_call(Request& request, Visit visit) {
  for (Message& message : request.messages)
    for (Part& part : message.parts)
      if (auto* call = std::get_if<ToolCallPart>(&part.content)) visit(*call);
}

}  // namespace

ToolNames::ToolNames(Request& request, Protocol target) {
  // Names that stay are not given to others.
  for (const Tool& tool : request.tools)
    if (tool.kind == Tool::Kind::kServer || is_legal(tool.name, tool.space, target))
      taken_.insert(tool.name);
  for_each_call(request, [&](const ToolCallPart& call) {
    if (is_legal(call.name, call.space, target)) taken_.insert(call.name);
  });
  std::string chosen;
  for (Tool& tool : request.tools) {
    if (tool.kind == Tool::Kind::kServer) continue;
    const std::string name = legal_name(tool.name, tool.space, target);
    if (tool.kind == Tool::Kind::kFreeForm)
      known_[key_of(name, space_at(target, tool.space))].free_form = true;
    // The choice names no namespace: the first tool of that name is meant.
    if (tool.name == request.tool_choice.name && chosen.empty()) chosen = name;
    tool.name = name;
    if (target == Protocol::kResponses) continue;
    tool.space.clear();
    tool.space_description.clear();
  }
  if (!chosen.empty()) request.tool_choice.name = chosen;
  for_each_call(request, [&](ToolCallPart& call) {
    call.name = legal_name(call.name, call.space, target);
    if (target != Protocol::kResponses) call.space.clear();
  });
}

std::string ToolNames::legal_name(const std::string& name, const std::string& space,
                                  Protocol target) {
  const std::string key = key_of(name, space);
  if (const auto found = new_.find(key); found != new_.end()) return found->second;
  std::string legal = name;
  if (!is_legal(name, space, target)) {
    const bool joins = !space.empty() && target != Protocol::kResponses;
    std::string base = joins ? space + "__" + name : name;
    std::ranges::replace_if(base, [](char c) { return !is_legal(c); }, '_');
    base.resize(std::min(base.size(), name_bytes_max(target) - kHashDigits - 1));
    // A second round is for clients that send a tool with the very name that was made here.
    for (std::string hashed = sha256_hex(key);; hashed = sha256_hex(hashed)) {
      legal = fmt::format("{}_{}", base, hashed.substr(0, kHashDigits));
      if (taken_.insert(legal).second) break;
    }
  }
  new_.emplace(key, legal);
  known_[key_of(legal, space_at(target, space))] = {.name = name, .space = space};
  return legal;
}

void ToolNames::restore(Part& part) const {
  auto* call = std::get_if<ToolCallPart>(&part.content);
  if (call == nullptr) return;
  const auto found = known_.find(key_of(call->name, call->space));
  if (found == known_.end()) return;
  const Known& known = found->second;
  call->name = known.name;
  call->space = known.space;
  if (!known.free_form || call->free_form || call->input.empty()) return;
  JsonDocument document;
  const auto input = document.parse(call->input);
  if (!input) return;
  const auto text = input->string_at("input");
  if (!text) return;
  std::string plain(*text);
  call->input = std::move(plain);
  call->free_form = true;
}

}  // namespace pons::models
