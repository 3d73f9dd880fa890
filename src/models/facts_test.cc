#include "pons/models/facts.h"

#include <gtest/gtest.h>

namespace pons::models {
namespace {

Result<RequestFacts> facts_of(std::string body, Protocol protocol = Protocol::kChat) {
  return read_facts(protocol, body);
}

std::string renamed(std::string body, std::string_view model, Protocol protocol = Protocol::kChat) {
  const auto facts = read_facts(protocol, body);
  EXPECT_TRUE(facts) << facts.error().describe();
  if (facts) rename_model(protocol, body, *facts, model);
  return body;
}

TEST(FactsTest, OnlyTheNameOfTheModelChanges) {
  EXPECT_EQ(
      renamed(
          R"({ "messages":[{"role":"user","content":"\"model\":\"no\""}],"model" : "smart" , "x":{"model":1}})",
          "gpt-5"),
      R"({ "messages":[{"role":"user","content":"\"model\":\"no\""}],"model" : "gpt-5" , "x":{"model":1}})");
  EXPECT_EQ(renamed(R"({"model":"a\"b\\","stream":false})", "q\"x"),
            R"({"model":"q\"x","stream":false})");
}

TEST(FactsTest, ANameWrittenWithEscapesIsFoundToo) {
  EXPECT_EQ(renamed(R"({"mod\u0065l":"sm\u0061rt"})", "b"), R"({"mod\u0065l":"b"})");
  EXPECT_EQ(facts_of(R"({"mod\u0065l":"sm\u0061rt"})")->model, "smart");
}

TEST(FactsTest, TwoModelsAreRefused) {
  for (const char* body :
       {R"({"model":"cheap","model":"dear"})", R"({"model":"cheap","mod\u0065l":"dear"})",
        R"({"model":"a","max_tokens":1,"max_tokens":100000})"}) {
    const auto facts = facts_of(body);
    ASSERT_FALSE(facts) << body;
    EXPECT_NE(facts.error().message.find("twice"), std::string::npos);
  }
}

TEST(FactsTest, AChatStreamIsAskedForItsUsage) {
  EXPECT_EQ(renamed(R"({"model":"a","stream":true})", "b"),
            R"({"model":"b","stream_options":{"include_usage":true},"stream":true})");
  EXPECT_EQ(renamed(R"({"stream_options":{"include_usage":false},"model":"a","stream":true})", "b"),
            R"({"stream_options":{"include_usage":true},"model":"b","stream":true})");
  EXPECT_EQ(
      renamed(R"({"model":"a","stream":true,"stream_options":{"include_usage":true,"x":1}})", "b"),
      R"({"model":"b","stream":true,"stream_options":{"include_usage":true,"x":1}})");
  // What else a client says about its stream stays.
  EXPECT_EQ(
      renamed(R"({"stream_options":{ "include_obfuscation":false},"model":"a","stream":true})",
              "b"),
      R"({"stream_options":{"include_usage":true, "include_obfuscation":false},"model":"b","stream":true})");
  EXPECT_EQ(
      renamed(R"({"stream_options":{"x":1,"include_usage":null},"model":"a","stream":true})", "b"),
      R"({"stream_options":{"x":1,"include_usage":true},"model":"b","stream":true})");
  EXPECT_EQ(renamed(R"({"model":"a","stream":true,"stream_options":null})", "b"),
            R"({"model":"b","stream":true,"stream_options":{"include_usage":true}})");
  EXPECT_EQ(renamed(R"({"stream_options":{},"model":"a","stream":true})", "b"),
            R"({"stream_options":{"include_usage":true},"model":"b","stream":true})");
  EXPECT_EQ(renamed(R"({"model":"a","stream":true})", "b", Protocol::kMessages),
            R"({"model":"b","stream":true})");
}

TEST(FactsTest, AWishForNoUsageThatOnlySomeWouldReadIsRefused) {
  for (const char* options :
       {R"({"include_usage":true,"include_usage":false})", R"({"Include_Usage":false})",
        R"({"include_usage":true,"include\u005fusage":false})",
        R"({"include_usage":true,"INCLUDE_USAGE":false})", R"({"include_usage":"no"})"}) {
    const auto facts =
        facts_of(R"({"model":"a","stream":true,"stream_options":)" + std::string(options) + "}");
    ASSERT_FALSE(facts) << options;
    EXPECT_NE(facts.error().message.find("include_usage"), std::string::npos)
        << facts.error().message;
  }
}

