#include "pons/linux/process.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>

#include <fmt/format.h>

#include "pons/base/text.h"
#include "pons/linux/fd.h"

namespace pons::linux {

Result<void> set_no_new_privileges() {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return os_error("set no_new_privs");
  return {};
}

Result<void> set_undumpable() {
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return os_error("set undumpable");
  return {};
}

Result<void> disable_core_dumps() {
  const rlimit none{.rlim_cur = 0, .rlim_max = 0};
  if (setrlimit(RLIMIT_CORE, &none) != 0) return os_error("disable core dumps");
  return {};
}

Result<void> raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return os_error("read descriptor limit");
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return os_error("raise descriptor limit");
  return {};
}

Result<std::uint64_t> resident_bytes(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/statm", pid);
  const std::string text = TRY(read_file(path));
  const auto fields = split(trim(text), ' ');
  const auto pages = fields.size() > 1 ? parse_decimal(fields[1]) : std::nullopt;
  if (!pages) return make_error(ErrorCode::kUnsupported, "read memory use", path + ": not numbers");
  return *pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

Result<std::uint64_t> proportional_bytes(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/smaps_rollup", pid);
  const std::string text = TRY(read_file(path));
  for (std::string_view line : split(text, '\n')) {
    if (!line.starts_with("Pss:") || !line.ends_with(" kB")) continue;
    line.remove_prefix(4);
    line.remove_suffix(3);
    if (const auto kibibytes = parse_decimal(trim(line))) return *kibibytes * 1024;
  }
  return make_error(ErrorCode::kUnsupported, "read memory use", path + ": no Pss line");
}

Result<ProcessFigures> read_process_figures(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/stat", pid);
  const std::string text = TRY(read_file(path, 4096));
  // Behind the name, which may hold anything. Counted from the state, the kernel's third field.
  const std::size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos)
    return make_error(ErrorCode::kUnsupported, "read process", path + ": no name");
  const auto fields = split(trim(std::string_view(text).substr(name_end + 2)), ' ');
  const auto field = [&](std::size_t number) {
    return fields.size() > number - 3 ? parse_decimal(fields[number - 3]) : std::nullopt;
  };
  const auto user = field(14);
  const auto kernel = field(15);
  const auto threads = field(20);
  const auto begun = field(22);
  const auto pages = field(24);
  if (!user || !kernel || !threads || !begun || !pages)
    return make_error(ErrorCode::kUnsupported, "read process", path + ": not numbers");
  const Duration tick = Duration(std::chrono::seconds(1)) / sysconf(_SC_CLK_TCK);
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  struct stat folder{};
  const bool counts = stat(fmt::format("/proc/{}/fd", pid).c_str(), &folder) == 0;
  return ProcessFigures{
      .cpu = tick * (*user + *kernel),
      .resident_bytes = *pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)),
      .threads = *threads,
      .age =
          std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec) - tick * *begun,
      .descriptors = counts ? static_cast<std::uint64_t>(folder.st_size) : 0};
}

std::string process_name(pid_t pid) {
  const auto text = read_file(fmt::format("/proc/{}/comm", pid), 4096);
  return text ? std::string(trim(*text)) : std::string();
}

}  // namespace pons::linux
