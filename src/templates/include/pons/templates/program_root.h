#pragma once

#include <string>

#include "pons/base/result.h"
#include "pons/templates/layer_store.h"

namespace pons::templates {

// One layer that is a root directory for one program: the dynamic linker and the libraries that it
// asks for, as this host has them, accounts with a user `user` of id 1000, and places for what is
// mounted. No shell and no other program. A static program needs no library at all.
// `host_root` is "/" except in tests.
Result<LayerInfo> make_program_root(const LayerStore& store, const StoreLease& lease,
                                    const std::string& program, const std::string& source,
                                    const std::string& host_root = "");

}  // namespace pons::templates
