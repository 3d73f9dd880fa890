#pragma once

#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/session/conversation.h"

// For tests: what providers insist on in a request of the Messages protocol.

namespace pons::session {

// Empty: nothing is wrong with it.
inline std::string what_is_wrong_with(const Json& request) {
  std::set<std::string> open;  // calls of the message before
  std::string last = "assistant";
  for (const Json& message : request.at("messages")) {
    const auto role = message.at("role").get<std::string>();
    if (role == last) return "two messages of one side in a row";
    last = role;
    if (!message.at("content").is_array() || message.at("content").empty()) return "no content";
    bool is_past_results = false;
    for (const Json& block : message.at("content")) {
      const auto type = block.at("type").get<std::string>();
      if (type == "text" && trim(block.at("text").get<std::string>()).empty()) return "no text";
      if (type == "tool_use") {
        if (role != "assistant") return "a call of the user's";
        if (!block.at("input").is_object()) return "arguments that are no object";
        if (!open.insert(block.at("id").get<std::string>()).second) return "an id twice";
      } else if (type == "tool_result") {
        if (role != "user" || is_past_results) return "a result that does not come first";
        if (open.erase(block.at("tool_use_id").get<std::string>()) != 1)
          return "a result of no call";
        if (block.at("content").empty()) return "an empty result";
      } else if (role == "user") {
        is_past_results = true;
      }
    }
    if (role == "user" && !open.empty()) return "a call without a result";
  }
  if (last == "assistant" && request.at("messages").empty()) return "nothing is said";
  return {};
}

inline Json expect_valid_request(const State& state) {
  EXPECT_TRUE(state.asked) << "nothing is asked";
  if (!state.asked) return {};
  const auto request = parse_json(write_request(state, state.asked->purpose));
  EXPECT_TRUE(request) << request.error().describe();
  if (!request) return {};
  EXPECT_EQ(what_is_wrong_with(*request), "") << request->dump();
  return *request;
}

}  // namespace pons::session
