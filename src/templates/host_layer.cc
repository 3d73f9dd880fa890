#include "pons/templates/host_layer.h"

#include <unistd.h>

#include "skeleton.h"

namespace pons::templates {
namespace {

std::string shell_of(const std::string& host_root) {
  return access((host_root + "/bin/bash").c_str(), F_OK) == 0 ? "/bin/bash" : "/bin/sh";
}

}  // namespace

Result<std::string> ensure_host_layer(const std::string& state_dir, const std::string& host_root) {
  Skeleton skeleton;
  TRY_VOID(add_host_files(skeleton, host_root));
  TRY_VOID(add_host_packages(skeleton, host_root));
  add_program_links(skeleton, host_root);
  // Last: what is ours wins.
  add_fixed_files(skeleton, shell_of(host_root));
  return publish_skeleton(state_dir, "host", skeleton);
}

}  // namespace pons::templates
