// How the sandboxes outlive the process that made them: their descriptors lie with the supervisor,
// and what nobody knows any more is removed.

#include <dirent.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <ranges>

#include <fmt/format.h>

#include "pons/base/log.h"
#include "pons/base/text.h"
#include "sandboxes.h"

namespace pons::spawner {

namespace {

constexpr char kGroupHome[] = "cgroup-home";

}  // namespace

Result<void> Sandboxes::deposit(const Sandbox& sandbox) {
  const std::string prefix = fmt::format("{:016x}.{}.", sandbox.key, sandbox.slot);
  for (const Borrowed& lender : sandbox.borrowed) {
    const roles::Keeper::Put borrowed{
        fmt::format("{}borrowed.{:016x}.{}", prefix, lender.sandbox, lender.slot),
        lender.store->fd()};
    TRY_VOID(keeper_.put_soon({&borrowed, 1}));
  }
  // Last: a sandbox whose cell is known is complete.
  const roles::Keeper::Put own[] = {{prefix + "user", sandbox.user_namespace.get()},
                                    {prefix + "net", sandbox.net_namespace.get()},
                                    {prefix + "mount", sandbox.mount_namespace.get()},
                                    {prefix + "store", sandbox.store->fd()},
                                    {prefix + "cell", sandbox.cell.get()}};
  return keeper_.put_soon(own);
}

void Sandboxes::withdraw(const Sandbox& sandbox) {
  const std::string prefix = fmt::format("{:016x}.{}.", sandbox.key, sandbox.slot);
  std::vector<std::string> names;
  for (const char* name : {"user", "net", "mount", "store", "cell"}) names.push_back(prefix + name);
  const auto drop = [&](std::span<const std::string> some) {
    if (auto dropped = keeper_.drop_soon(some); !dropped)
      LOG_WARN("cannot drop descriptors", {"error", dropped.error()});
  };
  drop(names);
  for (const Borrowed& lender : sandbox.borrowed) {
    const std::string name =
        fmt::format("{}borrowed.{:016x}.{}", prefix, lender.sandbox, lender.slot);
    drop({&name, 1});
  }
}

Result<void> Sandboxes::adopt_kept() {
  for (auto& [name, descriptor] : TRY(keeper_.take_back())) {
    const auto words = split(name, '.');
    if (words.size() < 3) continue;
    const auto key = parse_hex(words[0]);
    const auto slot = parse_decimal(words[1]);
    if (!key || !slot || *slot >= kSlotCount) continue;
    Sandbox& sandbox = sandboxes_[*key];
    sandbox.key = *key;
    sandbox.slot = static_cast<std::uint32_t>(*slot);
    const std::string_view kind = words[2];
    if (kind == "user") {
      sandbox.user_namespace = std::move(descriptor);
    } else if (kind == "net") {
      sandbox.net_namespace = std::move(descriptor);
    } else if (kind == "mount") {
      sandbox.mount_namespace = std::move(descriptor);
    } else if (kind == "cell") {
      sandbox.cell = std::move(descriptor);
    } else if (kind == "store") {
      sandbox.store = std::make_shared<const Store>(Store::adopt(std::move(descriptor)));
      sandbox.traffic_before = find_traffic_before(sandbox.store->fd());
    } else if (kind == "borrowed" && words.size() == 5) {
      const auto lender = parse_hex(words[3]);
      const auto lender_slot = parse_decimal(words[4]);
      if (!lender || !lender_slot) continue;
      sandbox.borrowed.push_back(
          {.sandbox = *lender,
           .slot = static_cast<std::uint32_t>(*lender_slot),
           .store = std::make_shared<const Store>(Store::adopt(std::move(descriptor))),
           .mapped = nullptr});
    }
  }
  for (auto& [key, sandbox] : sandboxes_) {
    grounds_.reserve(sandbox.slot);
    if (hierarchy_) {
      auto group = hierarchy_->adopt(group_prefix_ + name_of_key(key));
      if (group) sandbox.cgroup = std::move(*group);
      sandbox.frozen = sandbox.cgroup && sandbox.cgroup->is_frozen();
    }
    if (privileges_ == Privileges::kOwnNamespace) continue;
    for (Borrowed& lender : sandbox.borrowed) {
      auto mapped = map_store(*lender.store, lender.slot, sandbox.slot, privileges_);
      if (!mapped)
        LOG_WARN("the files of this sandbox cannot be rolled back any more",
                 {"sandbox", name_of_key(key)}, {"error", mapped.error()});
      lender.mapped = mapped ? std::make_shared<const Store>(std::move(*mapped)) : lender.store;
    }
  }
  // Deposits are made after a sandbox lives: one that is not complete died with the former process
  // in between, and so does what is left of it. In a user namespace of its own every process of the
  // spawner starts anew: it has no power over the sandboxes of the former one, which end with it.
  std::vector<std::uint64_t> broken;
  for (const auto& [key, sandbox] : sandboxes_)
    if (privileges_ == Privileges::kOwnNamespace || !sandbox.cell || !sandbox.store ||
        !sandbox.mount_namespace)
      broken.push_back(key);
  for (const std::uint64_t key : broken) {
    LOG_WARN("a half-made sandbox is removed", {"sandbox", name_of_key(key)});
    bury(std::move(*condemn(key)));
  }
  return {};
}

void Sandboxes::remove_leftovers() {
  const auto sweep = [&](const linux::CgroupHierarchy& hierarchy) {
    const auto names = hierarchy.find_names(group_prefix_);
    if (!names) return;
    for (const std::string& name : *names) {
      const auto key = parse_hex(std::string_view(name).substr(group_prefix_.size()));
      if (key && sandboxes_.contains(*key)) continue;
      LOG_WARN("a sandbox of a former run is removed", {"group", name});
      auto group = hierarchy.adopt(name);
      if (group) (void)group->thaw();
    }
  };
  if (hierarchy_) sweep(*hierarchy_);
  if (io_throttle_) io_throttle_->clear_free_loop_devices();
  // The former run may have lived in another group.
  if (const auto home = linux::read_file(kGroupHome); home) {
    const auto lines = split(trim(*home), '\n');
    std::vector<linux::CgroupMount> mounts;
    for (const std::string_view line : lines | std::views::drop(1))
      mounts.push_back({std::string(line), {}});
    if (!mounts.empty())
      sweep(linux::CgroupHierarchy::from_mounts(lines[0] == "2" ? 2 : 1, std::move(mounts)));
  }
  if (hierarchy_) {
    std::string text = fmt::format("{}\n", hierarchy_->version());
    for (const std::string& directory : hierarchy_->directories()) text += directory + "\n";
    if (auto written = linux::write_file_atomically(kGroupHome, text, 0600); !written)
      LOG_WARN("cannot note where control groups are", {"error", written.error()});
  }
  // A process that was killed while it made an image leaves it under another name.
  std::error_code ignored;
  for (const auto& image : std::filesystem::directory_iterator(kImageDirectory, ignored))
    if (image.path().extension() != kImageSuffix) std::filesystem::remove(image.path(), ignored);
  // Their mounts went with the mount namespace of the former process.
  for (const auto& place : std::filesystem::directory_iterator("stores", ignored))
    (void)rmdir(place.path().c_str());
  const std::unique_ptr<DIR, int (*)(DIR*)> cells(opendir("cells"), closedir);
  for (const dirent* entry; cells && (entry = readdir(cells.get())) != nullptr;) {
    const auto key = parse_hex(entry->d_name);
    if (key && !sandboxes_.contains(*key)) unlink(socket_path(*key).c_str());
  }
}

}  // namespace pons::spawner
