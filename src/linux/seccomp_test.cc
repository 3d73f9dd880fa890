#include "pons/linux/seccomp.h"

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cstring>
#include <memory>
#include <random>

#include "pons/linux/fd.h"

namespace pons::linux {
namespace {

// What the kernel would answer; only the instructions that filters are made of.
std::uint32_t run(std::span<const sock_filter> program, const seccomp_data& call) {
  std::uint32_t a = 0;
  for (std::size_t at = 0; at < program.size(); ++at) {
    const sock_filter& step = program[at];
    switch (step.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        std::memcpy(&a, reinterpret_cast<const char*>(&call) + step.k, sizeof a);
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        a &= step.k;
        break;
      case BPF_JMP | BPF_JA:
        at += step.k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        at += a == step.k ? step.jt : step.jf;
        break;
      case BPF_JMP | BPF_JGE | BPF_K:
        at += a >= step.k ? step.jt : step.jf;
        break;
      case BPF_JMP | BPF_JGT | BPF_K:
        at += a > step.k ? step.jt : step.jf;
        break;
      case BPF_RET | BPF_K:
        return step.k;
      default:
        ADD_FAILURE() << "instruction " << step.code;
        return 0;
    }
  }
  ADD_FAILURE() << "ran over the end";
  return 0;
}

// The library loses memory when alternatives overlap, which is not ours to find.
extern "C" void __lsan_disable() __attribute__((weak));
extern "C" void __lsan_enable() __attribute__((weak));

struct LeaksDoNotCount {
  LeaksDoNotCount() {
    if (__lsan_disable != nullptr) __lsan_disable();
  }
  ~LeaksDoNotCount() {
    if (__lsan_enable != nullptr) __lsan_enable();
  }
};

// The same list as libseccomp compiles it.
std::vector<sock_filter> compile_by_library(std::span<const SyscallRule> rules,
                                            std::pair<int, int> other_errno) {
  const LeaksDoNotCount library;
  const std::unique_ptr<void, void (*)(scmp_filter_ctx)> context(
      seccomp_init(SCMP_ACT_ERRNO(EPERM)), seccomp_release);
  EXPECT_EQ(seccomp_attr_set(context.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), 0);
  for (const SyscallRule& rule : rules) {
    std::vector<scmp_arg_cmp> comparisons;
    for (const ArgumentRule& condition : rule.arguments) {
      const bool masked = condition.compare == ArgumentRule::Compare::kMaskedEqual;
      comparisons.push_back({.arg = condition.argument,
                             .op = masked ? SCMP_CMP_MASKED_EQ : SCMP_CMP_EQ,
                             .datum_a = masked ? condition.mask : condition.value,
                             .datum_b = masked ? condition.value : 0});
    }
    const int added =
        seccomp_rule_add_array(context.get(), SCMP_ACT_ALLOW, rule.number,
                               static_cast<unsigned>(comparisons.size()), comparisons.data());
    EXPECT_TRUE(added == 0 || added == -EEXIST) << added;
  }
  EXPECT_EQ(seccomp_rule_add(context.get(),
                             SCMP_ACT_ERRNO(static_cast<std::uint16_t>(other_errno.second)),
                             other_errno.first, 0),
            0);
  const UniqueFd file(memfd_create("filter", MFD_CLOEXEC));
  EXPECT_EQ(seccomp_export_bpf(context.get(), file.get()), 0);
  EXPECT_EQ(lseek(file.get(), 0, SEEK_SET), 0);
  const std::string bytes = read_all(file.get(), 1 << 20).value_or("");
  std::vector<sock_filter> program(bytes.size() / sizeof(sock_filter));
  std::memcpy(program.data(), bytes.data(), program.size() * sizeof(sock_filter));
  return program;
}

TEST(SeccompFilter, DecidesAsTheLibraryDoes) {
  std::mt19937_64 random(1);
  const auto below = [&](std::uint64_t end) { return random() % end; };
  // Few values, so that rules and calls meet; both halves of an argument take part.
  constexpr std::uint64_t kValues[] = {0, 1, 2, 0x1'0000'0000, 0x1'0000'0001, ~0ULL};
  const auto any_value = [&] { return kValues[below(std::size(kValues))]; };
  for (int round = 0; round < 60; ++round) {
    std::vector<SyscallRule> rules;
    for (std::uint64_t number = 0; number < 400; ++number) {
      if (number == SYS_clone3 || below(3) == 0) continue;
      const std::uint64_t alternatives = below(8) == 0 ? 1 + below(3) : 0;
      if (alternatives == 0) rules.push_back({static_cast<int>(number), {}});
      for (std::uint64_t i = 0; i < alternatives; ++i) {
        SyscallRule rule{static_cast<int>(number), {}};
        // The library takes one condition for each argument.
        for (unsigned argument = 0; argument <= below(3); ++argument) {
          const std::uint64_t mask = any_value();
          if (below(2) == 0)
            rule.arguments.push_back(
                {argument, ArgumentRule::Compare::kMaskedEqual, mask, any_value() & mask});
          else
            rule.arguments.push_back({argument, ArgumentRule::Compare::kEqual, 0, any_value()});
        }
        rules.push_back(rule);
      }
    }
    const std::pair<int, int> missing{SYS_clone3, ENOSYS};
    const auto ours = SeccompFilter::allow_list(rules, EPERM, std::span(&missing, 1));
    ASSERT_TRUE(ours) << ours.error().describe();
    const auto theirs = compile_by_library(rules, missing);
    for (int call = 0; call < 4000; ++call) {
      seccomp_data data{};
      data.nr = static_cast<int>(below(500));
      if (below(50) == 0) data.nr |= 0x4000'0000;
      if (below(100) == 0) data.nr = -1 - data.nr;
      if (below(100) == 0) data.nr = -1;  // what a tracer leaves of a call that it skips
      data.arch = below(100) == 0 ? AUDIT_ARCH_I386 : AUDIT_ARCH_X86_64;
      for (auto& argument : data.args) argument = any_value();
      ASSERT_EQ(run(ours->program(), data), run(theirs, data))
          << "round " << round << " call " << data.nr << " of " << data.arch;
    }
  }
}

TEST(SeccompFilter, CompilesToAProgramThatCanBeInspected) {
  const SyscallRule rules[] = {{SYS_read}, {SYS_write}, {SYS_exit_group}};
  const auto filter = SeccompFilter::allow_list(rules);
  ASSERT_TRUE(filter) << filter.error().describe();
  EXPECT_GT(filter->size(), 5U);
  EXPECT_EQ(filter->program().size(), filter->size());
  EXPECT_EQ(filter->program()[0].code, BPF_LD | BPF_W | BPF_ABS);
}

TEST(SeccompFilter, NeighbouringNumbersCostNothing) {
  std::vector<SyscallRule> rules;
  for (int number = 0; number < 300; ++number) rules.push_back({number, {}});
  EXPECT_LT(SeccompFilter::allow_list(rules)->size(), 12U);
}

TEST(SeccompFilter, TheSameCallMayHaveAlternativesAndRepetitions) {
  const auto family = [](std::uint64_t value) {
    return SyscallRule{SYS_socket, {{.argument = 0, .value = value}}};
  };
  const SyscallRule rules[] = {family(1), family(2), family(1), {SYS_read}, {SYS_read}};
  EXPECT_TRUE(SeccompFilter::allow_list(rules));
}

TEST(SeccompFilter, RefusesWhatItCannotMean) {
  const SyscallRule read_only[] = {{SYS_read}};
  const SyscallRule many_conditions[] = {{SYS_socket, std::vector<ArgumentRule>(7)}};
  EXPECT_FALSE(SeccompFilter::allow_list(many_conditions));
  const SyscallRule bad_argument[] = {{SYS_socket, {{.argument = 6}}}};
  const SyscallRule bad_number[] = {{-1}};
  const std::pair<int, int> contradiction[] = {{SYS_read, ENOSYS}};
  const std::pair<int, int> same_as_default[] = {{SYS_clone3, EPERM}};
  const SyscallRule negative[] = {{-10001}};
  EXPECT_FALSE(SeccompFilter::allow_list(bad_argument));
  EXPECT_FALSE(SeccompFilter::allow_list(bad_number));
  EXPECT_FALSE(SeccompFilter::allow_list(read_only, 0));
  EXPECT_FALSE(SeccompFilter::allow_list(read_only, 5000));
  EXPECT_FALSE(SeccompFilter::allow_list(read_only, EPERM, contradiction));
  EXPECT_TRUE(SeccompFilter::allow_list(read_only, EPERM, same_as_default));
  EXPECT_FALSE(SeccompFilter::deny_list(negative));
}

}  // namespace
}  // namespace pons::linux
