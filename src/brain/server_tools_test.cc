#include "server_tools.h"

#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"

namespace pons::brain {
namespace {

using session::ServerGrant;
using session::ServerTool;
using session::ServerTrouble;
using testing::HasSubstr;

constexpr const char* kToolset = R"({
    "default_config":{"enabled":true,"permission_policy":{"type":"always_ask"}},
    "configs":[{"name":"look","permission_policy":{"type":"always_allow"}},
               {"name":"burn","enabled":false}]})";

mcp::ToolList offered(const std::vector<std::string>& names) {
  Json page = Json::array();
  for (const std::string& name : names)
    page.push_back({{"name", name}, {"description", "d"}, {"inputSchema", {{"type", "object"}}}});
  mcp::ToolList list;
  EXPECT_TRUE(mcp::add_tools(list, dump_json(page)));
  return list;
}

mcp::ToolPins all_of(const mcp::ToolList& list) {
  mcp::ToolPins pins;
  for (const mcp::RemoteTool& tool : list.tools) pins.accept(tool);
  return pins;
}

TEST(ServerTools, APersonIsAskedUnlessTheToolsetSaysOtherwise) {
  EXPECT_TRUE(rule_of(kToolset, "any").asks);
  EXPECT_FALSE(rule_of(kToolset, "look").asks);
  EXPECT_FALSE(rule_of(kToolset, "burn").enabled);
  for (const char* nothing : {"", "{}", "[]", "{", R"({"configs":[1,{}]})"}) {
    EXPECT_TRUE(rule_of(nothing, "any").asks) << nothing;
    EXPECT_TRUE(rule_of(nothing, "any").enabled) << nothing;
  }
  EXPECT_TRUE(rule_of(R"({"default_config":{"permission_policy":{"type":"auto"}}})", "a").asks)
      << "nobody here can tell what is harmless elsewhere";
}

TEST(ServerTools, NamesAreOnesThatEveryModelTakesAndNoTwoAreTheSame) {
  std::vector<ServerTool> taken;
  std::set<std::string> seen;
  for (const auto& [server, tool] :
       std::vector<std::pair<std::string, std::string>>{{"far", "do"},
                                                        {"far", "do.it"},
                                                        {"far", "do_it"},
                                                        {"far out", "do it"},
                                                        {"far.out", "do.it"},
                                                        {std::string(200, 's'), "a"},
                                                        {std::string(200, 's'), "b"}}) {
    ServerTool made{.server = server, .name = tool, .alias = alias_for(server, tool, taken)};
    EXPECT_LE(made.alias.size(), 64U);
    EXPECT_EQ(made.alias.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-"),
              std::string::npos)
        << made.alias;
    EXPECT_TRUE(seen.insert(made.alias).second) << made.alias;
    taken.push_back(std::move(made));
  }
  EXPECT_EQ(taken[0].alias, "far__do");
}

TEST(ServerTools, WhatWasNotAcceptedIsNotOfferedAndSaidSo) {
  const mcp::ToolList before = offered({"look", "burn", "write"});
  const ServerGrant server{.name = "far", .url = "https://far.example/", .toolset = kToolset};
  std::vector<ServerTool> tools;
  std::vector<ServerTrouble> troubles;
  add_server_tools(server, before, all_of(before), tools, troubles);
  ASSERT_EQ(tools.size(), 2U);
  EXPECT_FALSE(tools[0].asks);
  EXPECT_TRUE(tools[1].asks);
  EXPECT_EQ(parse_json(tools[0].definition)->at("name"), "far__look");
  EXPECT_TRUE(troubles.empty());

  mcp::ToolList after = offered({"look", "new"});
  after.tools[0].digest = std::string(64, '0');
  tools.clear();
  add_server_tools(server, after, all_of(before), tools, troubles);
  EXPECT_TRUE(tools.empty());
  ASSERT_EQ(troubles.size(), 1U);
  EXPECT_EQ(troubles[0].fault, session::ServerFault::kTools);
  EXPECT_THAT(troubles[0].message, HasSubstr("look, new"));
}

TEST(ServerTools, ThereAreNoMoreThanAModelIsToldOf) {
  std::vector<std::string> names;
  for (int i = 0; i < 200; ++i) names.push_back(fmt::format("tool{}", i));
  const mcp::ToolList list = offered(names);
  std::vector<ServerTool> tools;
  std::vector<ServerTrouble> troubles;
  add_server_tools({.name = "far", .url = "https://far.example/"}, list, all_of(list), tools,
                   troubles);
  EXPECT_EQ(tools.size(), kServerToolsMax);
  ASSERT_EQ(troubles.size(), 1U);
  EXPECT_THAT(troubles[0].message, HasSubstr("and 64 more"));
}

TEST(ServerTools, VaultsOfAPolicyAreNamed) {
  EXPECT_EQ(vaults_in(R"({"mode":"public","vaults":["vlt_1","vlt_2"]})"), "vlt_1,vlt_2");
  for (const char* none : {"", "[]", R"({"vaults":"vlt_1"})", R"({"vaults":[1,"a,b","a\r\nb"]})"})
    EXPECT_EQ(vaults_in(none), "") << none;
}

TEST(ServerTools, OfAPolicyOnlyTheHostsRulesTravel) {
  const std::string network = R"({"mode":"list","packages":["npm"],"credentials":["OTHER"],
      "allow":[{"host":"a.example"},{"host":"*.example","ports":[443]},{"host":"FAR.example"}]})";
  const auto narrow = policy_toward(network, "https://far.example:8443/mcp?x", "TOKEN");
  ASSERT_TRUE(narrow);
  EXPECT_EQ(*parse_json(*narrow), *parse_json(R"({"mode":"list","allow":[
      {"host":"*.example","ports":[443]},{"host":"FAR.example"}],"credentials":["TOKEN"]})"));
  EXPECT_EQ(policy_toward(R"({"mode":"public"})", "https://far.example/", ""),
            R"({"mode":"public"})");
  EXPECT_FALSE(policy_toward("{", "https://far.example/", ""));
  EXPECT_FALSE(policy_toward("[]", "https://far.example/", ""));
  const std::string denying =
      dump_json({{"mode", "public"}, {"deny", std::vector<std::string>(1'000, "a.example.com")}});
  EXPECT_FALSE(policy_toward(denying, "https://far.example/", "")) << "it would not fit";
}

}  // namespace
}  // namespace pons::brain
