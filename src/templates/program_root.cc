#include "pons/templates/program_root.h"

#include "libraries.h"
#include "pons/linux/fd.h"
#include "skeleton.h"

namespace pons::templates {
namespace {

constexpr std::size_t kLibraryBytesMax = 256 << 20;
constexpr const char* kNoShell = "/usr/sbin/nologin";  // which is not there either

}  // namespace

Result<LayerInfo> make_program_root(const LayerStore& store, const StoreLease& lease,
                                    const std::string& program, const std::string& source,
                                    const std::string& host_root) {
  Skeleton skeleton;
  for (const auto& [place, path] : TRY(find_libraries(program, host_root)))
    add_with_parents(skeleton, place,
                     {.kind = SkeletonEntry::Kind::kFile,
                      .mode = 0755,
                      .content = TRY(linux::read_file(path, kLibraryBytesMax))});
  add_bare_root(skeleton, kNoShell);
  StagingDirectory staged = TRY(store.stage(lease));
  TRY_VOID(write_skeleton(skeleton, staged.get() + "/fs"));
  return store.publish(std::move(staged), source);
}

}  // namespace pons::templates
