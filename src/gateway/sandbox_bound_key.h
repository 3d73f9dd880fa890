#pragma once

#include <string>
#include <string_view>

#include "pons/budget/keys.h"

namespace pons::gateway {

// A key that can be called with from one sandbox only says so in its name, which is all that is
// kept of it: "SESSION in SANDBOX".
std::string bound_key_name(std::string_view session, std::string_view sandbox);
bool is_bound_key(const budget::Key& key);
// `sandbox`: where the call comes from; empty: from none.
bool may_call_from(const budget::Key& key, std::string_view sandbox);

// Some harnesses treat models that they have heard of in ways of their own, and are told names that
// they have not: "pons/NAME". To everybody else the model is NAME.
std::string name_for_others(std::string model);

}  // namespace pons::gateway
