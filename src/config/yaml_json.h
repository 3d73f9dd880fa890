#pragma once

#include <optional>

#include "pons/base/json.h"
#include "yaml_tree.h"

namespace pons::config {

// Plain numbers and true and false are what they look like; nothing when it is text.
std::optional<Json> plain_value(const Node& scalar);

}  // namespace pons::config
