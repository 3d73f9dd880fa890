#include "pons/vault/binding.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "host_rules.h"
#include "path_pattern.h"
#include "pons/base/text.h"
#include "pons/http/head.h"
#include "services.h"

namespace pons::vault {

namespace {

constexpr std::size_t kBindingsMax = 64;
constexpr std::size_t kListMax = 64;
constexpr std::size_t kNameBytesMax = 128;
constexpr std::string_view kAnyHeader = "*";

constexpr std::array<std::pair<Position, std::string_view>, 4> kPositions = {{
    {Position::kHeader, "header"},
    {Position::kQuery, "query"},
    {Position::kPath, "path"},
    {Position::kBody, "body"},
}};

// These decide where a message goes and where it ends, or are the proxy's own.
constexpr std::array<std::string_view, 22> kHeadersOfTheProxy = {"host",
                                                                 "connection",
                                                                 "content-length",
                                                                 "transfer-encoding",
                                                                 "te",
                                                                 "trailer",
                                                                 "upgrade",
                                                                 "keep-alive",
                                                                 "expect",
                                                                 "via",
                                                                 "forwarded",
                                                                 "proxy-authorization",
                                                                 "max-forwards",
                                                                 "proxy-connection",
                                                                 "proxy-authenticate",
                                                                 "content-type",
                                                                 "accept-encoding",
                                                                 "content-encoding",
                                                                 "x-forwarded-for",
                                                                 "x-forwarded-host",
                                                                 "x-forwarded-proto",
                                                                 "x-http-method-override"};

// Some hosts read "content_length" as if it were written with a hyphen.
bool is_header_of_the_proxy(std::string_view field) {
  return std::ranges::any_of(kHeadersOfTheProxy, [field](std::string_view known) {
    return is_same_field_name(known, field);
  });
}

Error wrong(std::string message) {
  return make_error(ErrorCode::kInvalid, "read binding", std::move(message));
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  return lower;
}

Result<void> check_method(std::string_view method) {
  const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  if (method.empty() || method.size() > 32 || !std::ranges::all_of(method, is_upper))
    return wrong("a method is written in capital letters, such as GET");
  if (method == "TRACE" || method == "CONNECT")
    return wrong(fmt::format("{} never carries a credential", method));
  return {};
}

Result<void> check_header(std::string_view name) {
  if (name == kAnyHeader) return {};
  if (name.size() > kNameBytesMax || !http::is_token(name))
    return wrong("that is not the name of a header");
  if (is_header_of_the_proxy(name))
    return wrong(fmt::format("the header {} cannot carry a credential", name));
  return {};
}

Result<void> check_parameter_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  if (name.empty() || name.size() > kNameBytesMax || !std::ranges::all_of(name, allowed))
    return wrong("a parameter is named with letters, digits, _ - and .");
  return {};
}

// What both notations are read into.
struct Draft {
  std::string host;
  std::vector<std::uint64_t> ports;
  std::vector<std::string> methods;
  std::vector<std::string> paths;
  std::string position = "header";
  bool is_placed = false;  // the text has said where
  std::string name;
  std::string format;
};

Result<std::vector<std::uint16_t>> ports_of(const std::vector<std::uint64_t>& numbers) {
  std::vector<std::uint16_t> ports;
  for (const std::uint64_t number : numbers) {
    if (number == 0 || number > 65535) return wrong("a port is a number from 1 to 65535");
    ports.push_back(static_cast<std::uint16_t>(number));
  }
  if (ports.empty()) ports.push_back(443);
  return ports;
}

Result<void> settle_position(const Draft& draft, Binding& binding) {
  const auto known =
      std::ranges::find(kPositions, draft.position, &std::pair<Position, std::string_view>::second);
  if (known == kPositions.end()) return wrong("the position is header, query, path or body");
  binding.position = known->first;
  binding.name = draft.name;
  if (binding.position == Position::kHeader) {
    binding.name = draft.name.empty() ? "authorization" : lower_case(draft.name);
    return check_header(binding.name);
  }
  if (binding.position == Position::kQuery) return check_parameter_name(binding.name);
  if (binding.position == Position::kBody && !draft.name.empty())
    return check_parameter_name(binding.name);
  if (!draft.name.empty()) return wrong("a credential in the path has no name");
  return {};
}

Result<Binding> settle(const Draft& draft) {
  if (std::max({draft.ports.size(), draft.methods.size(), draft.paths.size()}) > kListMax)
    return wrong("at most 64 ports, methods or paths");
  Binding binding;
  binding.host = TRY(parse_host_pattern(draft.host));
  binding.ports = TRY(ports_of(draft.ports));
  for (const std::string& method : draft.methods) TRY_VOID(check_method(method));
  for (const std::string& path : draft.paths) TRY_VOID(check_path_pattern(path));
  binding.methods = draft.methods;
  binding.paths = draft.paths;
  TRY_VOID(settle_position(draft, binding));
  const bool is_authorization =
      binding.position == Position::kHeader && binding.name == "authorization";
  if (binding.position == Position::kBody && !draft.format.empty() && draft.format != "{}")
    return wrong("in a body a credential is a whole value: its format is {}");
  if (binding.position == Position::kHeader && binding.name == kAnyHeader &&
      !draft.format.empty() && draft.format != "{}")
    return wrong("in any header a credential stands as it is: its format is {}");
  binding.format = TRY(Format::parse(!draft.format.empty() ? std::string_view(draft.format)
                                     : is_authorization    ? "Bearer {}"
                                                           : "{}"));
  return binding;
}

Result<Draft> draft_of(const Json& json) {
  Draft draft;
  for (const auto& [key, value] : json.items()) {
    if (key == "host")
      draft.host = value.get<std::string>();
    else if (key == "ports" && value.is_array())
      for (const Json& port : value) {
        if (!port.is_number_unsigned()) return wrong("a port is a number from 1 to 65535");
        draft.ports.push_back(port.get<std::uint64_t>());
      }
    else if (key == "methods")
      draft.methods = value.get<std::vector<std::string>>();
    else if (key == "paths")
      draft.paths = value.get<std::vector<std::string>>();
    else if (key == "position")
      draft.position = value.get<std::string>();
    else if (key == "name")
      draft.name = value.get<std::string>();
    else if (key == "format")
      draft.format = value.get<std::string>();
    else
      return wrong(fmt::format("a binding has no \"{}\" of that form", key.substr(0, 64)));
  }
  return draft;
}

Result<void> place(std::string_view position, Draft& draft) {
  if (draft.is_placed && draft.position != position)
    return wrong("a binding has one position; declare another binding for another one");
  draft.is_placed = true;
  draft.position = position;
  return {};
}

Result<void> read_word(std::string_view key, std::string_view value, Draft& draft) {
  if (key == "host" && draft.host.empty())
    draft.host = value;
  else if (key == "port")
    draft.ports.push_back(parse_decimal(value).value_or(0));
  else if (key == "method")
    draft.methods.emplace_back(value);
  else if (key == "path")
    draft.paths.emplace_back(value);
  else if (key == "position")
    return place(value, draft);
  else if ((key == "header" || key == "query" || key == "body") && draft.name.empty()) {
    draft.name = value;
    return place(key, draft);
  } else if (key == "format" && draft.format.empty())
    draft.format = value;
  else
    return wrong(fmt::format(
        "\"{}\" is not known here or stands twice; there are host, port, method, path, header, "
        "query, body, position and format",
        key.substr(0, 64)));
  return {};
}

}  // namespace

