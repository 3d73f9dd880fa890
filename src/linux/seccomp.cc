#include "pons/linux/seccomp.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <map>

#include <fmt/format.h>

namespace pons::linux {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr int kErrnoMax = 4095;

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
constexpr std::uint32_t kFirstForeignNumber = 0x4000'0000;  // x32
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
constexpr std::uint32_t kFirstForeignNumber = 0x8000'0000;
#else
#error "system call filters are not written for this processor"
#endif

using Program = std::vector<sock_filter>;

sock_filter load(std::size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
}

sock_filter verdict(std::uint32_t action) {
  return BPF_STMT(BPF_RET | BPF_K, action);
}

std::uint32_t refusal(int error) {
  return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error);
}

Result<void> require_errno(int value) {
  if (value < 1 || value > kErrnoMax)
    return make_error(ErrorCode::kInvalid, "compile seccomp filter",
                      fmt::format("{} is not an errno", value));
  return {};
}

Result<void> require_meaning(const SyscallRule& rule) {
  if (rule.number < 0 || static_cast<std::uint32_t>(rule.number) >= kFirstForeignNumber)
    return make_error(ErrorCode::kInvalid, "compile seccomp filter",
                      fmt::format("{} is not a system call", rule.number));
  if (rule.arguments.size() > 6)
    return make_error(ErrorCode::kInvalid, "compile seccomp filter",
                      "a call has six arguments, and a rule at most as many conditions");
  for (const ArgumentRule& condition : rule.arguments)
    if (condition.argument > 5)
      return make_error(ErrorCode::kInvalid, "compile seccomp filter", "arguments are 0 to 5");
  return {};
}

// `action` when every condition holds; otherwise it goes on behind.
Program compile_alternative(const SyscallRule& rule, std::uint32_t action) {
  Program program;
  std::vector<std::size_t> jumps;
  for (const ArgumentRule& condition : rule.arguments) {
    const bool masked = condition.compare == ArgumentRule::Compare::kMaskedEqual;
    for (const unsigned half : {0U, 1U}) {
      const auto part = [&](std::uint64_t all) {
        return static_cast<std::uint32_t>(all >> (32 * half));
      };
      program.push_back(load(offsetof(seccomp_data, args) + 8 * condition.argument + 4 * half));
      if (masked) program.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, part(condition.mask)));
      jumps.push_back(program.size());
      program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, part(condition.value), 0, 0));
    }
  }
  program.push_back(verdict(action));
  // Six conditions are at most 36 instructions: within the reach of a conditional jump.
  for (const std::size_t jump : jumps)
    program[jump].jf = static_cast<std::uint8_t>(program.size() - jump - 1);
  return program;
}

// Neighbouring numbers with the same end of the story are one branch of it: the kernel translates
// the program for every process that installs it, and few instructions are soon translated.
struct Branch {
  std::uint32_t first;  // number; it ends where the next one begins
  Program program;
};

bool is_same(const Program& one, const Program& other) {
  return std::ranges::equal(one, other, [](const sock_filter& a, const sock_filter& b) {
    return a.code == b.code && a.jt == b.jt && a.jf == b.jf && a.k == b.k;
  });
}

// A binary tree over the number, which stands in the accumulator.
Program join(std::span<const Branch> branches) {
  if (branches.size() == 1) return branches.front().program;
  const std::size_t middle = branches.size() / 2;
  const Program low = join(branches.first(middle));
  const Program high = join(branches.subspan(middle));
  Program program;
  const std::uint32_t border = branches[middle].first;
  if (low.size() <= 255) {
    program.push_back(
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, border, static_cast<std::uint8_t>(low.size()), 0));
  } else {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, border, 0, 1));
    program.push_back(BPF_STMT(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(low.size())));
  }
  program.insert(program.end(), low.begin(), low.end());
  program.insert(program.end(), high.begin(), high.end());
  return program;
}

using Endings = std::map<std::uint32_t, Program>;  // of the numbers that do not end as the others

Result<Program> compile(const Endings& endings, std::uint32_t otherwise) {
  const Program foreign{verdict(SECCOMP_RET_KILL_PROCESS)};
  std::vector<Branch> branches;
  const auto add = [&](std::uint32_t first, const Program& program) {
    if (branches.empty() || !is_same(branches.back().program, program))
      branches.push_back({first, program});
  };
  std::uint32_t next = 0;
  for (const auto& [number, program] : endings) {
    if (number > next) add(next, {verdict(otherwise)});
    add(number, program);
    next = number + 1;
  }
  add(next, {verdict(otherwise)});
  branches.push_back({kFirstForeignNumber, foreign});
  // What a tracer leaves of a call that it has skipped: no call at all.
  branches.push_back({~0U, {verdict(otherwise)}});

  Program program = {load(offsetof(seccomp_data, arch)),
                     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0), foreign.front(),
                     load(offsetof(seccomp_data, nr))};
  const Program tree = join(branches);
  program.insert(program.end(), tree.begin(), tree.end());
  if (program.size() > BPF_MAXINSNS)
    return make_error(ErrorCode::kLimit, "compile seccomp filter", "the program is too long");
  return program;
}

// Several rules for one number are alternatives; one without conditions makes the others idle.
Result<Endings> collect(std::span<const SyscallRule> rules, std::uint32_t action,
                        std::uint32_t otherwise) {
  std::map<std::uint32_t, std::vector<const SyscallRule*>> by_number;
  for (const SyscallRule& rule : rules) {
    TRY_VOID(require_meaning(rule));
    by_number[static_cast<std::uint32_t>(rule.number)].push_back(&rule);
  }
  Endings endings;
  for (const auto& [number, alternatives] : by_number) {
    Program& program = endings[number];
    if (std::ranges::any_of(alternatives, [](auto* rule) { return rule->arguments.empty(); })) {
      program = {verdict(action)};
      continue;
    }
    for (const SyscallRule* rule : alternatives) {
      const Program alternative = compile_alternative(*rule, action);
      program.insert(program.end(), alternative.begin(), alternative.end());
    }
    program.push_back(verdict(otherwise));
  }
  return endings;
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
  Endings endings = TRY(collect(rules, SECCOMP_RET_ALLOW, refusal(refused_errno)));
  for (const auto& [number, error] : other_errno) {
    TRY_VOID(require_errno(error));
    TRY_VOID(require_meaning({number, {}}));
    Program& program = endings[static_cast<std::uint32_t>(number)];
    if (program.size() == 1)
      return make_error(ErrorCode::kInvalid, "compile seccomp filter",
                        fmt::format("system call {} is both allowed and refused", number));
    if (!program.empty()) program.pop_back();
    program.push_back(verdict(refusal(error)));
  }
  return SeccompFilter(TRY(compile(endings, refusal(refused_errno))));
}

Result<SeccompFilter> SeccompFilter::deny_list(std::span<const SyscallRule> rules,
                                               int refused_errno) {
  TRY_VOID(require_errno(refused_errno));
  const Endings endings = TRY(collect(rules, refusal(refused_errno), SECCOMP_RET_ALLOW));
  return SeccompFilter(TRY(compile(endings, SECCOMP_RET_ALLOW)));
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
