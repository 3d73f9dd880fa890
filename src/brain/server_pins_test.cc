#include "server_pins.h"

#include <nlohmann/json.hpp>

#include "brain_fixture.h"
#include "pons/base/json.h"

namespace pons::brain {
namespace {

constexpr const char* kUrl = "https://far.example/mcp";

class ServerPinsTest : public BrainTest {
 protected:
  ServerPinsTest() : pins_(*store_, clock_) {
    other_ = run(memory_->projects.create("other")).value().id;
  }
  static mcp::ToolList offered(const std::map<std::string, std::string>& tools) {
    Json page = Json::array();
    for (const auto& [name, description] : tools)
      page.push_back(
          {{"name", name}, {"description", description}, {"inputSchema", {{"type", "object"}}}});
    mcp::ToolList list;
    EXPECT_TRUE(mcp::add_tools(list, dump_json(page)));
    return list;
  }
  bool is_accepted(const mcp::ToolPins& pins, const mcp::RemoteTool& tool) {
    return pins.standing_of(tool) == mcp::ToolPins::Standing::kAccepted;
  }
  ServerPins pins_;
  std::string other_;
};

TEST_F(ServerPinsTest, WhatIsMetFirstIsAcceptedAndWhatComesLaterWaits) {
  EXPECT_EQ(run(pins_.find("default", kUrl)).error().code, ErrorCode::kNotFound);
  const auto first = offered({{"a", "one"}, {"b", "two"}});
  auto pins = run(pins_.meet("default", kUrl, first)).value();
  EXPECT_TRUE(is_accepted(pins, first.tools[0]) && is_accepted(pins, first.tools[1]));
  const auto second = offered({{"a", "else"}, {"b", "two"}, {"c", "new"}});
  pins = run(pins_.meet("default", kUrl, second)).value();
  EXPECT_FALSE(is_accepted(pins, second.tools[0]));
  EXPECT_TRUE(is_accepted(pins, second.tools[1]));
  EXPECT_FALSE(is_accepted(pins, second.tools[2]));
  const KnownServer known = run(pins_.find("default", kUrl)).value();
  ASSERT_EQ(known.pending.size(), 2U);
  EXPECT_TRUE(known.pending[0].is_changed);
  EXPECT_EQ(known.pending[0].description, "else");
  EXPECT_FALSE(known.pending[1].is_changed);
}

TEST_F(ServerPinsTest, APersonAcceptsWhatTheySaw) {
  (void)run(pins_.meet("default", kUrl, offered({{"a", "one"}})));
  const auto changed = offered({{"a", "two"}});
  (void)run(pins_.meet("default", kUrl, changed));
  const std::string seen = run(pins_.find("default", kUrl)).value().pending[0].digest;
  const auto again = offered({{"a", "three"}});
  (void)run(pins_.meet("default", kUrl, again));
  EXPECT_EQ(run(pins_.accept("default", kUrl, {{"a", seen}})).error().code, ErrorCode::kConflict);
  EXPECT_EQ(run(pins_.accept("default", kUrl, {{"b", seen}})).error().code, ErrorCode::kConflict);
  const auto known = run(pins_.accept("default", kUrl, {{"a", again.tools[0].digest}}));
  ASSERT_TRUE(known);
  EXPECT_TRUE(known->pending.empty());
  EXPECT_TRUE(is_accepted(run(pins_.meet("default", kUrl, again)).value(), again.tools[0]));
  EXPECT_FALSE(is_accepted(run(pins_.meet("default", kUrl, changed)).value(), changed.tools[0]))
      << "what it was before was not accepted";
}

TEST_F(ServerPinsTest, ProjectsDecideForThemselves) {
  const auto list = offered({{"a", "one"}});
  (void)run(pins_.meet("default", kUrl, list));
  EXPECT_TRUE(run(pins_.list(other_)).value().empty());
  EXPECT_EQ(run(pins_.accept(other_, kUrl, {{"a", "x"}})).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(run(pins_.forget(other_, kUrl)).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(run(pins_.forget("default", kUrl)));
  EXPECT_TRUE(run(pins_.list("default")).value().empty());
}

TEST_F(ServerPinsTest, LongDefinitionsAreToldOfInShort) {
  (void)run(pins_.meet("default", kUrl, offered({{"a", "one"}})));
  mcp::ToolList list = offered({{"a", "two"}, {"b", "three"}});
  list.tools[0].input_schema = R"({"type":"object","title":")" + std::string(20'000, 'x') + "\"}";
  (void)run(pins_.meet("default", kUrl, list));
  const auto known = run(pins_.find("default", kUrl)).value();
  EXPECT_EQ(known.pending[0].input_schema, "");
  EXPECT_NE(known.pending[1].input_schema, "");
}

}  // namespace
}  // namespace pons::brain
