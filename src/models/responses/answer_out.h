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

// The response object, which repeats much of the request.
class ResponseObject {
 public:
  explicit ResponseObject(const Request& request);
  void begin(std::string_view answer_id, std::string_view model);
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
