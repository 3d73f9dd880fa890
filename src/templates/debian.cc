#include "pons/templates/debian.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apt_sources.h"
#include "extract.h"
#include "oci_layout.h"
#include "pons/base/text.h"
#include "pons/linux/child.h"
#include "pons/templates/import.h"
#include "process_group.h"

namespace pons::templates {
namespace {

using linux::UniqueFd;

constexpr const char* kProgram = "/usr/bin/mmdebstrap";
constexpr std::size_t kPackagesMax = 512;
constexpr std::size_t kSettingsBytesMax = 1 << 20;
constexpr std::size_t kWordsKept = 4096;
constexpr std::size_t kTitleBytesMax = 60;
constexpr std::chrono::hours kBuildDeadline{2};
// What mmdebstrap announces ("I: …") for a system of this kind.
constexpr std::uint64_t kAnnouncements = 14;

bool is_package_name(std::string_view text) {
  return !text.empty() && text.size() <= 128 && text[0] != '-' &&
         std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                  c == '+' || c == '-' || c == '.' || c == ':' || c == '=' || c == '~' || c == '_';
         });
}

Result<void> check_options(const DebianOptions& options) {
  const auto refuse = [](std::string message) {
    return make_error(ErrorCode::kInvalid, "build template", std::move(message));
  };
  if (!is_template_name(options.name))
    return refuse("a template's name has up to 64 characters of a-z, 0-9, '.', '_' and '-'");
  if (options.packages.size() > kPackagesMax) return refuse("more than 512 packages");
  for (const std::string& package : options.packages)
    if (!is_package_name(package)) return refuse(fmt::format("\"{}\" is no package", package));
  if (!is_package_name(options.suite)) return refuse("that is no name of a suite");
  const bool is_url = options.mirror.starts_with("http://") ||
                      options.mirror.starts_with("https://") ||
                      options.mirror.starts_with("file:///");
  if (!options.mirror.empty() &&
      (!is_url || options.mirror.find_first_of(" \t\n") != std::string::npos))
    return refuse("a mirror begins with http://, https:// or file:///");
  if (access(kProgram, X_OK) != 0)
    return make_error(ErrorCode::kUnsupported, "build template",
                      "mmdebstrap is missing; install the package mmdebstrap");
  return {};
}

std::string read_or_nothing(const std::string& path) {
  return linux::read_file(path, kSettingsBytesMax).value_or("");
}

struct HostSources {
  std::string one_line;
  std::string deb822;
};

HostSources host_sources(const std::string& suite) {
  HostSources sources;
  sources.one_line = one_line_sources_for(read_or_nothing("/etc/apt/sources.list"), suite);
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/etc/apt/sources.list.d", error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string text = read_or_nothing(entry->path().string());
    if (entry->path().extension() == ".list") sources.one_line += one_line_sources_for(text, suite);
    if (entry->path().extension() == ".sources") sources.deb822 += deb822_sources_for(text, suite);
  }
  return sources;
}

// Removes the host's side of things again, and makes the user. Runs outside, on the tree $1.
constexpr const char* kFinish =
    "set -e; "
    "rm -rf \"$1\"/etc/apt/auth.conf \"$1\"/etc/apt/auth.conf.d/* "
    "\"$1\"/etc/apt/apt.conf.d/99mmdebstrap; "
    "find \"$1\"/etc/apt -name '*.list' -o -name '*.sources' | while read -r file; do "
    "sed -i 's#://[^/@ ]*@#://#g' \"$file\"; done; "
    "rm -f \"$1\"/etc/hostname \"$1\"/etc/resolv.conf; "
    "echo 'nameserver 127.0.0.1' >\"$1\"/etc/resolv.conf; "
    "printf '127.0.0.1\\tlocalhost\\n127.0.1.1\\te2b.local\\n::1\\tlocalhost ip6-localhost\\n' "
    ">\"$1\"/etc/hosts; "
    "chroot \"$1\" useradd --create-home --uid 1000 --user-group --shell /bin/bash user; "
    "if [ -d \"$1\"/etc/sudoers.d ]; then "
    "printf 'user ALL=(ALL) NOPASSWD:ALL\\n' >\"$1\"/etc/sudoers.d/user; "
    "chmod 0440 \"$1\"/etc/sudoers.d/user; fi";

constexpr const char* kLendCredentials =
    "set -e; mkdir -p \"$1\"/etc/apt/auth.conf.d; "
    "[ ! -f /etc/apt/auth.conf ] || cp -p /etc/apt/auth.conf \"$1\"/etc/apt/; "
    "for file in /etc/apt/auth.conf.d/*; do "
    "[ ! -f \"$file\" ] || cp -p \"$file\" \"$1\"/etc/apt/auth.conf.d/; done";

