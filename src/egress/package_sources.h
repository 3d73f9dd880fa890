#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/egress/package_hosts.h"

namespace pons::egress {

// The addresses in apt's two formats. Sources that are switched off do not count.
void add_one_line_sources(std::string_view text, std::vector<std::string>& urls);
void add_deb822_sources(std::string_view text, std::vector<std::string>& urls);

struct Registries {
  std::vector<std::string> urls;
  bool replace_default = false;  // the tool never asks what it would ask by itself
  std::string usual;             // what it asks instead, as it stands there
};

// One file of a tool's configuration, added to what others said.
using RegistryReader = void (*)(std::string_view text, Registries& registries);
void read_npmrc(std::string_view text, Registries& registries);
void read_pip_conf(std::string_view text, Registries& registries);
void read_cargo_config(std::string_view text, Registries& registries);

// What a tool asks by itself, out of the file of its program that says so.
using DefaultReader = void (*)(std::string_view text, std::vector<std::string>& urls);
void read_npm_default(std::string_view text, std::vector<std::string>& urls);
void read_pip_default(std::string_view text, std::vector<std::string>& urls);

// Host and port of an http or https address, whatever stands before and after them. Nothing for
// other schemes, and where a variable would have to be filled in.
std::optional<PackageHost> find_url_host(std::string_view url);

}  // namespace pons::egress
