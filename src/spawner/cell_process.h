#pragma once

#include <cstdint>

#include "ground.h"
#include "pons/linux/aside.h"
#include "pons/linux/cgroup.h"
#include "pons/linux/seccomp.h"
#include "staged_trees.h"
#include "view.h"

namespace pons::spawner {

// A cell about to be started, and the sandbox around it.
struct CellStart {
  Privileges privileges = Privileges::kHostRoot;
  const Ground& ground;
  linux::Cgroup* cgroup = nullptr;  // none where this host gives none
  linux::DetachedMount root;        // the view
  const StagedTrees& trees;
  bool show_host = false;  // the host's programs are part of the template
  const linux::SeccompFilter& filter;
  bool allow_setuid = false;
  bool login_shell = false;  // what waits in it for the first line
  std::uint64_t shared_memory_bytes = 0;
  std::uint64_t processes_max = 0;  // where no control group counts them; 0: unlimited
  // These three have low numbers: the cell gets a table that ends with the highest of them.
  int listener = -1;  // becomes descriptor 3
  int program = -1;   // the cell's executable
  int null_device = -1;
  int home_net_namespace = -1;
  bool die_with_spawner = false;  // where nothing else would find it later
};

struct CellProcess {
  linux::AsideChild child;
  linux::UniqueFd mount_namespace;
};

// Returns when the cell's program runs.
Outcome<CellProcess> start_cell(CellStart start);

}  // namespace pons::spawner