Result<std::string> run_for_text(const std::string& program, std::vector<std::string> argv) {
  linux::Pipe output = TRY(linux::create_pipe());
  auto child =
      TRY(linux::ChildProcess::spawn(program, {.argv = std::move(argv),
                                               .environment = {"PATH=/usr/bin:/bin"},
                                               .descriptors = {{output.write_end.get(), 1}}}));
  output.write_end.reset();
  return linux::read_all(output.read_end.get(), kSettingsBytesMax);
}

// What is lent to mmdebstrap lies beside the tree, and goes with the staging directory.
Result<std::vector<std::string>> command_line(const DebianOptions& options,
                                              const std::string& directory) {
  std::vector<std::string> argv = {
      "setsid",
      kProgram,
      "--variant=minbase",
      "--format=tar",
      geteuid() == 0 ? "--mode=root" : "--mode=unshare",
      fmt::format("--include={}{}ca-certificates,passwd,bash", fmt::join(options.packages, ","),
                  options.packages.empty() ? "" : ","),
      fmt::format("--setup-hook={}", kLendCredentials),
      fmt::format("--customize-hook={}", kFinish)};
  if (access("/usr/bin/apt-config", X_OK) == 0) {
    const std::string settings =
        fetch_settings(TRY(run_for_text("/usr/bin/apt-config", {"apt-config", "dump"})));
    TRY_VOID(linux::write_file_atomically(directory + "/apt.conf", settings, 0600));
    argv.push_back("--aptopt=" + directory + "/apt.conf");
  }
  argv.push_back(options.suite);
  argv.emplace_back("-");
  if (!options.mirror.empty()) {
    argv.push_back(options.mirror);
    return argv;
  }
  const HostSources sources = host_sources(options.suite);
  if (!sources.one_line.empty()) {
    TRY_VOID(linux::write_file_atomically(directory + "/host.list", sources.one_line, 0600));
    argv.push_back(directory + "/host.list");
  }
  if (!sources.deb822.empty()) {
    TRY_VOID(linux::write_file_atomically(directory + "/host.sources", sources.deb822, 0600));
    argv.push_back(directory + "/host.sources");
  }
  return argv;
}

std::vector<std::string> environment_for(const std::string& directory) {
  std::vector<std::string> environment = {
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C",
      "DEBIAN_FRONTEND=noninteractive", "HOME=/root", "TMPDIR=" + directory};
  for (const char* name : {"http_proxy", "https_proxy", "no_proxy"})
    if (const char* value = std::getenv(name))
      environment.push_back(fmt::format("{}={}", name, value));
  return environment;
}

// The words of mmdebstrap: its announcements move the bar, its last lines explain a failure.
class Announcements {
 public:
  explicit Announcements(const DebianOptions& options) : options_(options) {}

  // False at the end of the stream.
  bool read_some(int fd) {
    char block[4096];
    const ssize_t got = read(fd, block, sizeof block);
    if (got <= 0) return got < 0 && errno == EINTR;
    for (const char c : std::string_view(block, static_cast<std::size_t>(got))) {
      if (c != '\n' && c != '\r') {
        if (line_.size() < kWordsKept) line_ += c;
        continue;
      }
      take_line();
    }
    return true;
  }
  std::string last_words() const { return words_; }

 private:
  static std::string title_of(const std::string& line) {
    const std::size_t end = std::min(line.find("..."), line.find(" in shell"));
    return line.substr(3, std::min(end, kTitleBytesMax + 3) - 3);
  }

  void take_line() {
    if (line_.starts_with("I: ")) {
      ++count_;
      if (options_.progress)
        options_.progress({.what = title_of(line_),
                           .done = std::min(count_, kAnnouncements),
                           .total = kAnnouncements});
    } else if (line_.starts_with("E: ") || line_.starts_with("W: ") || line_.starts_with("Err:")) {
      words_ += line_ + "\n";
      if (words_.size() > kWordsKept) words_.erase(0, words_.size() - kWordsKept);
    }
    line_.clear();
  }

  const DebianOptions& options_;
  std::string line_;
  std::string words_;
  std::uint64_t count_ = 0;
};

