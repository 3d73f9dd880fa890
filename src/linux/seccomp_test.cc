#include "pons/linux/seccomp.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <sys/syscall.h>

namespace pons::linux {
namespace {

TEST(SeccompFilter, CompilesToAProgramThatCanBeInspected) {
  const SyscallRule rules[] = {{SYS_read}, {SYS_write}, {SYS_exit_group}};
  const auto filter = SeccompFilter::allow_list(rules);
  ASSERT_TRUE(filter) << filter.error().describe();
  EXPECT_GT(filter->size(), 5U);
  EXPECT_EQ(filter->program().size(), filter->size());
  EXPECT_EQ(filter->program()[0].code, BPF_LD | BPF_W | BPF_ABS);
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
