#include "npm.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "pons/base/base64.h"
#include "pons/base/check.h"
#include "pons/base/text.h"
#include "pons/linux/child.h"
#include "process_group.h"

namespace pons::templates {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPackagesMax = 4096;
constexpr std::size_t kNameBytesMax = 214;  // npm's own
constexpr std::size_t kPlaceBytesMax = 1024;
constexpr std::size_t kKeepMax = 64;
constexpr std::size_t kNamedMax = 3;
constexpr std::size_t kWordsKept = 8192;
constexpr std::size_t kLinesShown = 6;
constexpr int kLookIntervalMs = 250;
constexpr std::chrono::hours kFetchDeadline{2};

Error refusal(std::string message) {
  return make_error(ErrorCode::kInvalid, "check packages", std::move(message));
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_';
}

// "name" or "@scope/name".
bool is_package_name(std::string_view text) {
  if (text.empty() || text.size() > kNameBytesMax) return false;
  if (text.starts_with('@')) {
    const auto slash = text.find('/');
    return slash != text.npos && is_package_name(text.substr(1, slash - 1)) &&
           is_package_name(text.substr(slash + 1));
  }
  return text[0] != '-' && text[0] != '.' && std::ranges::all_of(text, is_plain);
}

// Never a range, a tag or an address.
bool is_version(std::string_view text) {
  return !text.empty() && text.size() <= 128 && text[0] >= '0' && text[0] <= '9' &&
         std::ranges::all_of(text, [](char c) { return is_plain(c) || c == '+'; });
}

bool is_inner_path(std::string_view text) {
  if (text.empty() || text.size() > kPlaceBytesMax || text[0] == '/') return false;
  return std::ranges::all_of(split(text, '/'), [](std::string_view part) {
    return !part.empty() && part != "." && part != ".." &&
           std::ranges::all_of(part, [](char c) { return is_plain(c) || c == '@' || c == '+'; });
  });
}

std::string spec_of(const NpmPackage& package) {
  return fmt::format("{}@{}", package.name, package.version);
}

std::string find_npm() {
  const char* path = std::getenv("PATH");
  for (const std::string_view directory : split(path == nullptr ? "" : path, ':')) {
    const std::string program = fmt::format("{}/npm", directory);
    if (directory.starts_with('/') && access(program.c_str(), X_OK) == 0) return program;
  }
  return {};
}

// Ours, so that a cache that somebody else can write to is not asked, and nothing is left behind.
std::vector<std::string> command_line(const std::string& npm, const PackageOptions& options,
                                      const std::string& directory) {
  std::vector<std::string> argv = {"setsid",
                                   npm,
                                   "pack",
                                   "--prefix=" + directory,
                                   "--cache=" + directory + "/cache",
                                   "--pack-destination=" + directory + "/archives",
                                   "--ignore-scripts",
                                   "--prefer-offline",
                                   "--loglevel=error",
                                   "--no-update-notifier",
                                   "--no-audit",
                                   "--no-fund",
                                   "--"};
  std::set<std::string> specs;
  for (const NpmPackage& package : options.packages) specs.insert(spec_of(package));
  argv.insert(argv.end(), specs.begin(), specs.end());
  return argv;
}

// The operator's own: registry, proxy and certificates are named there and in ~/.npmrc.
std::vector<std::string> own_environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  return variables;
}

std::uint64_t bytes_below(const std::string& directory) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    const auto size = entry->file_size(gone);
    if (!gone) bytes += size;
  }
  return bytes;
}

// Reads what npm complains about until it ends.
class NpmRun {
 public:
  NpmRun(const PackageOptions& options, std::string directory)
      : options_(options), directory_(std::move(directory)) {
    for (const NpmPackage& package : options.packages)
      if (archives_.insert(package.integrity).second) total_ += package.bytes;
  }

  Result<void> wait(linux::ChildProcess& child, int words_fd) {
    const auto deadline = std::chrono::steady_clock::now() + kFetchDeadline;
    for (;;) {
      pollfd entries[] = {{.fd = words_fd, .events = POLLIN, .revents = 0},
                          {.fd = options_.limits.interrupt_fd, .events = POLLIN, .revents = 0}};
      if (poll(entries, 2, kLookIntervalMs) < 0 && errno != EINTR) return os_error("wait for npm");
      TRY_VOID(check_interrupt(options_.limits.interrupt_fd));
      if (std::chrono::steady_clock::now() > deadline)
        return make_error(ErrorCode::kTimeout, "fetch packages", "npm takes more than 2 hours");
      tell();
      if (entries[0].revents != 0 && !read_some(words_fd)) break;
    }
    const auto status = child.wait_until(deadline);
    if (status && status->success()) return {};
    return make_error(ErrorCode::kUnavailable, "fetch packages",
                      complaint().empty() ? "npm failed" : complaint());
  }

 private:
  void tell() const {
    if (!options_.progress) return;
    const std::uint64_t bytes = bytes_below(directory_ + "/cache");
    options_.progress({.what = "download",
                       .done = total_ == 0 ? bytes : std::min(bytes, total_),
                       .total = total_});
  }

  bool read_some(int fd) {
    char block[4096];
    const ssize_t got = read(fd, block, sizeof block);
    if (got <= 0) return got < 0 && errno == EINTR;
    words_.append(block, static_cast<std::size_t>(got));
    if (words_.size() > kWordsKept) words_.erase(0, words_.size() - kWordsKept);
    return true;
  }

