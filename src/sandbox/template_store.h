#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/sandbox/provider.h"
#include "pons/spawner/protocol.h"

namespace pons::sandbox {

// The templates, one file each in `directory`. "host" is always there.
class TemplateStore {
 public:
  explicit TemplateStore(std::string directory) : directory_(std::move(directory)) {}

  // Files that make no sense are reported in the log and left out.
  Result<void> load();
  Result<void> put(TemplateInfo info);
  // The layers that no other template has.
  Result<std::vector<std::string>> remove(std::string_view name);
  const TemplateInfo* find(std::string_view name) const;
  // What a sandbox of that name stands on; of "A+B" too. kNotFound names the part that is not
  // there.
  Result<TemplateInfo> resolve(std::string_view name) const;
  std::vector<TemplateInfo> list() const;

 private:
  std::string directory_;
  std::map<std::string, TemplateInfo, std::less<>> templates_;
};

TemplateInfo host_template();
Result<spawner::Digest> parse_digest(std::string_view hex);
std::string hex_of(const spawner::Digest& digest);

// Replaces the file in one step. Not forced to the disk: sandboxes do not outlive the host.
Result<void> replace_file(const std::string& path, std::string_view data);

}  // namespace pons::sandbox
