#pragma once

#include <map>
#include <string>

#include "pons/base/result.h"

namespace pons::templates {

// The dynamic linker and every library that a program asks for, and that those ask for: by their
// paths in a root directory that holds nothing else, as paths on this host. Empty for a static
// program. kNotFound names a library that the host does not have.
Result<std::map<std::string, std::string>> find_libraries(const std::string& program,
                                                          const std::string& host_root);

}  // namespace pons::templates
