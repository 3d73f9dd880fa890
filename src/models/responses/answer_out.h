#pragma once

#include "responses/responses.h"

namespace pons::models::responses {

// An item of an answer: the texts and refusals of one message, or one part of another kind.
struct OutputItem {
  std::string id;
  std::vector<Part> parts;
  bool is_message() const;
};

// The part as a client of this protocol sees it, or nothing where it has no place. A call of a
// free-form tool that went through a provider without such tools is one again.
std::optional<Part> shown(const Part& part, const Request& request);
// Whether the call stands for one of a free-form tool; then its input is an object around it.
bool is_wrapped(const ToolCallPart& call, const Request& request);
std::string unwrap(std::string_view input);

// Citations of pages as this protocol has them, each of the whole text; those of other things have
// no place here.
void map_citations(TextPart& text);

bool joins_message(const OutputItem& open, const Part& part);
// "in_progress", "completed" or "incomplete".
void write_item(JsonWriter& json, const OutputItem& item, std::string_view status);
void write_content_part(JsonWriter& json, const Part& part);

// How an answer stands; nothing in `failure`: it did not fail.
struct Ending {
  std::string_view status = "in_progress";
  std::string_view incomplete_reason = {};
  const Failure* failure = nullptr;
};
Ending ending_of(Stop stop, bool has_refusal);

// How far a stream has come that was written by somebody else.
struct Told {
  std::string id;
  std::string model;
  std::int64_t next = 0;  // sequence number
  bool error = false;     // of that there has been an event
  bool end = false;
};
// Ends it with a failure.
void end_stream(const Told& told, const Failure& failure, std::string& out);

// The response object, which repeats much of the request.
class ResponseObject {
 public:
  explicit ResponseObject(const Request& request);
  void begin(std::string_view answer_id, std::string_view model);
  // Of a response that has an id of this protocol.
  void go_on(std::string id, std::string model);
  // The same for the same answer, each time it is written. Reasoning of the service keeps its own,
  // if that is known already: an item has one id in all events of a stream.
  std::string item_id(const Part& part, std::size_t index) const;
  // `items`: JSON, separated by commas.
  void write(JsonWriter& json, const Ending& ending, std::string_view items,
             const Usage* usage) const;

 private:
  std::string repeated_;  // fields, as JSON
  std::string id_;
  std::string stem_;  // what the ids have in common
  std::string model_;
};

}  // namespace pons::models::responses
