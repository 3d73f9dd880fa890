#include "pons/linux/seccomp.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <seccomp.h>

#include "pons/linux/fd.h"

namespace pons::linux {
namespace {

constexpr int kErrnoMax = 4095;
constexpr std::size_t kProgramBytesMax = BPF_MAXINSNS * sizeof(sock_filter);

using Context = std::unique_ptr<void, void (*)(scmp_filter_ctx)>;

Error seccomp_error(const char* step, int negative_errno, std::string message = {}) {
  return os_error(step, std::move(message), -negative_errno);
}

Result<void> require_errno(int value) {
  if (value < 1 || value > kErrnoMax)
    return make_error(ErrorCode::kInvalid, "compile seccomp filter",
                      fmt::format("{} is not an errno", value));
  return {};
}

Result<Context> create_context(std::uint32_t default_action) {
  Context context(seccomp_init(default_action), seccomp_release);
  if (!context) return make_error(ErrorCode::kInternal, "compile seccomp filter", "out of memory");
  if (const int error =
          seccomp_attr_set(context.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
      error != 0)
    return seccomp_error("compile seccomp filter", error);
  // 2: a binary tree instead of one comparison per listed call.
  if (const int error = seccomp_attr_set(context.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2); error != 0)
    return seccomp_error("compile seccomp filter", error);
  return context;
}

Result<void> add_rule(const Context& context, std::uint32_t action, const SyscallRule& rule) {
  std::vector<scmp_arg_cmp> comparisons;
  for (const ArgumentRule& condition : rule.arguments) {
    if (condition.argument > 5)
      return make_error(ErrorCode::kInvalid, "compile seccomp filter", "arguments are 0 to 5");
    const bool masked = condition.compare == ArgumentRule::Compare::kMaskedEqual;
    comparisons.push_back({.arg = condition.argument,
                           .op = masked ? SCMP_CMP_MASKED_EQ : SCMP_CMP_EQ,
                           .datum_a = masked ? condition.mask : condition.value,
                           .datum_b = masked ? condition.value : 0});
  }
  // Negative numbers are the library's own names for calls that this architecture does not have.
  if (rule.number < 0)
    return make_error(ErrorCode::kInvalid, "compile seccomp filter",
                      fmt::format("{} is not a system call", rule.number));
  const int error =
      seccomp_rule_add_array(context.get(), action, rule.number,
                             static_cast<unsigned>(comparisons.size()), comparisons.data());
  // The same rule twice is no contradiction.
  if (error != 0 && error != -EEXIST)
    return seccomp_error("compile seccomp filter", error,
                         fmt::format("system call {}", rule.number));
  return {};
}

Result<std::vector<sock_filter>> compile(const Context& context) {
  const UniqueFd file(memfd_create("seccomp", MFD_CLOEXEC));
  if (!file) return os_error("compile seccomp filter");
  if (const int error = seccomp_export_bpf(context.get(), file.get()); error != 0)
    return seccomp_error("compile seccomp filter", error);
  if (lseek(file.get(), 0, SEEK_SET) != 0) return os_error("compile seccomp filter");
  const std::string bytes = TRY(read_all(file.get(), kProgramBytesMax));
  std::vector<sock_filter> program(bytes.size() / sizeof(sock_filter));
  std::memcpy(program.data(), bytes.data(), program.size() * sizeof(sock_filter));
  return program;
}

}  // namespace

SeccompFilter::SeccompFilter(std::vector<sock_filter> program) : program_(std::move(program)) {}
SeccompFilter::SeccompFilter(SeccompFilter&&) noexcept = default;
SeccompFilter& SeccompFilter::operator=(SeccompFilter&&) noexcept = default;
SeccompFilter::~SeccompFilter() = default;

Result<SeccompFilter> SeccompFilter::allow_list(std::span<const SyscallRule> rules,
                                                int refused_errno,
                                                std::span<const std::pair<int, int>> other_errno) {
  TRY_VOID(require_errno(refused_errno));
  const Context context =
      TRY(create_context(SCMP_ACT_ERRNO(static_cast<std::uint16_t>(refused_errno))));
  for (const SyscallRule& rule : rules) TRY_VOID(add_rule(context, SCMP_ACT_ALLOW, rule));
  for (const auto& [number, error] : other_errno) {
    TRY_VOID(require_errno(error));
    if (std::ranges::find(rules, number, &SyscallRule::number) != rules.end())
      return make_error(ErrorCode::kInvalid, "compile seccomp filter",
                        fmt::format("system call {} is both allowed and refused", number));
    if (error != refused_errno)  // the library takes no rule that repeats the default
      TRY_VOID(add_rule(context, SCMP_ACT_ERRNO(static_cast<std::uint16_t>(error)), {number, {}}));
  }
  return SeccompFilter(TRY(compile(context)));
}

Result<SeccompFilter> SeccompFilter::deny_list(std::span<const SyscallRule> rules,
                                               int refused_errno) {
  TRY_VOID(require_errno(refused_errno));
  const Context context = TRY(create_context(SCMP_ACT_ALLOW));
  const std::uint32_t refuse = SCMP_ACT_ERRNO(static_cast<std::uint16_t>(refused_errno));
  for (const SyscallRule& rule : rules) TRY_VOID(add_rule(context, refuse, rule));
  return SeccompFilter(TRY(compile(context)));
}

Result<void> SeccompFilter::install() const {
  sock_fprog program{.len = static_cast<unsigned short>(program_.size()),
                     .filter = const_cast<sock_filter*>(program_.data())};
  const long outcome =
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (outcome > 0)
    return make_error(ErrorCode::kConflict, "install seccomp filter",
                      fmt::format("thread {} has another filter", outcome));
  if (outcome != 0) return os_error("install seccomp filter", "is no_new_privs set?");
  return {};
}

std::size_t SeccompFilter::size() const {
  return program_.size();
}

std::span<const sock_filter> SeccompFilter::program() const {
  return program_;
}

}  // namespace pons::linux
