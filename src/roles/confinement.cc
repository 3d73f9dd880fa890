#include "pons/roles/confinement.h"

#include <linux/capability.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "minimal_mounts.h"
#include "pons/linux/capabilities.h"
#include "pons/linux/child.h"
#include "pons/linux/landlock.h"
#include "pons/linux/namespace.h"
#include "pons/linux/process.h"
#include "pons/linux/seccomp.h"
#include "syscalls.h"

namespace pons::roles {

namespace {

using linux::NamespaceKind;

// What a step could not do although nothing failed; empty when it did all.
using Note = std::string;

struct Subject {
  const Profile& profile;
  const ConfinementContext& context;
  bool root = geteuid() == 0;
};

// From here on relative paths lead to the role's own state, even where its user may not walk
// through the folders above.
Result<Note> enter_state_dir(const Subject& subject) {
  const std::string own = fmt::format("{}/{}", subject.context.state_dir, subject.profile.name);
  if (chdir(own.c_str()) != 0) return os_error("enter state directory", own);
  return Note();
}

Result<Note> leave_network(const Subject& subject) {
  if (subject.profile.network == Network::kHost) return Note();
  if (subject.root) {
    TRY_VOID(linux::unshare_namespaces({NamespaceKind::kNet, NamespaceKind::kIpc}));
    return Note();
  }
  // Without root an own user namespace comes with it. Where that is switched off, the system-call
  // filter alone keeps the role from the network.
  if (linux::unshare_namespaces({NamespaceKind::kUser, NamespaceKind::kNet, NamespaceKind::kIpc}))
    return Note();
  return Note("no user namespaces here: still in the host's network namespace");
}

Result<Note> leave_file_system(const Subject& subject) {
  if (subject.profile.files != Files::kMinimalMounts) return Note();
  if (!subject.root) return Note("not root: still in the host's mount namespace");
  const bool own = subject.context.own_user_namespace;
  TRY_VOID(enter_minimal_mounts(subject.profile, subject.context.state_dir,
                                own ? Processes::kAll : Processes::kOwn));
  return own ? Note("not root: sees which processes the host has") : Note();
}

// Inherited for good by every process started later, so never for the spawner: sandboxes may use
// sudo inside.
Result<Note> refuse_new_privileges(const Subject& subject) {
  if (subject.profile.files == Files::kMinimalMounts) return Note();
  TRY_VOID(linux::set_no_new_privileges());
  return Note();
}

Result<Note> apply_landlock(const Subject& subject) {
  if (subject.profile.files != Files::kLandlock) return Note();
  linux::LandlockRules rules;
  rules.paths.push_back({".", linux::PathAccess::kReadWriteTree});
  for (const std::string_view path : subject.profile.read_only) {
    struct stat info{};
    if (stat(std::string(path).c_str(), &info) != 0)
      continue;  // this host has no such file: nothing to grant
    rules.paths.push_back({std::string(path), S_ISDIR(info.st_mode)
                                                  ? linux::PathAccess::kReadTree
                                                  : linux::PathAccess::kReadFile});
  }
  rules.any_tcp_connect = subject.profile.network == Network::kHost;
  const linux::LandlockReport report = TRY(linux::restrict_with_landlock(rules));
  if (!report.filesystem) {
    if (subject.context.landlock == LandlockNeed::kBestEffort)
      return Note("this kernel has no Landlock");
    return make_error(
        ErrorCode::kUnsupported, "confine file access",
        "this kernel has no Landlock; boot it with lsm=landlock,… or accept the weakness with "
        "confinement.landlock: best_effort");
  }
  // An older Landlock has no rules for TCP and signals. Nothing is weaker for it: the system-call
  // filter refuses both, and the doctor's report on the host names the version.
  return Note();
}

Result<Note> drop_capabilities(const Subject& subject) {
  if (subject.profile.capabilities != 0) {
    TRY_VOID(linux::keep_only_capabilities(subject.profile.capabilities));
    return Note();
  }
  if (subject.root) {
    const uid_t user = uid_of(subject.profile.role);
    // SETPCAP survives the change of user for one call more, which empties the bounding set too.
    TRY_VOID(linux::become_user(user, user, linux::capability(CAP_SETPCAP)));
  }
  TRY_VOID(linux::keep_only_capabilities(0));
  return subject.root ? Note() : Note("not root: shares the user of the other roles");
}

// Both are cleared by the change of user.
Result<Note> hide_memory(const Subject&) {
  TRY_VOID(linux::disable_core_dumps());
  TRY_VOID(linux::set_undumpable());
  return Note();
}

Result<Note> die_with_supervisor(const Subject& subject) {
  TRY_VOID(linux::die_with_parent(subject.context.supervisor));
  return Note();
}

// Last: it refuses what the steps above need.
Result<Note> filter_syscalls(const Subject& subject) {
  const auto filter = TRY(make_filter(subject.profile));
  TRY_VOID(filter.install());
  return Note();
}

struct Step {
  std::string_view name;
  Result<Note> (*run)(const Subject&);
};

constexpr Step kSteps[] = {
    {"state_dir", enter_state_dir},
    {"network_namespace", leave_network},
    {"mount_namespace", leave_file_system},
    {"no_new_privileges", refuse_new_privileges},
    {"landlock", apply_landlock},
    {"capabilities", drop_capabilities},
    {"memory", hide_memory},
    {"parent_death", die_with_supervisor},
    {"seccomp", filter_syscalls},
};

}  // namespace

Result<std::vector<ConfinementStep>> confine(const Profile& profile,
                                             const ConfinementContext& context) {
  const Subject subject{profile, context};
  std::vector<ConfinementStep> report;
  for (const Step& step : kSteps) {
    if (is_step_left_out(step.name)) {
      report.push_back({.name = step.name, .note = "left out"});
      continue;
    }
    report.push_back({.name = step.name, .done = true, .note = TRY(step.run(subject))});
  }
  return report;
}

}  // namespace pons::roles
