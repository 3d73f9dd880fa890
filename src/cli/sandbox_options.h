#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/sandbox/provider.h"

namespace CLI {
class App;
}

namespace pons::cli {

// "512M", "1G", "4096": bytes; the units are powers of 1024.
std::optional<std::uint64_t> parse_size(std::string_view text);
// "500ms", "30s", "5m", "2h", "1d".
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);

// What a person types about a new sandbox; each is a default when left out.
struct SandboxOptions {
  std::string id;
  std::string hostname;
  std::string network;
  std::vector<std::string> environment;
  std::vector<std::string> labels;
  std::string memory, swap, disk, tmpfs, io_read, io_write, idle, freeze, lifetime;
  std::uint64_t inodes = 0;
  std::uint32_t io_read_operations = 0;
  std::uint32_t io_write_operations = 0;
  std::uint32_t cpu_percent = 0;
  std::uint32_t pids = 0;
};
void add_sandbox_options(CLI::App& app, SandboxOptions& options);

// Puts what was typed into the request; kInvalid names the option that cannot be understood.
Result<void> apply(const SandboxOptions& options, sandbox::CreateRequest& request);

// False, with words on standard error, when apply() could not understand them.
bool are_understood(const SandboxOptions& options);

// NAME=VALUE; a NAME alone takes the value from this process, as `env` does.
Result<std::map<std::string, std::string>> parse_environment(const std::vector<std::string>& words);

// What a person types about a command to be run.
struct JobOptions {
  std::string user;
  std::string directory;
  std::vector<std::string> environment;
  std::string timeout;
  std::string output_max;
  std::uint64_t open_files_max = 0;
  std::string shell_line;
  bool terminal = false;
  bool interactive = false;
  bool transaction = false;
  bool rehearse = false;
};
void add_job_options(CLI::App& app, JobOptions& options);

// The job that was asked for, with `command` as its words.
Result<sandbox::JobSpec> make_job(const JobOptions& options, std::vector<std::string> command);

}  // namespace pons::cli
