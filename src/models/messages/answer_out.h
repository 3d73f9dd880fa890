#pragma once

#include <string>

#include "json_writer.h"
#include "pons/models/answer.h"

namespace pons::models::messages {

// What both kinds of answers need to know of the parts that were written.
struct Written {
  bool called_tools = false;
  bool refused = false;
};
void note(Written& written, const Part& part);

// A client of this protocol acts on the blocks and the reason alike: the reason follows the blocks
// where a provider says something else.
std::string_view reason_for(Stop stop, const Written& written);

// False: this protocol has no block for it in an answer.
bool has_block(const Part& part);

// The thinking as the client keeps and returns it: of another author the proof is carried.
ThinkingPart sealed(const ThinkingPart& thinking);

// Another protocol's citation of a page as this one has it; empty when it is of something else. It
// is marked: no provider may see it, because none of them made it.
std::string page_citation(std::string_view json);

// {"id":…,"usage":…}; `content` is a JSON array.
void write_message(JsonWriter& json, const Answer& about, std::string_view content,
                   std::string_view reason);

}  // namespace pons::models::messages
