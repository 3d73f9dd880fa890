#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pons/base/result.h"

namespace pons::egress {

struct JavaStoreEntry {
  std::string alias;        // lower case, ASCII
  std::string certificate;  // DER
};

// A Java key store (JKS) with trusted certificates and no keys. Its password guards nothing but
// against accidents.
Result<std::string> encode_java_store(const std::vector<JavaStoreEntry>& entries,
                                      std::uint64_t created_milliseconds);

}  // namespace pons::egress
