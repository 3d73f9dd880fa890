#include "new_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <filesystem>

namespace pons::cli {

namespace {
constexpr const char* kStep = "write file";
}

Error exists_already(const std::string& file) {
  return make_error(ErrorCode::kConflict, kStep,
                    file + " exists already; choose a name that does not");
}

NewFile::~NewFile() {
  if (!named_) unlink(partial_.c_str());
}

Result<linux::UniqueFd> NewFile::open() const {
  return linux::open_file(partial_, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
}

Result<void> NewFile::name() {
  if (renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, file_.c_str(), RENAME_NOREPLACE) != 0)
    return errno == EEXIST ? exists_already(file_) : os_error(kStep, file_);
  named_ = true;
  const auto folder = std::filesystem::path(file_).parent_path();
  return linux::sync_directory(folder.empty() ? "." : folder.string());
}

}  // namespace pons::cli
