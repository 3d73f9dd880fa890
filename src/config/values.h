#pragma once

#include <expected>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "pons/config/config.h"

namespace pons::config {

// The values a text field can have. Each error says what to change and never repeats the text,
// which may have come from a substitution.
template <class T>
using Parsed = std::expected<T, std::string>;

// Numeric IPv4 or IPv6 in brackets, then a port. The address comes out in the kernel's spelling.
Parsed<ListenAddress> parse_listen_address(const std::string& text);

// An absolute path below "/", without "." and ".." parts; slashes come out single, none at the end.
Parsed<std::string> parse_state_dir(const std::string& text);

// Such a path to a file; empty is none.
Parsed<std::string> parse_file_path(const std::string& text);

// One lower-case DNS name with at least one dot: no scheme, port, address or wildcard.
Parsed<std::string> parse_host_name(const std::string& text);

// Such a name, and a port if it has one; empty is none.
Parsed<std::string> parse_domain(const std::string& text);

// Origins as browsers write them, separated by one space; empty is none.
Parsed<std::string> parse_origins(const std::string& text);

// An address and port as parse_listen_address takes them; empty is none.
Parsed<std::string> parse_optional_listen_address(const std::string& text);

// The same, on loopback only.
Parsed<std::string> parse_optional_loopback_address(const std::string& text);

// https:// or http://, a host, a port and a path if need be; nothing behind them. Empty is none.
Parsed<std::string> parse_optional_url(const std::string& text);

// A name for an environment variable, or empty.
Parsed<std::string> parse_optional_database(const std::string& text);
Parsed<std::string> parse_optional_variable(const std::string& text);

// A name as of is_environment_name.
Parsed<std::string> parse_name(const std::string& text);
// The same, or nothing.
Parsed<std::string> parse_optional_name(const std::string& text);

// What clients call a model: letters, digits and -._:/ and at most 128 of them.
bool is_model_name(std::string_view text);

// [A-Z_][A-Z0-9_]*, at most 128 characters.
bool is_credential_name(std::string_view text);

// [a-z][a-z0-9-]*, at most 64 characters.
bool is_environment_name(std::string_view text);

// The default state directory for this user and these variables; relative ones are ignored, as the
// XDG specification asks.
std::string state_dir_for(uid_t user, const std::string& xdg_state_home, const std::string& home);

}  // namespace pons::config