  // The first lines that say "error"; where its log lies says nothing, because it is gone by then.
  std::string complaint() const {
    std::vector<std::string_view> lines;
    for (const std::string_view line : split(words_, '\n')) {
      const bool is_error = line.starts_with("npm error ") || line.starts_with("npm ERR! ");
      if (is_error && line.find(directory_) == line.npos && lines.size() < kLinesShown)
        lines.push_back(line);
    }
    return fmt::format("{}", fmt::join(lines, "\n"));
  }

  const PackageOptions& options_;
  std::string directory_;
  std::set<std::string> archives_;
  std::uint64_t total_ = 0;
  std::string words_;
};

Result<void> run_npm(const PackageOptions& options, const std::string& directory) {
  const std::string npm = find_npm();
  if (npm.empty())
    return make_error(ErrorCode::kUnsupported, "fetch packages",
                      "npm is missing; install the package npm (apt install npm), or Node.js, "
                      "which has it");
  linux::Pipe words = TRY(linux::create_pipe());
  auto child = TRY(
      linux::ChildProcess::spawn(kSessionProgram, {.argv = command_line(npm, options, directory),
                                                   .environment = own_environment(),
                                                   .descriptors = {{words.write_end.get(), 2}}}));
  words.write_end.reset();
  auto done = NpmRun(options, directory).wait(child, words.read_end.get());
  if (!done) stop_group(child);
  return done;
}

// What npm brought, whatever it is called.
Result<std::map<std::string, std::string>> find_archives(const std::string& directory,
                                                         int interrupt_fd) {
  std::map<std::string, std::string> archives;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path().string();
    const auto file = TRY(linux::open_file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
    archives.emplace(TRY(sha512_of_file(file.get(), interrupt_fd)), path);
  }
  if (error) return os_error("fetch packages", directory, error.value());
  return archives;
}

}  // namespace

Result<std::string> read_integrity(const std::string& integrity) {
  constexpr std::string_view kPrefix = "sha512-";
  constexpr std::size_t kDigestBytes = 64;
  if (integrity.starts_with(kPrefix)) {
    auto bytes = base64_decode(std::string_view(integrity).substr(kPrefix.size()));
    if (bytes && bytes->size() == kDigestBytes) return std::move(*bytes);
  }
  return refusal(fmt::format("\"{}\" is no SHA-512", integrity));
}

Result<std::string> sha512_of_file(int fd, int interrupt_fd) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> hash(EVP_MD_CTX_new(),
                                                                     EVP_MD_CTX_free);
  CHECK(hash != nullptr && EVP_DigestInit_ex(hash.get(), EVP_sha512(), nullptr) == 1);
  std::array<char, std::size_t{128} << 10> block;
  for (;;) {
    const ssize_t got = read(fd, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os_error("read archive");
    if (got == 0) break;
    CHECK(EVP_DigestUpdate(hash.get(), block.data(), static_cast<std::size_t>(got)) == 1);
    TRY_VOID(check_interrupt(interrupt_fd));
  }
  if (lseek(fd, 0, SEEK_SET) != 0) return os_error("read archive");
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  CHECK(EVP_DigestFinal_ex(hash.get(), digest.data(), &size) == 1);
  return std::string(reinterpret_cast<const char*>(digest.data()), size);
}

Result<void> check_packages(const PackageOptions& options) {
  if (options.packages.empty() || options.packages.size() > kPackagesMax)
    return refusal(fmt::format("there are 1 to {} packages", kPackagesMax));
  if (!is_inner_path(options.directory)) return refusal("the directory is no path inside");
  for (const NpmPackage& package : options.packages) {
    if (!is_package_name(package.name))
      return refusal(fmt::format("\"{}\" is no name of a package", package.name));
    if (!is_version(package.version))
      return refusal(fmt::format("{}: \"{}\" is no version", package.name, package.version));
    if (!is_inner_path(package.place))
      return refusal(fmt::format("{}: \"{}\" is no path inside", package.name, package.place));
    if (package.keep.size() > kKeepMax)
      return refusal(fmt::format("{}: more than {} files to keep", package.name, kKeepMax));
    TRY(read_integrity(package.integrity));
  }
  for (const std::string& program : options.programs)
    if (!is_inner_path(program)) return refusal(fmt::format("\"{}\" is no path inside", program));
  return {};
}

Result<std::map<std::string, std::string>> fetch_archives(const PackageOptions& options,
                                                          const std::string& directory) {
  for (const char* name : {"", "/cache", "/archives"})
    if (mkdir((directory + name).c_str(), 0700) != 0 && errno != EEXIST)
      return os_error("fetch packages", directory);
  TRY_VOID(run_npm(options, directory));
  TRY_VOID(remove_tree(directory + "/cache"));
  auto archives = TRY(find_archives(directory + "/archives", options.limits.interrupt_fd));
  std::vector<std::string> others;
  for (const NpmPackage& package : options.packages)
    if (!archives.contains(TRY(read_integrity(package.integrity))))
      others.push_back(spec_of(package));
  if (others.empty()) return archives;
  const std::size_t more = others.size() - std::min(others.size(), kNamedMax);
  others.resize(std::min(others.size(), kNamedMax));
  return make_error(
      ErrorCode::kDenied, "verify packages",
      fmt::format("the registry's archive of {}{} has another SHA-512 than the one "
                  "that was tested; nothing was installed",
                  fmt::join(others, ", "), more == 0 ? "" : fmt::format(" and of {} more", more)));
}

}  // namespace pons::templates