Result<void> run_build(linux::ChildProcess& child, int words_fd, Extraction& extraction,
                       Announcements& announcements, int interrupt_fd) {
  const auto deadline = std::chrono::steady_clock::now() + kBuildDeadline;
  bool talking = true;
  bool unpacking = true;
  Result<void> unpacked = {};
  while (talking || unpacking) {
    pollfd entries[] = {{.fd = talking ? words_fd : -1, .events = POLLIN, .revents = 0},
                        {.fd = unpacking ? extraction.fd() : -1, .events = POLLIN, .revents = 0},
                        {.fd = interrupt_fd, .events = POLLIN, .revents = 0}};
    if (poll(entries, 3, 1000) < 0 && errno != EINTR) return os_error("wait for mmdebstrap");
    TRY_VOID(check_interrupt(interrupt_fd));
    if (std::chrono::steady_clock::now() > deadline)
      return make_error(ErrorCode::kTimeout, "build template",
                        "mmdebstrap takes more than 2 hours");
    if (entries[0].revents != 0) talking = announcements.read_some(words_fd);
    if (entries[1].revents == 0) continue;
    auto report = extraction.advance();
    unpacking = report && !*report;
    // mmdebstrap's own words say more about an archive that ends early than the archive does.
    if (!report) unpacked = std::move(report).error();
  }
  const auto status = child.wait_until(deadline);
  if (!status || !status->success())
    return make_error(
        ErrorCode::kUnavailable, "build template",
        announcements.last_words().empty() ? "mmdebstrap failed" : announcements.last_words());
  return unpacked;
}

Result<void> build_tree(const DebianOptions& options, const std::string& directory) {
  linux::Pipe archive = TRY(linux::create_pipe());
  linux::Pipe words = TRY(linux::create_pipe());
  const auto argv = TRY(command_line(options, directory));
  Extraction extraction =
      TRY(Extraction::start(archive.read_end.get(), directory + "/fs", options.limits));
  archive.read_end.reset();
  auto child = TRY(linux::ChildProcess::spawn(
      kSessionProgram,
      {.argv = argv,
       .environment = environment_for(directory),
       .descriptors = {{archive.write_end.get(), 1}, {words.write_end.get(), 2}}}));
  archive.write_end.reset();
  words.write_end.reset();
  Announcements announcements(options);
  auto built = run_build(child, words.read_end.get(), extraction, announcements,
                         options.limits.interrupt_fd);
  // All of them: mmdebstrap waits for apt before it looks at a signal.
  if (!built) stop_group(child);
  return built;
}

}  // namespace

Result<void> check_apt_settings(const std::string& tree) {
  const UniqueFd root = TRY(linux::open_file(tree, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator entry(tree + "/etc/apt", error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string path = entry->path().lexically_relative(tree).string();
    const std::string name = entry->path().filename().string();
    if (entry->symlink_status().type() != std::filesystem::file_type::regular) continue;
    const bool is_key = name.ends_with(".gpg") || name.ends_with(".asc");
    const UniqueFd file = TRY(open_below(root.get(), path));
    const bool credentials =
        path.starts_with("etc/apt/auth.conf") || name == "99mmdebstrap" ||
        (!is_key && holds_credentials(TRY(linux::read_all(file.get(), kSettingsBytesMax))));
    if (credentials)
      return make_error(ErrorCode::kDenied, "check template",
                        path + " holds settings of the host: nothing was kept");
  }
  return {};
}

std::vector<std::string> base_packages() {
  return {"build-essential",
          "curl",
          "git",
          "iproute2",
          "less",
          "nano",
          "procps",
          "python-is-python3",
          "python3",
          "python3-pip",
          "python3-venv",
          "sudo",
          "unzip",
          "wget",
          "zip"};
}

Result<sandbox::TemplateInfo> build_debian(const LayerStore& store, const StoreLease& lease,
                                           const DebianOptions& options) {
  TRY_VOID(check_options(options));
  StagingDirectory staged = TRY(store.stage(lease));
  // In unshare mode mmdebstrap is another user and must get to its temporary directory.
  if (geteuid() != 0 && chmod(staged.get().c_str(), 0711) != 0)
    return os_error("build template", staged.get());
  TRY_VOID(build_tree(options, staged.get()));
  const std::string tree = staged.get() + "/fs";
  TRY_VOID(check_apt_settings(tree));
  if (options.progress) options.progress({.what = "digest"});
  StagingDirectory clean = TRY(store.stage(lease));
  // Only the tree goes into the store, not what was lent.
  if (rmdir((clean.get() + "/fs").c_str()) != 0 ||
      rename(tree.c_str(), (clean.get() + "/fs").c_str()) != 0)
    return os_error("build template", tree);
  const std::string source =
      fmt::format("mmdebstrap {}: {}", options.suite, fmt::join(options.packages, " "));
  const LayerInfo layer = TRY(store.publish(std::move(clean), source, options.limits));
  return sandbox::TemplateInfo{.name = options.name,
                               .kind = "debian",
                               .layers = {layer.digest},
                               .weakening = {.allow_sudo = options.allow_sudo},
                               .bytes = layer.bytes,
                               .created_unix_ms = layer.created_unix_ms,
                               .source = source};
}

}  // namespace pons::templates