TEST(FactsTest, WhatIsNoRequestIsRefusedWithAReason) {
  for (const char* body : {"", "[]", "1", "{", R"({"model":"a")", R"({"model":7})",
                           R"({"messages":[]})", R"({"model":""})", R"({"model":"a"} x)",
                           R"({"model":"a","stream":"yes"})", R"({"model":"a","max_tokens":-1})",
                           R"({"model":"a","messages":[1,2})", "{\"model\":\"\xff\"}"}) {
    const auto facts = facts_of(body);
    ASSERT_FALSE(facts) << body;
    EXPECT_FALSE(facts.error().message.empty());
  }
}

TEST(FactsTest, WhatIsNestedWithoutEndIsRefusedBeforeItCostsMemory) {
  const auto nested = [](std::size_t depth) {
    return facts_of(R"({"model":"a","x":)" + std::string(depth, '[') + std::string(depth, ']') +
                    "}");
  };
  EXPECT_TRUE(nested(1'000));
  EXPECT_FALSE(nested(1'025));
  EXPECT_FALSE(nested(1'000'000));
}

TEST(FactsTest, WhatWouldEscapeTheCountIsRefused) {
  for (const char* body :
       {R"({"model":"a","background":true})", R"({"model":"a","Max_Output_Tokens":5})",
        R"({"Model":"dear","model":"cheap"})", R"({"model":"a\nb"})", R"({"model":"a b"})"})
    EXPECT_FALSE(facts_of(body, Protocol::kResponses)) << body;
  EXPECT_FALSE(facts_of(R"({"model":")" + std::string(200, 'x') + "\"}"));
  // A name of another protocol limits nothing.
  EXPECT_FALSE(facts_of(R"({"model":"a","max_output_tokens":1})")->output_tokens_max);
  EXPECT_TRUE(
      facts_of(R"({"model":"a","prompt":{"id":"p"}})", Protocol::kResponses)->has_remote_prompt);
}

TEST(FactsTest, WhatAProviderKeepsForNobodyInParticularIsRefused) {
  for (const char* body : {
           R"({"model":"a","conversation":"conv_1","input":"hi"})",
           R"({"model":"a","conversation":{"id":"conv_1"},"input":"hi"})",
           R"({"model":"a","input":[{"type":"item_reference","id":"msg_1"}]})",
           R"({"model":"a","input":[{"id":"msg_1","type":"item_reference"}]})",
           R"({"model":"a","input":[{"t\u0079pe":"item\u005freference","id":"msg_1"}]})",
           R"({"model":"a","input":[{"role":"user","content":"hi"},{"id":"msg_1"}]})",
           R"({"model":"a","input":[{"type":null,"id":"msg_1"}]})",
       })
    EXPECT_FALSE(facts_of(body, Protocol::kResponses)) << body;
  for (const char* body : {
           R"({"model":"a","conversation":null,"input":"item_reference"})",
           R"({"model":"a","input":[{"role":"user","content":"item_reference"}]})",
           R"({"model":"a","input":[{"role":"assistant","id":"msg_1","content":"hi"}]})",
           R"({"model":"a","prompt":{"id":"p","variables":{"id":"5"}}})",
       })
    EXPECT_TRUE(facts_of(body, Protocol::kResponses)) << body;
}

struct Elsewhere {
  Protocol protocol;
  const char* content;
  std::int64_t images;
  bool is_document;
};

TEST(FactsTest, WhatAProviderFetchesIsNoticedWhereItsProtocolHasAPlaceForIt) {
  using enum Protocol;
  for (const auto& [protocol, content, images, is_document] : {
           Elsewhere{kMessages, R"({"type":"image","source":{"type":"url","url":"https://x"}})", 1,
                     false},
           Elsewhere{kMessages, R"({"source":{"url":"https://x","type":"url"},"type":"image"})", 1,
                     false},
           Elsewhere{kMessages, R"({"type":"document","source":{"type":"url","url":"https://x"}})",
                     0, true},
           Elsewhere{kMessages, R"({"type":"document","source":{"type":"file","file_id":"f"}})", 0,
                     true},
           Elsewhere{kMessages, R"({"type":"image","source":{"type":"base64","data":"AA"}})", 0,
                     false},
           Elsewhere{kMessages, R"({"type":"tool_use","input":{"url":"https://x","file_id":"f"}})",
                     0, false},
           Elsewhere{kMessages, R"({"type":"search_result","source":"https://x"})", 0, false},
           Elsewhere{kChat, R"({"type":"image_url","image_url":{"url":"https://x"}})", 1, false},
           Elsewhere{kChat, R"({"type":"image_url","image_url":{"u\u0072l":"https://x"}})", 1,
                     false},
           Elsewhere{kChat,
                     R"({"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}})", 0,
                     false},
           Elsewhere{kChat, R"({"type":"file","file":{"file_id":"f"}})", 0, true},
           Elsewhere{kChat, R"({"type":"file","file":{"file_data":"data:;base64,AA"}})", 0, false},
           Elsewhere{kResponses, R"({"type":"input_image","image_url":"https://x"})", 1, false},
           Elsewhere{kResponses, R"({"type":"input_image","file_id":"f"})", 1, false},
           Elsewhere{kResponses, R"({"type":"input_image","image_url":"data:image/png;base64,AA"})",
                     0, false},
           Elsewhere{kResponses, R"({"type":"input_file","file_url":"https://x"})", 0, true},
           Elsewhere{kResponses, R"({"type":"input_file","file_id":"f"})", 0, true},
           Elsewhere{kResponses, R"({"type":"input_file","file_id":null,"file_data":"AA"})", 0,
                     false},
       }) {
    const auto facts = facts_of(
        R"({"model":"a","input":[{"role":"user","content":[)" + std::string(content) + "]}]}",
        protocol);
    ASSERT_TRUE(facts) << content;
    EXPECT_EQ(facts->remote_images, images) << content;
    EXPECT_EQ(facts->has_remote_prompt, is_document) << content;
  }
}

TEST(FactsTest, AServiceThatCostsMoreIsNoticedAndACheaperOneIsNotBelieved) {
  const auto percent = [](const std::string& fields) {
    const auto facts = facts_of(R"({"model":"a",)" + fields + "}");
    return facts ? facts->price_percent : -1;
  };
  for (const char* usual : {R"("service_tier":"auto")", R"("service_tier":"flex")",
                            R"("service_tier":null)", R"("service_tier":"standard_only")",
                            R"("speed":"standard")", R"("inference_geo":"global")"})
    EXPECT_EQ(percent(usual), 100) << usual;
  EXPECT_EQ(percent(R"("service_tier":"priority")"), 250);
  EXPECT_EQ(percent(R"("service_tier":"new and dear")"), 250);
  EXPECT_EQ(percent(R"("speed":"fast")"), 600);
  EXPECT_EQ(percent(R"("speed":"fast","inference_geo":"us")"), 660);
  EXPECT_EQ(percent(R"("service_tier":7)"), -1);
  EXPECT_EQ(percent(R"("Service_Tier":"priority")"), -1);
}

TEST(FactsTest, ThinkingOfAnotherProviderIsNoticed) {
  EXPECT_TRUE(facts_of(R"({"model":"a","messages":[{"content":[{"signature":"pons1.eyJ9"}]}]})")
                  ->carries_proof);
  EXPECT_FALSE(facts_of(R"({"model":"a","messages":[{"content":"say pons1. or \"pons1."}]})")
                   ->carries_proof);
}

TEST(FactsTest, ASearchByTheProviderIsNoticed) {
  for (const char* tool : {R"({"type":"web_search_20250305","name":"web_search"})",
                           R"({"type":"web_search"})", R"({"type":"web_search_preview"})"})
    EXPECT_TRUE(facts_of(R"({"model":"a","tools":[)" + std::string(tool) + "]}")->may_search)
        << tool;
  EXPECT_FALSE(facts_of(R"({"model":"a","input":[{"type":"web_search_call","id":"x"}],)"
                        R"("tools":[{"type":"function","name":"web_search"}]})")
                   ->may_search);
}

TEST(FactsTest, WhatToolsOfTheProviderFindIsPartOfThePrompt) {
  using enum Protocol;
  const auto tool = [](Protocol protocol, const std::string& json) {
    const auto facts = facts_of(R"({"model":"a","tools":[)" + json + "]}", protocol);
    EXPECT_TRUE(facts) << json;
    return facts.value_or(RequestFacts());
  };
  for (const auto& [protocol, json] :
       {std::pair(kMessages, R"({"type":"web_fetch_20250910","name":"web_fetch"})"),
        std::pair(kMessages, R"({"type":"code_execution_20250825","name":"code_execution"})"),
        std::pair(kMessages, R"({"name":"x","type":"web_search_20250305"})"),
        std::pair(kResponses, R"({"type":"mcp","server_url":"https://x"})"),
        std::pair(kResponses, R"({"type":"file_search","vector_store_ids":["v"]})"),
        std::pair(kResponses, R"({"type":"code_interpreter","container":{"type":"auto"}})"),
        std::pair(kResponses, R"({"type":"something_new"})"),
        std::pair(kResponses,
                  R"({"type":"namespace","name":"n","tools":[{"type":"mcp","server_url":"x"}]})"),
        std::pair(kResponses, R"({"type":"functi\u006fn","name":"f"})"),
        std::pair(kChat, R"({"type":"web_search","web_search":{}})")})
    EXPECT_TRUE(tool(protocol, json).has_remote_prompt) << json;
  for (const auto& [protocol, json] :
       {std::pair(kMessages, R"({"name":"f","input_schema":{"type":"object"}})"),
        std::pair(kMessages, R"({"type":"custom","name":"f","input_schema":{"type":"object"}})"),
        std::pair(kMessages, R"({"type":"bash_20250124","name":"bash"})"),
        std::pair(kMessages, R"({"type":"computer_20250124","name":"computer"})"),
        std::pair(kResponses, R"({"type":"custom","name":"f","format":{"type":"grammar"}})"),
        std::pair(kResponses,
                  R"({"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]})"),
        std::pair(kResponses, R"({"type":"local_shell"})"),
        std::pair(kChat, R"({"type":"function","function":{"name":"f","parameters":
                             {"type":"object","properties":{"tools":{"type":"array"}}}}})")})
    EXPECT_FALSE(tool(protocol, json).has_remote_prompt) << json;
  EXPECT_TRUE(tool(kResponses, R"({"type":"web\u005fsearch"})").may_search);
  const auto searching = facts_of(R"({"model":"a","web_search_options":{}})");
  EXPECT_TRUE(searching->may_search && searching->has_remote_prompt);
  EXPECT_TRUE(facts_of(R"({"model":"a","mcp_servers":[{"url":"https://x"}]})", kMessages)
                  ->has_remote_prompt);
  EXPECT_FALSE(facts_of(R"({"model":"a","mcp_servers":[]})", kMessages)->has_remote_prompt);
}

TEST(FactsTest, PicturesAndFilesThatAreHereAreNoText) {
  using enum Protocol;
  const std::string data(4'000'000, 'A');
  const auto facts = [&](Protocol protocol, std::string content) {
    content.replace(content.find('#'), 1, data);
    auto read = facts_of(R"({"model":"a","input":[{"role":"user","content":[)" + content + "]}]}",
                         protocol);
    EXPECT_TRUE(read) << content.substr(0, 100);
    return read.value_or(RequestFacts());
  };
  for (const auto& [protocol, content] :
       {std::pair(kMessages, R"({"type":"image","source":{"type":"base64","data":"#"}})"),
        std::pair(kMessages, R"({"source":{"data":"#","type":"base64"},"type":"image"})"),
        std::pair(kMessages, R"({"type":"tool_result","tool_use_id":"t","content":[
                                 {"type":"image","source":{"type":"base64","data":"#"}}]})"),
        std::pair(kChat, R"({"type":"image_url","image_url":{"url":"data:image/png;base64,#"}})"),
        std::pair(kResponses, R"({"type":"input_image","image_url":"data:image/png;base64,#"})")}) {
    const RequestFacts seen = facts(protocol, content);
    EXPECT_EQ(seen.inline_images, 1) << content;
    EXPECT_GE(seen.inline_bytes, data.size()) << content;
    EXPECT_EQ(seen.inline_document_tokens, 0) << content;
    EXPECT_LT(most_prompt_tokens(seen, data.size() + 200), 20'000) << content;
    EXPECT_LT(likely_prompt_tokens(seen, data.size() + 200), 3'000) << content;
  }
  for (const auto& [protocol, content] :
       {std::pair(kMessages, R"({"type":"document","source":{"type":"base64","data":"#"}})"),
        std::pair(kChat, R"({"type":"file","file":{"file_data":"data:application/pdf;base64,#"}})"),
        std::pair(kResponses, R"({"type":"input_file","file_data":"#"})")}) {
    const RequestFacts seen = facts(protocol, content);
    EXPECT_EQ(seen.inline_images, 0) << content;
    EXPECT_EQ(seen.inline_document_tokens, 300'000) << content;
  }
}

TEST(FactsTest, TextThatOnlyLooksLikeAPictureIsText) {
  using enum Protocol;
  for (const auto& [protocol, body] :
       {std::pair(kMessages, R"({"model":"a","messages":[{"role":"user","content":[
          {"type":"document","source":{"type":"text","media_type":"text/plain","data":"long"}}]}]})"),
        std::pair(kMessages, R"({"model":"a","messages":[{"role":"user","content":[
          {"type":"document","source":{"type":"base64","type":"text","data":"long"}}]}]})"),
        std::pair(kMessages, R"({"model":"a","messages":[{"role":"assistant","content":[
          {"type":"tool_use","id":"t","name":"f","input":{"type":"image","source":
            {"type":"base64","data":"long"}}}]}]})"),
        std::pair(kMessages, R"({"model":"a","x":[{"type":"image","source":
            {"type":"base64","data":"long"}}]})"),
        std::pair(kChat, R"({"model":"a","messages":[{"role":"user","content":"data:image/png"}],
          "tools":[{"image_url":"data:image/png;base64,long"}]})")}) {
    const auto facts = facts_of(body, protocol);
    ASSERT_TRUE(facts) << body;
    EXPECT_EQ(facts->inline_bytes, 0U) << body;
    EXPECT_EQ(facts->inline_images, 0) << body;
  }
}

