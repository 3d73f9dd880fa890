#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pons/base/result.h"
#include "pons/linux/fd.h"

struct archive_entry;

namespace pons::templates {

struct WriterCounts {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::uint64_t skipped = 0;         // devices, pipes, sockets
  std::uint64_t foreign_owners = 0;  // ids past 65535, which a sandbox does not have
};

// Puts entries of an archive below one directory, as a layer in overlay format. A name never leads
// out of the directory: every lookup ends at it, whatever links say.
class LayerWriter {
 public:
  explicit LayerWriter(linux::UniqueFd root) : root_(std::move(root)) {}

  // The descriptor to write the content to when the entry is a regular file, or -1.
  Result<int> begin(archive_entry* entry);
  // After the content: owner, mode, attributes, time.
  Result<void> end(archive_entry* entry);

  const WriterCounts& counts() const { return counts_; }

 private:
  struct Place {
    int parent = -1;  // owned by parent_
    std::string name;
  };
  Result<Place> locate(std::string_view path);
  Result<int> open_parent(const std::vector<std::string>& parts);
  Result<void> make_way(const Place& place);
  Result<void> write_whiteout(const Place& place);
  Result<void> mark_opaque(int parent, const std::string& name);
  Result<void> write_directory(const Place& place, archive_entry* entry);
  Result<void> write_symbolic_link(const Place& place, archive_entry* entry);
  Result<void> write_hard_link(const Place& place, const char* target);
  Result<void> set_owner(int fd, const std::string& name, archive_entry* entry);

  linux::UniqueFd root_;
  linux::UniqueFd parent_;
  std::optional<std::string> parent_path_;
  linux::UniqueFd file_;
  WriterCounts counts_;
};

}  // namespace pons::templates
