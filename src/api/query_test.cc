#include "pons/api/query.h"

#include <gmock/gmock.h>

namespace pons::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Query parsed(std::string_view text) {
  auto query = Query::parse(text);
  EXPECT_TRUE(query);
  return query ? *query : Query();
}

TEST(Query, ListsAndRangesAreReadAsTheSdkWritesThem) {
  const Query query = parsed(
      "statuses%5B%5D=idle&statuses%5B%5D=running&created_at%5Bgte%5D=1970-01-01T00:00:01Z"
      "&page=&beta=true");
  EXPECT_THAT(query.all("statuses"), ElementsAre("idle", "running"));
  EXPECT_EQ(query.time("created_at[gte]").value(), 1'000);
  EXPECT_EQ(query.find("page"), std::nullopt) << "a null is sent empty";
}

TEST(Query, WhatIsNoNumberNoTimeAndNoFlagIsRefused) {
  EXPECT_FALSE(parsed("limit=-1").number("limit", 10));
  EXPECT_FALSE(parsed("limit=11").number("limit", 10));
  EXPECT_FALSE(parsed("t=yesterday").time("t"));
  EXPECT_FALSE(parsed("f=1").flag("f"));
  EXPECT_FALSE(Query::parse("a=%ff"));
}

TEST(Time, IsReadInEveryFormAndWrittenInOne) {
  for (const char* text : {"2026-11-15T01:02:03Z", "2026-11-15T02:02:03+01:00",
                           "2026-11-15t01:02:03.000z", "2026-11-14T23:02:03-02:00"}) {
    const auto time = parse_time(text);
    ASSERT_TRUE(time) << text;
    EXPECT_EQ(write_time(*time), "2026-11-15T01:02:03Z");
  }
  EXPECT_EQ(write_time(*parse_time("2024-02-29T00:00:00.125678Z")), "2024-02-29T00:00:00.125Z");
  EXPECT_EQ(write_time(0), "1970-01-01T00:00:00Z");
}

TEST(Time, ThatDoesNotExistIsRefused) {
  for (const char* text : {"", "2026-11-15", "2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z",
                           "2026-11-15T24:00:00Z", "2026-11-15T00:00:00", "2026-11-15T00:00:00+1",
                           "2026-11-15T00:00:00.Zx", "2026-1a-15T00:00:00Z"})
    EXPECT_FALSE(parse_time(text)) << text;
}

TEST(Page, ACursorLeadsBackToWhereItWasMade) {
  const std::string cursor = write_cursor("agents", {"17", "agent_x/ü"});
  EXPECT_EQ(cursor.find_first_of("+/="), std::string::npos) << "it stands in a URL";
  const auto wish = read_page(parsed("page=" + cursor), "agents", {.usual = 5, .max = 9});
  ASSERT_TRUE(wish);
  EXPECT_EQ(wish->limit, 5);
  EXPECT_THAT(wish->after, ElementsAre("17", "agent_x/ü"));
  EXPECT_EQ(number_in(*wish, 0).value(), 17);
  EXPECT_FALSE(number_in(*wish, 1));
  EXPECT_FALSE(number_in(*wish, 2));
}

TEST(Page, OthersListsAndMadeUpCursorsAreRefused) {
  const auto read = [](const std::string& page) {
    return read_page(parsed("page=" + page), "agents", {});
  };
  EXPECT_FALSE(read(write_cursor("sessions", {"17"})));
  for (const char* page : {"x", "!!!!", "W10", "WyJhZ2VudHMiXQ", "eyJhIjoxfQ"})
    EXPECT_FALSE(read(page)) << page;
  EXPECT_FALSE(read(std::string(5'000, 'A')));
  EXPECT_FALSE(read_page(parsed("limit=0"), "agents", {}));
  EXPECT_THAT(read_page(parsed(""), "agents", {})->after, IsEmpty());
}

}  // namespace
}  // namespace pons::api