TEST(FactsTest, WhatIsKeptForAnHourIsNoticed) {
  const auto hour = [](const std::string& control) {
    return facts_of(R"({"model":"a","messages":[{"role":"user","content":[{"type":"text",)"
                    R"("text":"hi","cache_control":)" +
                        control + "}]}]}",
                    Protocol::kMessages)
        ->caches_for_an_hour;
  };
  EXPECT_TRUE(hour(R"({"type":"ephemeral","ttl":"1h"})"));
  EXPECT_TRUE(hour(R"({"type":"ephemeral","ttl":"\u0031h"})"));
  EXPECT_FALSE(hour(R"({"type":"ephemeral","ttl":"5m"})"));
  EXPECT_FALSE(hour(R"({"type":"ephemeral"})"));
}

TEST(FactsTest, TheFirstMessageOfTheUserIsFoundAndAWishToThink) {
  const auto opening = [](const std::string& body, Protocol protocol) {
    const auto facts = facts_of(body, protocol);
    EXPECT_TRUE(facts) << body;
    return facts ? body.substr(facts->opening.begin, facts->opening.end - facts->opening.begin)
                 : std::string();
  };
  using enum Protocol;
  EXPECT_EQ(opening(R"({"model":"a","messages":[{"role":"system","content":"s"},)"
                    R"({"content":[{"role":"x"}],"role":"user"},{"role":"user","content":"2"}]})",
                    kChat),
            R"({"content":[{"role":"x"}],"role":"user"})");
  EXPECT_EQ(opening(R"({"model":"a","input":"hi"})", kResponses), R"("hi")");
  EXPECT_EQ(opening(R"({"model":"a","x":[{"role":"user"}]})", kChat), "");
  const auto thinks = [](const std::string& field) {
    return facts_of(R"({"model":"a",)" + field + "}")->asks_to_think;
  };
  EXPECT_TRUE(thinks(R"("thinking":{"type":"adaptive"})"));
  EXPECT_TRUE(thinks(R"("reasoning":{"summary":"auto"})"));
  EXPECT_TRUE(thinks(R"("reasoning_effort":"low")"));
  EXPECT_FALSE(thinks(R"("thinking":{ "type": "disabled" })"));
  EXPECT_FALSE(thinks(R"("reasoning_effort":"none")"));
}

TEST(FactsTest, LimitsAndKeysAreFound) {
  const auto facts = facts_of(
      R"({"max_completion_tokens":7,"max_tokens":null,"model":"a","prompt_cache_key":"k","n":3})");
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->output_tokens_max, 7);
  EXPECT_EQ(facts->cache_key, "k");
  EXPECT_EQ(facts->choices, 3);
}

}  // namespace
}  // namespace pons::models
