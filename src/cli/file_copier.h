#pragma once

#include <string>

#include "pons/linux/fd.h"
#include "sandbox_session.h"

namespace pons::cli {

struct CopyCount {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::uint64_t skipped = 0;  // links, devices and the like
};

// Copies files into and out of one sandbox. What comes out is named by the sandbox, and so by
// whoever is in it: nothing is ever written outside of the directory that was asked for, no link
// is made or followed there, and no bit but the nine of permission is kept.
class FileCopier {
 public:
  FileCopier(Session& session, std::string sandbox, std::string user);

  Task<Result<void>> upload_file(linux::UniqueFd from, std::string to);
  Task<Result<void>> upload_tree(std::string from, std::string to);
  Task<Result<void>> download_file(std::string from, int to);
  // `to` is made when it is not there.
  Task<Result<void>> download_tree(std::string from, std::string to);

  const CopyCount& count() const { return count_; }
  void add(std::size_t bytes);
  void end_progress();

 private:
  struct Directory;
  Task<Result<void>> download_directory(Directory directory, std::vector<Directory>& more);
  Task<Result<void>> download_entry(const sandbox::FileInfo& entry, const std::string& name,
                                    int directory);

  Session& session_;
  std::string sandbox_;
  std::string user_;
  CopyCount count_;
  bool show_progress_;
  TimePoint shown_{};
};

// The name of an entry of `directory`, as its listing gave it; nothing for the directory itself.
// kInvalid for whatever is not the name of a file right below it.
Result<std::optional<std::string>> entry_name(std::string_view directory, std::string_view path);

}  // namespace pons::cli
