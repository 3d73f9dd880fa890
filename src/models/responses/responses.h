#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json_node.h"
#include "json_writer.h"
#include "pons/models/protocol.h"

// OpenAI Responses: POST /v1/responses. A conversation is a list of items: messages, reasoning,
// calls and their outputs, and many that only the service itself knows.

namespace pons::models::responses {

Result<Request> read_request(std::string_view body);
Result<std::string> write_request(const Request& request, std::string_view model, Omitted& omitted);
Result<Answer> read_answer(std::string_view body);
std::string write_answer(const Answer& answer, const Request& request);
std::unique_ptr<AnswerReader> stream_reader();
std::unique_ptr<AnswerWriter> stream_writer(const Request& request);
std::unique_ptr<StreamWatch> stream_watch();
Failure read_error(int status, std::string_view body);
ErrorBody write_error(const Failure& failure);
std::string_view failure_code(const Failure& failure);

// Of `input`.
Result<void> read_input(const JsonNode& input, std::vector<Message>& messages);
// Of `tools`, namespaces taken apart.
Result<void> read_tools(const JsonNode& tools, std::vector<Tool>& out);
// What is no plain choice is also kept in `extras`.
Result<void> read_tool_choice(const JsonNode& choice, Request& request);

// Items of the conversation, without what was said as `instructions`.
Result<void> write_input(JsonWriter& json, const Request& request, Omitted& omitted);
Result<void> write_tools(JsonWriter& json, const Request& request);
void write_tool_choice(JsonWriter& json, const Request& request);
void write_reasoning_wish(JsonWriter& json, const Request& request, std::string_view model);
void write_text_wish(JsonWriter& json, const Request& request);
// The text that goes into `instructions`, if any; the message it comes from is the first.
std::optional<std::string> instructions_of(const Request& request);
const std::string* find_extra(const std::vector<ExtraField>& extras, std::string_view name);

// A reasoning item. Its proof is what the service needs to take it back as it was.
Result<ThinkingPart> read_reasoning(const JsonNode& item);
// Of the service's own reasoning. An empty `id` stands for the one in the proof. kOnly: nothing is
// written when there is no encrypted_content.
enum class Proven : std::uint8_t { kAny, kOnly };
void write_reasoning(JsonWriter& json, const ThinkingPart& part, std::string_view id,
                     Proven proven);
std::string reasoning_id(const ThinkingPart& part);  // empty: its proof names none

// What a message of the model consists of: output_text and refusal.
Result<Part> read_output_content(const JsonNode& content);
Result<ToolCallPart> read_call(const JsonNode& item);
// Whether a part of a message rather than an item of its own has this type.
bool is_content_type(std::string_view type);

// The parts of one item of an answer.
Result<void> read_output_item(const JsonNode& item, std::vector<Part>& parts);
Usage read_usage(const JsonNode& response);
struct Said {
  bool call = false;
  bool refusal = false;
  void take(const Part& part);
};
Stop stop_of(const JsonNode& response, const Said& said);
// Of the `error` of a failed response or of an error event.
Failure read_failure(const JsonNode& error);

}  // namespace pons::models::responses
