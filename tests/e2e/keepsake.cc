#include <sys/mman.h>
#include <unistd.h>

#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "pons/linux/fd.h"
#include "pons/roles/confinement.h"
#include "pons/roles/keeper.h"
#include "pons/roles/profile.h"
#include "pons/roles/start.h"

// Pons, but its gateway leaves a note with the supervisor and reads what an earlier gateway left.
namespace pons::roles {

namespace {

// Roles find their descriptors by the order of the names.
int line_to_supervisor(Role role) {
  std::set<std::string> names = {"control", "keeper"};
  for (const Profile& profile : profiles()) {
    for (const Role callee : profile.may_dial) {
      if (profile.role == role) names.insert(fmt::format("dial:{}", name_of(callee)));
      if (callee == role) names.insert(fmt::format("from:{}", profile.name));
    }
  }
  return kFirstNamedDescriptor +
         static_cast<int>(std::distance(names.begin(), names.find("keeper")));
}

Result<void> leave_note(Keeper& keeper) {
  const linux::UniqueFd note(memfd_create("note", MFD_CLOEXEC));
  const std::string text = fmt::format("written by {}", getpid());
  if (!note || pwrite(note.get(), text.data(), text.size(), 0) < 0) return os_error("write note");
  return keeper.put("note", note.get());
}

Result<void> exchange_notes() {
  Keeper keeper(line_to_supervisor(Role::kGateway));
  const auto kept = TRY(keeper.take_back());
  for (const Keeper::Kept& item : kept) {
    char text[64] = "";
    if (pread(item.descriptor.get(), text, sizeof text - 1, 0) < 0) return os_error("read note");
    fmt::print(stderr, "{} found {}: {}\n", getpid(), item.name, text);
  }
  return kept.empty() ? leave_note(keeper) : Result<void>();
}

}  // namespace

// The step after the change of user tells the gateway by its uid.
bool is_step_left_out(std::string_view step) {
  if (step == "memory" && getuid() == uid_of(Role::kGateway))
    if (const auto done = exchange_notes(); !done)
      fmt::print(stderr, "no notes: {}\n", done.error().describe());
  return false;
}

}  // namespace pons::roles
