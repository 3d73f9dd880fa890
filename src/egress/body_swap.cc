#include "body_swap.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>

#include "percent_coding.h"
#include "pons/base/json.h"
#include "pons/base/text.h"

namespace pons::egress {

namespace {

constexpr std::size_t kJsonDepthMax = 32;

std::size_t occurrences(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size()))
    ++count;
  return count;
}

void replace_once(std::string& text, std::string_view part, std::string_view by) {
  const std::size_t at = text.find(part);
  if (at != std::string::npos) text.replace(at, part.size(), by);
}

// How often the text is a whole value somewhere in the tree; names do not count.
std::size_t count_values(const Json& json, const std::string& text) {
  if (json.is_string()) return json.get_ref<const std::string&>() == text ? 1 : 0;
  std::size_t count = 0;
  if (json.is_structured())
    for (const Json& item : json) count += count_values(item, text);
  return count;
}

bool stands_in(const Json& json, const BodyBinding& binding) {
  if (binding.name.empty()) return count_values(json, binding.grant.stub) == 1;
  return json.is_object() && json.contains(binding.name) && json[binding.name].is_string() &&
         json[binding.name].get_ref<const std::string&>() == binding.grant.stub;
}

// The member of the outermost object that holds it.
std::optional<std::string> member_with(const Json& json, const std::string& text) {
  if (json.is_object())
    for (const auto& [key, value] : json.items())
      if (value.is_string() && value.get_ref<const std::string&>() == text) return key;
  return std::nullopt;
}

bool is_filled(const SwappedBody& body, const std::string& name) {
  return std::ranges::find(body.filled, name) != body.filled.end();
}

// Whatever their case: some hosts do not care.
std::size_t count_members(const Json& json, std::string_view name) {
  std::size_t count = 0;
  if (json.is_object())
    for (const auto& [key, value] : json.items()) count += equal_ignoring_case(key, name) ? 1 : 0;
  return count;
}

SwappedBody swap_json(std::string_view body, std::span<const BodyBinding> bindings) {
  SwappedBody out{.sent = std::string(body), .seen = std::string(body), .used = {}};
  const auto json = parse_json(body, {.depth = kJsonDepthMax});
  if (!json) return out;
  for (const BodyBinding& binding : bindings) {
    const std::string stub = dump_json(Json(binding.grant.stub));
    // Another occurrence, or one in another spelling, is left for whoever looks through the rest.
    if (!stands_in(*json, binding) || occurrences(out.seen, stub) != 1) continue;
    replace_once(out.sent, stub,
                 dump_json(Json(std::string(binding.grant.credential->value.reveal()))));
    replace_once(out.seen, stub, "\"\"");
    out.used.push_back(binding.grant.credential);
    if (auto name = member_with(*json, binding.grant.stub)) out.filled.push_back(*std::move(name));
  }
  out.has_foreign = std::ranges::any_of(bindings, [&](const BodyBinding& binding) {
    return !binding.name.empty() &&
           count_members(*json, binding.name) > (is_filled(out, binding.name) ? 1U : 0U);
  });
  return out;
}

// ---- name=value&name=value

struct Pair {
  std::string_view text;
  std::string name;  // as the host reads it
  std::string_view value;
};

Pair read_pair(std::string_view text) {
  const std::size_t equals = std::min(text.find('='), text.size());
  std::string written(text.substr(0, equals));
  std::ranges::replace(written, '+', ' ');
  return {text, percent_decoded(written), text.substr(equals == text.size() ? equals : equals + 1)};
}

bool holds(const Pair& pair, const BodyBinding& binding) {
  return (binding.name.empty() || pair.name == binding.name) &&
         (pair.value == binding.grant.stub || pair.value == percent_encoded(binding.grant.stub));
}

// "secret[]" and "SECRET" are the same to some hosts.
bool is_named(const Pair& pair, std::string_view name) {
  return equal_ignoring_case(trim(std::string_view(pair.name).substr(0, pair.name.find('['))),
                             name);
}

SwappedBody swap_form(std::string_view body, std::span<const BodyBinding> bindings) {
  std::vector<Pair> pairs;
  for (const std::string_view text : split(body, '&')) pairs.push_back(read_pair(text));
  SwappedBody out;
  for (const Pair& pair : pairs) {
    const char* mark = &pair == pairs.data() ? "" : "&";
    const std::string_view before = pair.text.substr(0, pair.text.size() - pair.value.size());
    const auto binding = std::ranges::find_if(bindings, [&](const BodyBinding& candidate) {
      return holds(pair, candidate) && std::ranges::count_if(pairs, [&](const Pair& other) {
                                         return holds(other, candidate);
                                       }) == 1;
    });
    out.sent.append(mark).append(before);
    out.seen.append(mark).append(before);
    if (binding == bindings.end()) {
      out.sent += pair.value;
      out.seen += pair.value;
      out.has_foreign |= std::ranges::any_of(bindings, [&](const BodyBinding& candidate) {
        return !candidate.name.empty() && is_named(pair, candidate.name);
      });
      continue;
    }
    out.sent += percent_encoded(binding->grant.credential->value.reveal());
    out.used.push_back(binding->grant.credential);
    out.filled.push_back(pair.name);
  }
  return out;
}

}  // namespace

BodyForm form_of(const http::RequestHead& head) {
  std::vector<std::string_view> types;
  for (const http::Field& field : head.fields) {
    if (equal_ignoring_case(field.name, "content-type")) types.push_back(field.value);
    if (equal_ignoring_case(field.name, "content-encoding") &&
        !equal_ignoring_case(field.value, "identity"))
      return BodyForm::kOther;
  }
  if (types.size() != 1) return BodyForm::kOther;
  const auto parts = split(types.front(), ';');
  for (const std::string_view part : parts | std::views::drop(1)) {
    const std::string_view parameter = trim(part);
    if (parameter.empty() || equal_ignoring_case(parameter, "charset=utf-8") ||
        equal_ignoring_case(parameter, "charset=\"utf-8\""))
      continue;
    return BodyForm::kOther;
  }
  const std::string_view type = trim(parts.front());
  if (equal_ignoring_case(type, "application/json")) return BodyForm::kJson;
  if (equal_ignoring_case(type, "application/x-www-form-urlencoded")) return BodyForm::kForm;
  return BodyForm::kOther;
}

SwappedBody swap_body(BodyForm form, std::string_view body, std::span<const BodyBinding> bindings) {
  switch (form) {
    case BodyForm::kJson:
      return swap_json(body, bindings);
    case BodyForm::kForm:
      return swap_form(body, bindings);
    case BodyForm::kOther:
      break;
  }
  return {.sent = std::string(body), .seen = std::string(body), .used = {}};
}

}  // namespace pons::egress
