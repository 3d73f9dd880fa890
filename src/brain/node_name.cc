#include "node_name.h"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "pons/base/id.h"
#include "pons/base/text.h"
#include "pons/linux/fd.h"

namespace pons::brain {

namespace {

constexpr std::size_t kLength = 12;

// Whole or not at all: half a name would be another machine's.
Result<void> keep(const char* file, const std::string& name) {
  const std::string partial = fmt::format("{}.partial", file);
  const auto opened = TRY(linux::open_file(partial, O_WRONLY | O_CREAT | O_TRUNC, 0600));
  TRY_VOID(linux::write_all(opened.get(), name + "\n"));
  if (fsync(opened.get()) != 0) return os_error("keep name of node", partial);
  if (rename(partial.c_str(), file) != 0) return os_error("keep name of node", file);
  return linux::sync_directory(".");
}

}  // namespace

Result<std::string> own_node_name(const char* file) {
  if (access(file, F_OK) != 0) {
    std::string name = "node_" + random_text(kLength);
    TRY_VOID(keep(file, name));
    return name;
  }
  const std::string text = TRY(linux::read_file(file));
  std::string name(trim(text));
  if (is_id_text(name)) return name;
  return make_error(ErrorCode::kInvalid, "read name of node",
                    fmt::format("{} in the brain's folder holds no name; remove it, and another is "
                                "made",
                                file));
}

}  // namespace pons::brain
