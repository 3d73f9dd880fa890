#pragma once

#include <string>

#include "pons/base/result.h"
#include "pons/linux/fd.h"

namespace pons::cli {

// A file that is there whole or not at all: until then it has another name beside its own.
class NewFile {
 public:
  explicit NewFile(std::string file) : file_(std::move(file)), partial_(file_ + ".partial") {}
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  // To be written to.
  Result<linux::UniqueFd> open() const;
  // kConflict when there is something of that name: it stays as it is.
  Result<void> name();

  const std::string& file() const { return file_; }
  const std::string& partial() const { return partial_; }

 private:
  std::string file_;
  std::string partial_;
  bool named_ = false;
};

Error exists_already(const std::string& file);

}  // namespace pons::cli
