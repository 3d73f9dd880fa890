#include "pons/linux/process.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

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

std::string process_name(pid_t pid) {
  const auto text = read_file(fmt::format("/proc/{}/comm", pid), 4096);
  return text ? std::string(trim(*text)) : std::string();
}

}  // namespace pons::linux
