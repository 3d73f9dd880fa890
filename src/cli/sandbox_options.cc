#include "sandbox_options.h"

#include <cstdlib>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "local_terminal.h"
#include "pons/base/text.h"
#include "pons/linux/fd.h"
#include "terminal.h"

namespace pons::cli {

namespace {

constexpr const char* kStep = "read options";
// A year; what is meant to last longer has no end.
constexpr std::uint64_t kDurationMaxMs = 366ULL * 86'400 * 1000;

std::pair<std::string_view, std::string_view> split_unit(std::string_view text) {
  const auto end = text.find_first_not_of("0123456789");
  return {text.substr(0, end), end == std::string_view::npos ? "" : text.substr(end)};
}

Error not_understood(const char* option, const std::string& text, const char* example) {
  return make_error(ErrorCode::kInvalid, kStep,
                    fmt::format("{} {}: write it like {}", option, text, example));
}

Result<void> set_size(const char* option, const std::string& text, std::uint64_t& out) {
  if (text.empty()) return {};
  const auto size = parse_size(text);
  if (!size) return not_understood(option, text, "512M or 2G");
  out = *size;
  return {};
}

Result<void> set_duration(const char* option, const std::string& text, sandbox::Milliseconds& out) {
  if (text.empty()) return {};
  const auto duration = parse_duration(text);
  if (!duration) return not_understood(option, text, "500ms, 30s, 5m or 2h");
  out = *duration;
  return {};
}

}  // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
  const auto [digits, unit] = split_unit(text);
  const auto number = parse_decimal(digits);
  if (!number) return std::nullopt;
  constexpr std::string_view kUnits = "KMGT";
  unsigned shift = 0;
  if (!unit.empty() && unit != "B") {
    const auto at = kUnits.find(unit[0] & ~0x20);
    const std::string_view rest = unit.substr(1);
    if (at == std::string_view::npos || (!rest.empty() && rest != "B" && rest != "iB"))
      return std::nullopt;
    shift = 10 * (static_cast<unsigned>(at) + 1);
  }
  if (*number > std::numeric_limits<std::uint64_t>::max() >> shift) return std::nullopt;
  return *number << shift;
}

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
  static constexpr std::pair<std::string_view, std::uint64_t> kUnits[] = {
      {"ms", 1}, {"s", 1000}, {"", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};
  const auto [digits, unit] = split_unit(text);
  const auto number = parse_decimal(digits);
  if (!number) return std::nullopt;
  for (const auto& [name, factor] : kUnits)
    if (name == unit && *number <= kDurationMaxMs / factor)
      return std::chrono::milliseconds(*number * factor);
  return std::nullopt;
}

Result<std::map<std::string, std::string>> parse_environment(
    const std::vector<std::string>& words) {
  std::map<std::string, std::string> environment;
  for (const std::string& word : words) {
    const auto equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (name.empty())
      return make_error(ErrorCode::kInvalid, kStep, fmt::format("{}: write NAME=VALUE", word));
    if (equals != std::string::npos) {
      environment[name] = word.substr(equals + 1);
    } else if (const char* value = std::getenv(name.c_str())) {
      environment[name] = value;
    }
  }
  return environment;
}

