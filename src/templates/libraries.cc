#include "libraries.h"

#include <fcntl.h>
#include <glob.h>

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "elf.h"
#include "pons/base/text.h"
#include "pons/linux/fd.h"

namespace pons::templates {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLibrariesMax = 256;
constexpr std::size_t kDirectoriesMax = 128;
constexpr std::size_t kSettingsBytesMax = 64 << 10;
constexpr int kIncludesMax = 4;  // in each other
constexpr std::array kUsualDirectories = {"/lib64", "/usr/lib64", "/lib", "/usr/lib"};
// It lies where the linker looks without being told.
constexpr std::string_view kCLibrary = "libc.so.";

class Linker {
 public:
  explicit Linker(std::string root) : root_(std::move(root)) {
    read_settings(root_ + "/etc/ld.so.conf", kIncludesMax);
    for (const char* directory : kUsualDirectories) add_directory(directory);
  }

  Result<std::map<std::string, std::string>> resolve(const std::string& program) {
    const auto needs = TRY(needs_of(program));
    if (!needs)
      return make_error(ErrorCode::kInvalid, "find libraries",
                        program + " is no program for machines of 64 bits");
    const auto ourselves = TRY(needs_of("/proc/self/exe"));
    if (ourselves && ourselves->machine != needs->machine)
      return make_error(ErrorCode::kUnsupported, "find libraries",
                        program + " is for machines of another kind than this one");
    machine_ = needs->machine;
    interpreter_ = needs->interpreter;
    if (interpreter_.empty()) return std::map<std::string, std::string>{};
    if (!interpreter_.starts_with('/') || interpreter_.find("..") != std::string::npos)
      return make_error(ErrorCode::kInvalid, "find libraries",
                        fmt::format("\"{}\" is no dynamic linker", interpreter_));
    if (!TRY(needs_of(root_ + interpreter_)))
      return make_error(ErrorCode::kNotFound, "find libraries",
                        fmt::format("this host has no {}", interpreter_));
    TRY_VOID(follow(*needs));
    return place();
  }

 private:
  void add_directory(std::string directory) {
    if (directories_.size() < kDirectoriesMax) directories_.push_back(std::move(directory));
  }

  // As ldconfig reads it: a directory in each line, or others to include.
  void read_settings(const std::string& path, int includes_left) {
    const auto text = linux::read_file(path, kSettingsBytesMax);
    if (!text) return;
    for (std::string_view line : split(*text, '\n')) {
      line = trim(line.substr(0, line.find('#')));
      constexpr std::string_view kInclude = "include ";
      if (line.starts_with('/')) add_directory(std::string(line));
      if (!line.starts_with(kInclude) || includes_left == 0) continue;
      const std::string pattern = root_ + std::string(trim(line.substr(kInclude.size())));
      glob_t found{};
      if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
        for (std::size_t i = 0; i < found.gl_pathc; ++i)
          read_settings(found.gl_pathv[i], includes_left - 1);
      globfree(&found);
    }
  }

  // Nothing when there is no such file, or it is for another machine.
  Result<std::optional<ElfNeeds>> needs_of(const std::string& path) const {
    const linux::UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file) return std::nullopt;
    auto needs = TRY(read_elf_needs(file.get()));
    if (needs && machine_ != 0 && needs->machine != machine_) return std::nullopt;
    return needs;
  }

  Result<ElfNeeds> find(const std::string& name) {
    for (const std::string& directory : directories_) {
      const std::string path = fmt::format("{}/{}", directory, name);
      auto needs = TRY(needs_of(root_ + path));
      if (!needs) continue;
      found_[name] = path;
      return std::move(*needs);
    }
    return make_error(ErrorCode::kNotFound, "find libraries",
                      fmt::format("the program needs {}, which this host does not have", name));
  }

  Result<void> follow(const ElfNeeds& first) {
    const std::string linker = interpreter_.substr(interpreter_.rfind('/') + 1);
    std::deque<std::string> wanted(first.libraries.begin(), first.libraries.end());
    std::set<std::string> seen{linker};
    while (!wanted.empty()) {
      const std::string name = std::move(wanted.front());
      wanted.pop_front();
      if (!seen.insert(name).second) continue;
      if (seen.size() > kLibrariesMax)
        return make_error(ErrorCode::kLimit, "find libraries", "the program needs too many");
      if (name.empty() || name.find('/') != std::string::npos)
        return make_error(ErrorCode::kInvalid, "find libraries",
                          fmt::format("\"{}\" is no name of a library", name));
      const ElfNeeds needs = TRY(find(name));
      wanted.insert(wanted.end(), needs.libraries.begin(), needs.libraries.end());
    }
    return {};
  }

  // All in one directory, which the linker knows without a cache or a file of settings.
  std::map<std::string, std::string> place() const {
    std::map<std::string, std::string> places;
    places[interpreter_.substr(1)] = root_ + interpreter_;
    std::string directory = interpreter_.substr(0, interpreter_.rfind('/'));
    for (const auto& [name, path] : found_)
      if (name.starts_with(kCLibrary)) directory = path.substr(0, path.rfind('/'));
    for (const auto& [name, path] : found_)
      places[fmt::format("{}/{}", directory.substr(1), name)] = root_ + path;
    return places;
  }

  std::string root_;
  std::vector<std::string> directories_;
  std::uint16_t machine_ = 0;
  std::string interpreter_;
  std::map<std::string, std::string> found_;  // by name
};

}  // namespace

Result<std::map<std::string, std::string>> find_libraries(const std::string& program,
                                                          const std::string& host_root) {
  return Linker(host_root).resolve(program);
}

}  // namespace pons::templates