std::string_view to_string(Position position) {
  return std::ranges::find(kPositions, position, &std::pair<Position, std::string_view>::first)
      ->second;
}

bool is_same_field_name(std::string_view one, std::string_view other) {
  const auto folded = [](char c) {
    if (c >= 'A' && c <= 'Z') return static_cast<char>(c | 0x20);
    return c == '_' ? '-' : c;
  };
  return std::ranges::equal(one, other, {}, folded, folded);
}

bool Binding::matches_host(std::string_view wanted, std::uint16_t port) const {
  return std::ranges::find(ports, port) != ports.end() && host_matches(host, wanted);
}

bool Binding::matches(const Target& target) const {
  if (!matches_host(target.host, target.port)) return false;
  if (!methods.empty() && std::ranges::find(methods, target.method) == methods.end()) return false;
  return paths.empty() || std::ranges::any_of(paths, [&](const std::string& pattern) {
           return path_matches(pattern, target.path);
         });
}

bool Binding::names_header(std::string_view field) const {
  if (position != Position::kHeader) return false;
  if (name != kAnyHeader) return name == lower_case(field);
  return !is_header_of_the_proxy(field);
}

bool Binding::is_any_header() const {
  return position == Position::kHeader && name == kAnyHeader;
}

std::optional<Swapped> Binding::swap_header(std::string_view sent, std::string_view stub,
                                            std::string_view value) const {
  if (!is_any_header()) return format.swap(sent, stub, value);
  Swapped out;
  std::size_t at = 0;
  for (std::size_t found = 0; (found = sent.find(stub, at)) != std::string_view::npos;
       at = found + stub.size()) {
    const std::string_view between = sent.substr(at, found - at);
    out.sent.append(between).append(value);
    out.rest.append(between).append("\n");
  }
  if (at == 0) return std::nullopt;
  out.sent.append(sent.substr(at));
  out.rest.append(sent.substr(at));
  return out;
}

