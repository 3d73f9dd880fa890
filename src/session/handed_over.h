#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pons/session/event.h"

namespace pons::session {

// What is handed over from one process to another, as it lies in the store: the events as a list,
// and the numbers that they got. kIo when it is none.
std::string write_inputs(const std::vector<Event>& inputs);
Result<std::vector<Event>> read_inputs(std::string_view text);
std::string write_seqs(const std::vector<Seq>& seqs);
Result<std::vector<Seq>> read_seqs(std::string_view text);

}  // namespace pons::session
