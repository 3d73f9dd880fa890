#include <gtest/gtest.h>
#include <linux/capability.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>

#include "pons/roles/profile.h"

namespace pons {

namespace {

#define NAMED(capability) {#capability, capability}
const std::map<std::string_view, int> kNumbers = {
    NAMED(CAP_CHOWN),
    NAMED(CAP_DAC_OVERRIDE),
    NAMED(CAP_FOWNER),
    NAMED(CAP_FSETID),
    NAMED(CAP_KILL),
    NAMED(CAP_SETGID),
    NAMED(CAP_SETUID),
    NAMED(CAP_SETPCAP),
    NAMED(CAP_SETFCAP),
    NAMED(CAP_NET_ADMIN),
    NAMED(CAP_NET_BIND_SERVICE),
    NAMED(CAP_SYS_ADMIN),
    NAMED(CAP_SYS_CHROOT),
    NAMED(CAP_SYS_RESOURCE),
    NAMED(CAP_MKNOD),
    NAMED(CAP_SYS_PTRACE),
    NAMED(CAP_SYS_MODULE),
    NAMED(CAP_SYS_RAWIO),
    NAMED(CAP_SYS_BOOT),
    NAMED(CAP_SYS_TIME),
    NAMED(CAP_SYSLOG),
    NAMED(CAP_BPF),
    NAMED(CAP_PERFMON),
    NAMED(CAP_NET_RAW),
    NAMED(CAP_DAC_READ_SEARCH),
    NAMED(CAP_FSETID),
    NAMED(CAP_IPC_LOCK),
    NAMED(CAP_SYS_NICE),
    NAMED(CAP_SYS_PACCT),
    NAMED(CAP_SYS_TTY_CONFIG),
    NAMED(CAP_AUDIT_WRITE),
};
#undef NAMED

// All values of a key: systemd adds those of repeated lines together.
std::string values_of(std::string_view key) {
  std::ifstream unit(PONS_UNIT_FILE);
  EXPECT_TRUE(unit.good()) << PONS_UNIT_FILE;
  const std::string begin = std::string(key) + "=";
  std::string values;
  for (std::string line; std::getline(unit, line);)
    if (line.starts_with(begin)) values += line.substr(begin.size()) + " ";
  return values;
}

}  // namespace

// With one too few the roles do not start, and with one too many the unit guards less than it says.
TEST(Unit, GrantsExactlyTheCapabilitiesTheSupervisorKeeps) {
  linux::CapabilitySet granted = 0;
  std::istringstream words(values_of("CapabilityBoundingSet"));
  for (std::string word; words >> word;) {
    const auto number = kNumbers.find(word);
    ASSERT_NE(number, kNumbers.end()) << word;
    granted |= linux::capability(number->second);
  }
  EXPECT_EQ(granted, roles::supervisor_capabilities());
}

// A unit that refused new privileges would refuse them to everything the spawner ever starts.
TEST(Unit, LeavesNewPrivilegesToTheRoles) {
  EXPECT_EQ(values_of("NoNewPrivileges"), "no ");
}

// Whoever can read the state directory's parent must not be able to list the state.
TEST(Unit, MakesTheStateDirectoryAsTheSupervisorDoes) {
  EXPECT_EQ(values_of("StateDirectory"), "pons ");
  EXPECT_EQ(values_of("StateDirectoryMode"), "0711 ");
}

}  // namespace pons
