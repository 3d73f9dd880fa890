#include <algorithm>

#include <fmt/format.h>

#include "responses/responses.h"

namespace pons::models::responses {

namespace {

// What is no count is none: an answer is not lost over its bill.
std::int64_t count_at(const std::optional<JsonNode>& node, std::string_view key) {
  if (!node) return 0;
  const auto count = node->integer_at(key);
  return count ? std::max<std::int64_t>(0, count->value_or(0)) : 0;
}

}  // namespace

Usage read_usage(const JsonNode& response) {
  Usage usage;
  const auto node = response.find("usage");
  if (!node) return usage;
  const auto in = node->find("input_tokens_details");
  const auto out = node->find("output_tokens_details");
  usage.cache_read = count_at(in, "cached_tokens");
  usage.cache_write = count_at(in, "cache_write_tokens");
  usage.input = std::max<std::int64_t>(
      0, count_at(node, "input_tokens") - usage.cache_read - usage.cache_write);
  usage.output = count_at(node, "output_tokens");
  if (out && out->find("reasoning_tokens")) usage.reasoning = count_at(out, "reasoning_tokens");
  if (const auto items = response.find("output"))
    (void)items->for_each([&](const JsonNode& item) -> Result<void> {
      if (item.string_or("type", "").value_or("") == "web_search_call") ++usage.searches;
      return {};
    });
  return usage;
}

void Said::take(const Part& part) {
  call = call || std::holds_alternative<ToolCallPart>(part.content);
  refusal = refusal || std::holds_alternative<RefusalPart>(part.content);
}

Stop stop_of(const JsonNode& response, const Said& said) {
  if (response.string_or("status", "completed").value_or("") == "incomplete") {
    const auto details = response.find("incomplete_details");
    const auto reason = details ? details->string_or("reason", "").value_or("") : "";
    return reason == "content_filter" ? Stop::kRefusal : Stop::kMaxTokens;
  }
  if (said.call) return Stop::kToolUse;
  return said.refusal ? Stop::kRefusal : Stop::kEnd;
}

Result<Answer> read_answer(std::string_view body) {
  JsonDocument document;
  const JsonNode root = TRY(document.parse(body));
  TRY_VOID(root.expect_object());
  const auto status = TRY(root.string_or("status", "completed"));
  if (status == "failed" || status == "cancelled") {
    const auto error = root.find("error");
    return make_error(ErrorCode::kUnavailable, "read answer",
                      error ? read_failure(*error).message
                            : fmt::format("the provider says that the answer is {}", status));
  }
  if (status != "completed" && status != "incomplete")
    return root.error(fmt::format("the provider's answer is \"{}\" and not whole", status));
  Answer answer{.id = std::string(TRY(root.string_or("id", ""))),
                .model = std::string(TRY(root.string_or("model", "")))};
  const auto output = TRY(root.at("output"));
  TRY_VOID(
      output.for_each([&](const JsonNode& item) { return read_output_item(item, answer.parts); }));
  Said said;
  for (const Part& part : answer.parts) said.take(part);
  answer.stop = stop_of(root, said);
  answer.usage = read_usage(root);
  return answer;
}

}  // namespace pons::models::responses
