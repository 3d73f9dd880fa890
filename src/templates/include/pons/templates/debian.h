#pragma once

#include <string>
#include <vector>

#include "pons/base/result.h"
#include "pons/sandbox/provider.h"
#include "pons/templates/layer_store.h"
#include "pons/templates/progress.h"

namespace pons::templates {

struct DebianOptions {
  std::string name;
  std::vector<std::string> packages;
  std::string suite = "bookworm";
  bool allow_sudo = false;  // `user` may become root inside, without a password
  std::string mirror;       // empty: the host's own sources for that suite, else Debian's
  TreeLimits limits;
  ProgressSink progress;
};

// What programs written for E2B's sandboxes expect to find.
inline constexpr std::string_view kBaseTemplate = "base";
std::vector<std::string> base_packages();

// Builds a Debian system with the packages, and a user `user` with id 1000, by mmdebstrap (Debian
// package of that name). The host's apt settings and credentials are used and stay outside: a tree
// in which one of them is found is refused.
Result<sandbox::TemplateInfo> build_debian(const LayerStore& store, const StoreLease& lease,
                                           const DebianOptions& options);

// The error when a tree holds credentials or a proxy in its apt settings.
Result<void> check_apt_settings(const std::string& tree);

}  // namespace pons::templates
