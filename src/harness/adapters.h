#pragma once

#include <map>
#include <memory>
#include <string>

#include "pons/harness/adapter.h"

namespace pons::harness {

std::unique_ptr<Adapter> create_claude(Wish wish);
std::unique_ptr<Adapter> create_codex(Wish wish);
std::unique_ptr<Adapter> create_pi(Wish wish);
std::unique_ptr<Adapter> create_acp(Wish wish);

}  // namespace pons::harness
