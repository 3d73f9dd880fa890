#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/json.h"
#include "pons/base/result.h"
#include "pons/vault/format.h"

namespace pons::vault {

enum class Position : std::uint8_t { kHeader, kQuery, kPath, kBody };
std::string_view to_string(Position position);

// A request as far as a binding judges it. `host` is canonical: lower case, no trailing dot.
struct Target {
  std::string_view host;
  std::uint16_t port = 443;
  std::string_view method = "GET";
  std::string_view path = "/";  // without the query, as sent
};

// Names of header fields, as those hosts compare them that read "X_Api_Key" as "X-Api-Key".
bool is_same_field_name(std::string_view one, std::string_view other);

// Where one credential may be used, and where in the request it stands. Made only by the parsers
// below, which refuse what cannot be kept safe.
struct Binding {
  std::string host;  // "api.example.com", or "*.example.com" for exactly one label in its place
  std::vector<std::uint16_t> ports;  // never empty
  std::vector<std::string> methods;  // empty: every one
  // Empty: every one. Literal segments, `*` for one segment, `**` as the last for all below.
  std::vector<std::string> paths;
  Position position = Position::kHeader;
  // Of the header (lower case), the query parameter, or the body's (may be empty). "*": any header,
  // and anywhere in it.
  std::string name;
  Format format;

  // What is known of a connection before its first request.
  bool matches_host(std::string_view host, std::uint16_t port) const;
  bool matches(const Target& target) const;
  // Of a position in headers: whether it stands in that one.
  bool names_header(std::string_view field) const;
  // Of a position in headers: in any, and anywhere in it.
  bool is_any_header() const;
  // A header's value with the credential in the stub's place; nothing when the stub is not where it
  // may be.
  std::optional<Swapped> swap_header(std::string_view sent, std::string_view stub,
                                     std::string_view value) const;
  bool operator==(const Binding&) const = default;
};

// {"host", "ports", "methods", "paths", "position", "name", "format"}; only the host is required.
// Unknown names, IP addresses, names of Pons itself and wildcards over a suffix that strangers
// share are refused. A JSON string is read as binding text.
Result<Binding> parse_binding(const Json& json);
// "host=api.example.com,header=X-Api-Key,format={}": `port`, `method` and `path` may be repeated;
// `query=NAME`, `body=NAME`, `position=body` or `position=path` stand in place of `header=NAME`.
Result<Binding> parse_binding_text(std::string_view text);
Result<std::vector<Binding>> parse_bindings(const Json& list);
Json to_json(const Binding& binding);

// The bindings of a well-known service ("github"), by its name.
Result<std::vector<Binding>> load_preset(std::string_view name);
std::vector<std::string> preset_names();

// Names of parameters, of the query or of a body, in which the host takes a credential, as far as
// it is known: the usual ones, and those of its service.
std::vector<std::string> credential_parameters(std::string_view host, Position position);

}  // namespace pons::vault
