#include "host_report.h"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/linux/host.h"
#include "terminal.h"

namespace pons::cli {

namespace {

using Grade = HostFinding::Grade;

constexpr int kKernelFloorMajor = 6;
constexpr int kKernelFloorMinor = 1;

bool has_controller(const linux::HostFeatures& host, std::string_view name) {
  return host.cgroups_writable &&
         std::ranges::find(host.cgroup_controllers, name) != host.cgroup_controllers.end();
}

// What sandboxes lack here. Version 2 freezes without a controller of that name.
void judge_sandboxes(const linux::HostFeatures& host, std::vector<HostFinding>& findings) {
  const bool root = geteuid() == 0;
  const auto add = [&](std::string name, bool good, std::string found, std::string cost) {
    findings.push_back({std::move(name), std::move(found), good ? Grade::kGood : Grade::kMissing,
                        good ? "" : std::move(cost)});
  };
  const auto yes_no = [](bool value) { return std::string(value ? "yes" : "no"); };
  add("sandbox users", root, root ? "a range for each sandbox" : "one, shared by all",
      "a sandbox has the one user 1000 and no root, and to the host all sandboxes are your user; "
      "start Pons as root");
  std::vector<std::string_view> missing;
  for (const std::string_view name : {"memory", "cpu", "pids"})
    if (!has_controller(host, name)) missing.push_back(name);
  add("sandbox limits", missing.empty(),
      missing.empty() ? "memory, cpu, pids" : fmt::format("not for {}", fmt::join(missing, ", ")),
      "these limits are not enforced (the number of processes still is, by the kernel's limit per "
      "user); start Pons as root, or with a delegated cgroup v2 tree");
  const bool freezer =
      host.cgroup_version == 2 ? host.cgroups_writable : has_controller(host, "freezer");
  add("sandbox pause", freezer, yes_no(freezer),
      "sandboxes cannot be paused, and a checkpoint does not stop running processes meanwhile; "
      "start Pons as root, or with a delegated cgroup v2 tree");
  add("idmapped mounts", host.idmapped_tmpfs, yes_no(host.idmapped_tmpfs),
      root ? "a fork copies the files it stands on; needs Linux 6.3"
           : "not for users; sandboxes do without, because all their files are yours");
  add("detached layers", host.detached_layers, yes_no(host.detached_layers),
      "creating a sandbox takes longer the more there are, and one that was there before the "
      "spawner was restarted takes no checkpoint, rollback, fork or transaction; needs Linux 6.15");
  add("loop devices", host.loop_devices, yes_no(host.loop_devices),
      "no sandbox with its files on disk; files in memory work");
  const bool io_limits = host.io_limits_missing.empty();
  add("sandbox io limits", io_limits, yes_no(io_limits),
      fmt::format("a sandbox that asks for limits on the speed of its disk is refused: {}",
                  host.io_limits_missing));
  add("nested user namespaces", host.nested_user_namespaces, yes_no(host.nested_user_namespaces),
      "programs that make sandboxes themselves do not work inside");
}

std::vector<HostFinding> judge(const linux::HostFeatures& host) {
  std::vector<HostFinding> findings;
  const auto add = [&](std::string name, bool good, std::string found, Grade otherwise,
                       std::string cost) {
    findings.push_back({std::move(name), std::move(found), good ? Grade::kGood : otherwise,
                        good ? "" : std::move(cost)});
  };
  const auto yes_no = [](bool value) { return std::string(value ? "yes" : "no"); };
  add("kernel",
      host.kernel_major > kKernelFloorMajor ||
          (host.kernel_major == kKernelFloorMajor && host.kernel_minor >= kKernelFloorMinor),
      host.kernel_release, Grade::kFatal, "Pons needs Linux 6.1 or newer");
  add("root", geteuid() == 0, geteuid() == 0 ? "yes" : fmt::format("no (uid {})", geteuid()),
      Grade::kMissing, "roles share one user; start Pons as root for users of their own");
  add("seccomp", host.seccomp, yes_no(host.seccomp), Grade::kFatal,
      "roles cannot be confined; use a kernel with seccomp");
  add("Landlock", host.landlock_abi >= 6,
      host.landlock_abi == 0 ? "no" : fmt::format("ABI {}", host.landlock_abi),
      host.landlock_abi == 0 ? Grade::kFatal : Grade::kMissing,
      host.landlock_abi == 0
          ? "file access of roles is not confined; enable it with the boot parameter lsm=landlock,…"
          : "an older Landlock: no rules for TCP (before ABI 4) or signals (before ABI 6); the "
            "system-call filter covers both");
  add("cgroups", host.cgroup_version != 0,
      host.cgroup_version == 0
          ? "no"
          : fmt::format("v{} ({})", host.cgroup_version, fmt::join(host.cgroup_controllers, ", ")),
      Grade::kMissing, "sandboxes cannot be limited; mount cgroup v2 at /sys/fs/cgroup");
  add("user namespaces", host.user_namespaces, yes_no(host.user_namespaces), Grade::kMissing,
      "sandboxes cannot be made; allow them with sysctl kernel.unprivileged_userns_clone=1, or run "
      "as root");
  add("overlayfs", host.overlayfs, yes_no(host.overlayfs), Grade::kMissing,
      "sandboxes cannot have a private writable layer; load the overlay module");
  add("nftables", host.nftables, yes_no(host.nftables), Grade::kMissing,
      "sandboxes cannot reach the network through egress; load the nf_tables module");
  add("KVM", host.kvm, yes_no(host.kvm), Grade::kMissing,
      "no hardware-isolated tier; everything else works without it");
  judge_sandboxes(host, findings);
  return findings;
}

}  // namespace

HostReport examine_host() {
  HostReport report;
  report.findings = judge(linux::probe_host());
  report.sufficient = std::ranges::none_of(
      report.findings, [](const HostFinding& f) { return f.grade == Grade::kFatal; });
  return report;
}

Json to_json(const HostReport& report) {
  Json list = Json::array();
  for (const HostFinding& finding : report.findings)
    list.push_back({{"name", finding.name},
                    {"found", finding.found},
                    {"good", finding.grade == Grade::kGood},
                    {"cost", finding.cost}});
  return list;
}

void print_host(const HostReport& report) {
  fmt::print("{}\n", paint("This host", Tone::kStrong));
  std::vector<std::vector<Cell>> rows;
  for (const HostFinding& finding : report.findings) {
    const bool good = finding.grade == Grade::kGood;
    const bool fatal = finding.grade == Grade::kFatal;
    rows.push_back({{good    ? "  ok"
                     : fatal ? "  FAIL"
                             : "  note",
                     good    ? Tone::kGood
                     : fatal ? Tone::kBad
                             : Tone::kPlain},
                    finding.name,
                    finding.found,
                    {finding.cost, Tone::kDim}});
  }
  print_table(rows);
}

}  // namespace pons::cli
