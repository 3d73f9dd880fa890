#include "sandbox_bound_key.h"

#include <fmt/format.h>

namespace pons::gateway {

namespace {

constexpr std::string_view kIn = " in ";

}  // namespace

std::string bound_key_name(std::string_view session, std::string_view sandbox) {
  return fmt::format("{}{}{}", session, kIn, sandbox);
}

bool is_bound_key(const budget::Key& key) {
  return key.kind == budget::KeyKind::kSession && key.name.contains(kIn);
}

bool may_call_from(const budget::Key& key, std::string_view sandbox) {
  if (!is_bound_key(key)) return true;
  const std::string_view name = key.name;
  return !sandbox.empty() && name.substr(name.rfind(kIn) + kIn.size()) == sandbox;
}

std::string name_for_others(std::string model) {
  constexpr std::string_view kPrefix = "pons/";
  if (model.starts_with(kPrefix)) model.erase(0, kPrefix.size());
  return model;
}

}  // namespace pons::gateway