Result<Binding> parse_binding(const Json& json) {
  if (json.is_string()) return parse_binding_text(json.get_ref<const std::string&>());
  if (!json.is_object()) return wrong("a binding is an object or a text such as host=…");
  try {
    return settle(TRY(draft_of(json)));
  } catch (const Json::exception&) {
    return wrong("a field of the binding has the wrong type");
  }
}

Result<Binding> parse_binding_text(std::string_view text) {
  constexpr std::size_t kTextBytesMax = 8 * 1024;
  if (text.size() > kTextBytesMax) return wrong("the text is too long");
  Draft draft;
  for (const std::string_view word : split(text, ',')) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos)
      return wrong(fmt::format("\"{}\" is not of the form key=value", word.substr(0, 64)));
    TRY_VOID(read_word(trim(word.substr(0, equals)), trim(word.substr(equals + 1)), draft));
  }
  return settle(draft);
}

Result<std::vector<Binding>> parse_bindings(const Json& list) {
  if (!list.is_array() || list.empty() || list.size() > kBindingsMax)
    return wrong("bindings are a list of 1 to 64");
  std::vector<Binding> bindings;
  for (const Json& json : list) bindings.push_back(TRY(parse_binding(json)));
  return bindings;
}

Json to_json(const Binding& binding) {
  Json json = {{"host", binding.host}, {"ports", binding.ports}};
  if (!binding.methods.empty()) json["methods"] = binding.methods;
  if (!binding.paths.empty()) json["paths"] = binding.paths;
  json["position"] = to_string(binding.position);
  if (!binding.name.empty()) json["name"] = binding.name;
  json["format"] = binding.format.text();
  return json;
}

Result<std::vector<Binding>> load_preset(std::string_view name) {
  const auto known = services().presets.find(name);
  if (known == services().presets.end())
    return make_error(ErrorCode::kInvalid, "find preset",
                      fmt::format("there is no preset of that name; there are {}",
                                  fmt::join(preset_names(), ", ")));
  return parse_bindings(TRY(parse_json(known->second)));
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& [name, unused] : services().presets) names.push_back(name);
  return names;
}

std::vector<std::string> credential_parameters(std::string_view host, Position position) {
  std::vector<std::string> names;
  const auto add = [&](const Services::NamesByHost& all) {
    for (const auto& [where, those] : all) {
      const bool is_below = host.size() > where.size() && host.ends_with(where) &&
                            host[host.size() - where.size() - 1] == '.';
      if (where == "any" || host == where || is_below)
        names.insert(names.end(), those.begin(), those.end());
    }
  };
  add(services().credential_parameters);
  if (position == Position::kQuery) add(services().query_parameters);
  return names;
}

}  // namespace pons::vault
