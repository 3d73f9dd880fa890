#include "pons/schedule/zone.h"

#include <stdlib.h>

#include <ctime>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "pons/linux/fd.h"
#include "pons/schedule/zones.h"
#include "posix_rules.h"

namespace pons::schedule {
namespace {

using namespace std::chrono;

sys_seconds at(int y, unsigned m, unsigned d, int hour = 0, int minute = 0) {
  return sys_days(year(y) / month(m) / day(d)) + hours(hour) + minutes(minute);
}

class ZonesTest : public testing::Test {
 protected:
  std::shared_ptr<const Zone> load(std::string_view name) {
    auto zone = zones_.load(name);
    if (!zone) ADD_FAILURE() << name << ": " << zone.error().describe();
    return *zone;
  }
  seconds offset(std::string_view name, sys_seconds instant) {
    return load(name)->stretch_at(instant).offset;
  }
  ManualClock clock_;
  Zones zones_{clock_};
};

// One of each that differ; many names are the same zone.
std::vector<std::string> all_names() {
  std::vector<std::string> names;
  std::set<std::string> seen;
  const std::filesystem::path folder(kZoneFolder);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    std::string name =
        std::filesystem::relative(entry.path().parent_path(), folder) / entry.path().filename();
    if (name.starts_with("./")) name = name.substr(2);
    if (!entry.is_regular_file() || !is_zone_name(name)) continue;
    const auto bytes = linux::read_file(entry.path());
    if (bytes && bytes->starts_with("TZif") && seen.insert(*bytes).second) names.push_back(name);
  }
  return names;
}

// As date(1) and every other program of the host reads the same file.
seconds offset_of_libc(sys_seconds instant) {
  const std::time_t time = instant.time_since_epoch().count();
  std::tm broken{};
  localtime_r(&time, &broken);
  return seconds(broken.tm_gmtoff);
}

TEST_F(ZonesTest, EveryZoneIsReadAsTheCLibraryReadsIt) {
  const char* before = getenv("TZ");
  const std::string kept = before == nullptr ? "" : before;
  const auto names = all_names();
  EXPECT_GT(names.size(), 300U);
  std::size_t compared = 0;
  for (const std::string& name : names) {
    setenv("TZ", fmt::format(":{}/{}", kZoneFolder, name).c_str(), 1);
    tzset();
    const auto zone = load(name);
    // The seconds around each change of two centuries, and far into what only the rules say.
    std::set<sys_seconds> instants = {at(1800, 1, 1), at(2300, 1, 15), at(2300, 7, 15),
                                      at(2555, 4, 3, 11)};
    for (auto from = at(1880, 1, 1); from < at(2050, 1, 1);) {
      const Stretch stretch = zone->stretch_at(from);
      ASSERT_LT(from, stretch.end) << name;
      for (const seconds near : {seconds(-1), seconds(0)}) instants.insert(stretch.end + near);
      instants.insert(stretch.begin + (stretch.end - stretch.begin) / 2);
      from = stretch.end;
    }
    for (const sys_seconds instant : instants) {
      if (instant > at(2600, 1, 1) || instant < at(1700, 1, 1)) continue;
      ASSERT_EQ(zone->stretch_at(instant).offset, offset_of_libc(instant))
          << name << " at " << instant.time_since_epoch().count();
      ++compared;
    }
    // And where no change is expected.
    for (auto instant = at(1950, 1, 3, 4, 5); instant < at(2100, 1, 1); instant += days(397))
      ASSERT_EQ(zone->stretch_at(instant).offset, offset_of_libc(instant))
          << name << " at " << instant.time_since_epoch().count();
  }
  EXPECT_GT(compared, 40'000U);
  if (before == nullptr)
    unsetenv("TZ");
  else
    setenv("TZ", kept.c_str(), 1);
  tzset();
}

TEST_F(ZonesTest, KnownOffsets) {
  EXPECT_EQ(offset("UTC", at(2026, 1, 1)), seconds(0));
  EXPECT_EQ(offset("Europe/Berlin", at(2026, 1, 1)), hours(1));
  EXPECT_EQ(offset("Europe/Berlin", at(2026, 7, 1)), hours(2));
  EXPECT_EQ(offset("Europe/Berlin", at(2026, 3, 29, 0, 59)), hours(1));
  EXPECT_EQ(offset("Europe/Berlin", at(2026, 3, 29, 1, 0)), hours(2));
  EXPECT_EQ(offset("America/New_York", at(2026, 11, 1, 5, 59)), hours(-4));
  EXPECT_EQ(offset("America/New_York", at(2026, 11, 1, 6, 0)), hours(-5));
  EXPECT_EQ(offset("Asia/Kathmandu", at(2026, 1, 1)), minutes(345));
  EXPECT_EQ(offset("Australia/Lord_Howe", at(2026, 1, 1)), hours(11));
  EXPECT_EQ(offset("Australia/Lord_Howe", at(2026, 6, 1)), minutes(630));
  EXPECT_EQ(offset("Etc/GMT+5", at(2026, 6, 1)), hours(-5));
  EXPECT_EQ(offset("Europe/Dublin", at(2400, 7, 1)), hours(1));
}

TEST_F(ZonesTest, StretchesCoverAllTimeWithoutAGap) {
  const auto zone = load("America/New_York");
  EXPECT_EQ(zone->stretch_at(sys_seconds::min()).begin, sys_seconds(Zone::kBegin));
  EXPECT_EQ(zone->stretch_at(sys_seconds::max()).end <= sys_seconds(Zone::kEnd), true);
  auto stretch = zone->stretch_at(at(1800, 1, 1));
  for (int i = 0; i < 600; ++i) {
    const auto next = zone->stretch_at(stretch.end);
    ASSERT_EQ(next.begin, stretch.end);
    ASSERT_GT(next.end, next.begin);
    stretch = next;
  }
}

TEST_F(ZonesTest, ANameLeadsToNoOtherFile) {
  for (const std::string& name : {std::string("../../../etc/passwd"),
                                  std::string("/etc/passwd"),
                                  std::string("Europe/../UTC"),
                                  std::string("."),
                                  std::string(".."),
                                  std::string("Europe//Berlin"),
                                  std::string("Europe/"),
                                  std::string("/UTC"),
                                  std::string(""),
                                  std::string("Europe/Berlin\0x", 15),
                                  std::string(65, 'a'),
                                  std::string("a/b/c/d"),
                                  std::string("posix/UTC"),
                                  std::string("right/UTC"),
                                  std::string("localtime"),
                                  std::string("posixrules"),
                                  std::string("tzdata.zi"),
                                  std::string("Europe\\Berlin"),
                                  std::string("Europe/Berl\xc3\xad"),
                                  std::string("-x"),
                                  std::string("UTC ")}) {
    EXPECT_FALSE(is_zone_name(name)) << name;
    const auto zone = zones_.load(name);
    ASSERT_FALSE(zone) << name;
    EXPECT_EQ(zone.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(zone.error().message.find(".."), std::string::npos);
  }
}

TEST_F(ZonesTest, WhatIsNoZoneIsSaidSo) {
  for (const char* name : {"Europe/Atlantis", "America", "europe/berlin", "UTC/UTC"}) {
    const auto zone = zones_.load(name);
    ASSERT_FALSE(zone) << name;
    EXPECT_NE(zone.error().message.find("there is no time zone"), std::string::npos)
        << zone.error().describe();
  }
}

TEST_F(ZonesTest, AFolderThatIsMissingNamesThePackage) {
  Zones nowhere(clock_, "/nonexistent/zoneinfo");
  const auto zone = nowhere.load("UTC");
  ASSERT_FALSE(zone);
  EXPECT_EQ(zone.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(zone.error().message.find("tzdata"), std::string::npos);
}

TEST_F(ZonesTest, ZonesAreReadAgainAndOldOnesServeWhileThatFails) {
  char name[] = "/tmp/pons-zones-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  const std::string folder = name;
  const auto copy = [&](const char* from) {
    std::filesystem::copy_file(fmt::format("{}/{}", kZoneFolder, from), folder + "/Here",
                               std::filesystem::copy_options::overwrite_existing);
  };
  Zones own(clock_, folder);
  const auto offset = [&] { return (*own.load("Here"))->stretch_at(at(2026, 1, 1)).offset; };
  copy("Asia/Tokyo");
  EXPECT_EQ(offset(), hours(9));
  copy("Asia/Dubai");
  EXPECT_EQ(offset(), hours(9));
  clock_.advance(hours(2));
  EXPECT_EQ(offset(), hours(4));
  std::filesystem::remove(folder + "/Here");
  clock_.advance(hours(2));
  EXPECT_EQ(offset(), hours(4));
  std::filesystem::remove_all(folder);
}

TEST(Zone, BytesThatAreCutOffAnywhereAreRefused) {
  for (const char* name : {"Europe/Berlin", "UTC", "America/Caracas"}) {
    const auto bytes = linux::read_file(fmt::format("{}/{}", kZoneFolder, name));
    ASSERT_TRUE(bytes);
    EXPECT_TRUE(Zone::parse(*bytes));
    for (std::size_t size = 0; size < bytes->size(); ++size)
      ASSERT_FALSE(Zone::parse(std::string_view(*bytes).substr(0, size))) << name << ' ' << size;
  }
  EXPECT_FALSE(Zone::parse(*linux::read_file(fmt::format("{}/right/UTC", kZoneFolder))));
}

// A header and nothing behind it: numbers are believed only as far as there are bytes.
TEST(Zone, CountsThatLieAreRefused) {
  std::string header = "TZif2" + std::string(15, '\0');
  for (int i = 0; i < 6; ++i) header += "\xff\xff\xff\xff";
  EXPECT_FALSE(Zone::parse(header));
  EXPECT_FALSE(Zone::parse("TZif2" + std::string(39, '\0') + header));
}

TEST(PosixRules, TakesWhatTheFilesHold) {
  for (const char* text :
       {"UTC0", "<+0330>-3:30", "CET-1CEST,M3.5.0,M10.5.0/3", "<-02>2<-01>,M3.5.0/-1,M10.5.0/0",
        "EET-2EEST,M3.4.4/50,M10.4.4/50", "IST-1GMT0,M10.5.0,M3.5.0/1", "XXX3EDT4,0/0,J365/23",
        "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0"})
    EXPECT_TRUE(parse_posix_rules(text)) << text;
  for (const char* text :
       {"", "U0", "UTC", "UTC25:00", "CET-1CEST", "CET-1CEST,M3.5.0", "CET-1CEST,M13.5.0,M10.5.0",
        "CET-1CEST,M3.6.0,M10.5.0", "CET-1CEST,M3.5.7,M10.5.0", "CET-1CEST,J0,J1",
        "CET-1CEST,366,1", "CET-1CEST,M3.5.0/168,M10.5.0", "CET-1CEST,M3.5.0,M10.5.0/3x", "<CET-1"})
    EXPECT_FALSE(parse_posix_rules(text)) << text;
}

TEST(PosixRules, SummerTimeMayLastAllYear) {
  const auto rules = parse_posix_rules("XXX3EDT4,0/0,J365/23");
  ASSERT_TRUE(rules);
  for (const auto& change : rules->changes(year(2027), year(2029)))
    if (change.offset == rules->standard) {
      // It ends when the next one begins.
      EXPECT_EQ(change.at, sys_days(floor<days>(change.at)) + hours(3));
    }
}

}  // namespace
}  // namespace pons::schedule
