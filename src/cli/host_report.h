#pragma once

#include <string>
#include <vector>

#include "pons/base/json.h"

namespace pons::cli {

struct HostFinding {
  std::string name;   // "Landlock"
  std::string found;  // "ABI 7"
  enum class Grade : std::uint8_t { kGood, kMissing, kFatal } grade;
  std::string cost;  // what its absence costs and what to do; empty when good
};

struct HostReport {
  std::vector<HostFinding> findings;
  bool sufficient;  // nothing fatal
};

HostReport examine_host();
void print_host(const HostReport& report);
Json to_json(const HostReport& report);

}  // namespace pons::cli
