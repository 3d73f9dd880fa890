#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pons/base/result.h"

namespace pons::templates {

// What a program or library asks the dynamic linker for.
struct ElfNeeds {
  std::uint16_t machine = 0;
  std::string interpreter;             // empty: a library, or a static program
  std::vector<std::string> libraries;  // by name
};

// Nothing when the file is no ELF of 64 bits in this machine's byte order. Trusts nothing in it.
Result<std::optional<ElfNeeds>> read_elf_needs(int fd);

}  // namespace pons::templates
