#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "json_node.h"
#include "json_writer.h"
#include "pons/models/protocol.h"

// The words of OpenAI Chat Completions; each group stands in the source that is named.

namespace pons::models::chat {

// request_in.cc
Result<Request> read_request(std::string_view body);
// tools_in.cc
Result<void> read_tools(const JsonNode& root, Request& request);
// messages_in.cc
Result<std::vector<Message>> read_messages(const JsonNode& list);
Result<ToolCallPart> read_tool_call(const JsonNode& call);
// A string, or an object where a server does not write it as text; absent: empty.
Result<std::string> read_arguments(const JsonNode& function, std::string_view key);
Result<std::optional<CacheHint>> read_cache_hint(const JsonNode& node);
// content_in.cc: a string or a list; text that is empty is nothing.
Result<void> read_content(const JsonNode& content, std::vector<Part>& parts);
// reasoning.cc: of a message of the assistant, in a request or an answer.
Result<void> read_reasoning(const JsonNode& message, std::vector<Part>& parts);
void write_reasoning(JsonWriter& json, const std::vector<const ThinkingPart*>& thinking);
void write_carried(JsonWriter& json, const ThinkingPart& part, std::int64_t index);

// request_out.cc
Result<std::string> write_request(const Request& request, std::string_view model, Omitted& omitted);
void omit(Omitted& omitted, std::string_view name);  // says each name once
Error refusal(std::string message);                  // of write_request
// messages_out.cc
Result<void> write_messages(JsonWriter& json, const Request& request, Omitted& omitted);
// tools_out.cc
Result<void> write_tools(JsonWriter& json, const Request& request);
bool is_free_form(const Request& request, std::string_view tool);

// answer_in.cc
Result<Answer> read_answer(std::string_view body);
std::string made_id(std::string_view prefix);  // for what a server left without one
// How an answer ended, by the words of its choice alone; whole answers and streams say it alike.
struct Ending {
  Stop stop = Stop::kEnd;
  std::string stop_sequence = {};
};
Ending read_ending(std::string_view finish_reason, const JsonNode& choice);
bool is_failed_ending(std::string_view finish_reason);
// Servers say "stop" although there are tool calls or a refusal.
Stop stop_of_parts(Stop said, bool has_calls, bool has_refusal);
std::string_view finish_reason_of(Stop stop);

// stream_in.cc, stream_out.cc, watch.cc
std::unique_ptr<AnswerReader> stream_reader();
std::unique_ptr<AnswerWriter> stream_writer(const Request& request);
std::unique_ptr<StreamWatch> stream_watch();

// answer_out.cc
std::string write_answer(const Answer& answer, const Request& request);
std::int64_t unix_now();
// A tool call as this client knows it: the input of a tool that it calls custom is plain text, also
// when a provider without such tools gave it as {"input": "…"}.
std::string free_form_input(const ToolCallPart& call);
// Where a text stands in the content, in code points.
struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};
// A JSON list of citations as annotations. Those that have no URL have no place here.
void write_annotations(JsonWriter& json, std::string_view citations, Protocol cited_in,
                       TextRange range);
std::size_t code_points(std::string_view text);

// usage.cc
Usage read_usage(const JsonNode& usage);
void write_usage(JsonWriter& json, const Usage& usage);

// errors.cc
Failure read_error(int status, std::string_view body);
// The failure that an event or an answer with status 200 is.
std::optional<Failure> find_failure(const JsonNode& root);
ErrorBody write_error(const Failure& failure);

}  // namespace pons::models::chat