void add_sandbox_options(CLI::App& app, SandboxOptions& options) {
  app.add_option("--id", options.id, "Its id: a-z, 0-9 and -, at most 64 (default: one is made)")
      ->type_name("ID");
  app.add_option("--hostname", options.hostname, "Its host name (default: the id)")
      ->type_name("NAME");
  app.add_option("--network", options.network,
                 "What it may reach: an environment of pons.yaml, or @FILE with a policy as JSON "
                 "(default: nothing)")
      ->type_name("NAME|@FILE");
  app.add_option("-e,--env", options.environment, "A variable of its environment; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  app.add_option("--label", options.labels, "A label to find it by; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  app.add_option("--memory", options.memory, "Memory it may use (default: 512M)")
      ->type_name("SIZE");
  app.add_option("--swap", options.swap, "Swap it may use (default: none)")->type_name("SIZE");
  app.add_option("--cpu", options.cpu_percent, "Processor time: 100 is one processor")
      ->type_name("PERCENT")
      ->check(CLI::Range(1U, 1'000'000U));
  app.add_option("--pids", options.pids, "Processes and threads it may have (default: 512)")
      ->type_name("COUNT")
      ->check(CLI::Range(1U, 4'000'000U));
  app.add_option("--disk", options.disk,
                 "Keep what it writes on disk, at most so much (default: in memory)")
      ->type_name("SIZE");
  app.add_option(
         "--tmpfs", options.tmpfs,
         "What it writes to memory, at most (default: --memory less what its processes need)")
      ->type_name("SIZE");
  app.add_option(
         "--inodes", options.inodes,
         "Files and directories it may have written (default: one per 4K; with --disk, 16K)")
      ->type_name("COUNT")
      ->check(CLI::Range(std::uint64_t{64}, std::uint64_t{1} << 34));
  app.add_option("--io-read", options.io_read, "Bytes per second read from that disk, at most")
      ->type_name("SIZE");
  app.add_option("--io-write", options.io_write, "Bytes per second written to it, at most")
      ->type_name("SIZE");
  app.add_option("--iops-read", options.io_read_operations,
                 "Reads of that disk per second, at most")
      ->type_name("COUNT")
      ->check(CLI::Range(1U, 1'000'000'000U));
  app.add_option("--iops-write", options.io_write_operations, "Writes to it per second, at most")
      ->type_name("COUNT")
      ->check(CLI::Range(1U, 1'000'000'000U));
  app.add_option("--idle", options.idle, "End it when nobody used it for so long")
      ->type_name("DURATION");
  app.add_option("--freeze", options.freeze,
                 "Freeze it when nobody used it for so long; the next use thaws it")
      ->type_name("DURATION");
  app.add_option("--lifetime", options.lifetime, "End it after so long")->type_name("DURATION");
}

Result<void> apply(const SandboxOptions& options, sandbox::CreateRequest& request) {
  sandbox::Limits& limits = request.limits;
  if (!options.id.empty()) request.id = options.id;
  if (!options.hostname.empty()) request.hostname = options.hostname;
  constexpr std::size_t kPolicyBytesMax = 256 << 10;
  if (options.network.starts_with('@')) {
    request.network.policy = TRY(linux::read_file(options.network.substr(1), kPolicyBytesMax));
  } else {
    request.network.environment = options.network;
  }
  request.environment = TRY(parse_environment(options.environment));
  request.labels = TRY(parse_environment(options.labels));
  TRY_VOID(set_size("--memory", options.memory, limits.memory_bytes));
  TRY_VOID(set_size("--swap", options.swap, limits.swap_bytes));
  if (!options.disk.empty() && !options.tmpfs.empty())
    return make_error(
        ErrorCode::kInvalid, kStep,
        "--disk keeps what it writes on disk and --tmpfs in memory: give one of them");
  TRY_VOID(set_size("--disk", options.disk, limits.disk_bytes));
  TRY_VOID(set_size("--tmpfs", options.tmpfs, limits.disk_bytes));
  limits.disk_inodes = options.inodes;
  TRY_VOID(set_size("--io-read", options.io_read, limits.io_read_bytes_per_second));
  TRY_VOID(set_size("--io-write", options.io_write, limits.io_write_bytes_per_second));
  TRY_VOID(set_duration("--idle", options.idle, limits.idle_max));
  TRY_VOID(set_duration("--freeze", options.freeze, limits.freeze_after));
  TRY_VOID(set_duration("--lifetime", options.lifetime, limits.lifetime_max));
  if (options.cpu_percent != 0) limits.cpu_percent = options.cpu_percent;
  if (options.pids != 0) limits.pids = options.pids;
  limits.io_read_operations_per_second = options.io_read_operations;
  limits.io_write_operations_per_second = options.io_write_operations;
  const bool limits_io = !options.io_read.empty() || !options.io_write.empty() ||
                         options.io_read_operations != 0 || options.io_write_operations != 0;
  if (limits_io && options.disk.empty())
    return make_error(ErrorCode::kInvalid, kStep,
                      "--io-read, --io-write, --iops-read and --iops-write are for a sandbox with "
                      "--disk");
  if (!options.disk.empty()) limits.disk_upper = true;
  return {};
}

bool are_understood(const SandboxOptions& options) {
  sandbox::CreateRequest request;
  const auto applied = apply(options, request);
  if (!applied) print_error(applied.error().message);
  return applied.has_value();
}

void add_job_options(CLI::App& app, JobOptions& options) {
  app.add_option("-u,--user", options.user, "User inside (default: the template's)")
      ->type_name("NAME");
  app.add_option("-w,--cwd", options.directory, "Working directory inside")->type_name("DIR");
  app.add_option("-e,--env", options.environment, "A variable of its environment; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  app.add_option("--timeout", options.timeout, "End it after so long; the exit status is 124 then")
      ->type_name("DURATION");
  app.add_option("--output-max", options.output_max,
                 "End it when it has written more; the exit status is 125 then")
      ->type_name("SIZE");
  app.add_option("--open-files", options.open_files_max,
                 "Files that each of its processes may have open at once")
      ->type_name("COUNT")
      ->check(CLI::Range(8U, 1U << 20));
  app.add_option("-c", options.shell_line, "A line of shell instead of a command")
      ->type_name("LINE");
  app.add_flag("-t,--tty", options.terminal, "Give it a terminal");
  app.add_flag("-i,--interactive", options.interactive,
               "Send standard input even when it is a terminal");
  app.add_flag("--transaction", options.transaction,
               "Undo what it did to files unless its exit code is 0");
  app.add_flag("--rehearse", options.rehearse, "Undo what it did to files in any case");
}

Result<sandbox::JobSpec> make_job(const JobOptions& options, std::vector<std::string> command) {
  if (command.empty() == options.shell_line.empty())
    return make_error(ErrorCode::kInvalid, kStep,
                      "name what to run: either `-- COMMAND [ARGUMENT…]` or `-c LINE`");
  sandbox::JobSpec job{.argv = std::move(command),
                       .shell_line = options.shell_line,
                       .directory = options.directory,
                       .user = options.user};
  job.environment = TRY(parse_environment(options.environment));
  TRY_VOID(set_duration("--timeout", options.timeout, job.timeout));
  TRY_VOID(set_size("--output-max", options.output_max, job.output_bytes_max));
  job.open_files_max = options.open_files_max;
  if (options.transaction) job.transaction = sandbox::Transaction::kRollbackOnFailure;
  if (options.rehearse) job.transaction = sandbox::Transaction::kRollbackAlways;
  if (options.terminal) {
    job.terminal = terminal_size().value_or(sandbox::TerminalSize{});
    if (const char* kind = std::getenv("TERM")) job.environment.try_emplace("TERM", kind);
  }
  job.input_open =
      options.interactive || input_is_piped() || (options.terminal && is_terminal_input());
  return job;
}

}  // namespace pons::cli
