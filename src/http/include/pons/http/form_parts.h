#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/http/exchange.h"
#include "pons/http/multipart.h"

namespace pons::http {

// The next piece of a body; empty at its end.
using BodyPieces = std::function<Task<Result<std::string>>()>;
// Those of a request, as they come and no faster than they are taken. `exchange` outlives them.
BodyPieces pieces_of(Exchange& exchange);

// The parts of a form, one after the other, out of a body that is pulled as they are.
class FormParts {
 public:
  FormParts(BodyPieces body, std::string_view boundary)
      : body_(std::move(body)), parser_(boundary) {}

  // Nothing when there are no more. What was not read of the part before is passed over.
  Task<Result<std::optional<PartHead>>> next_part();
  // The next data of the part that next_part() told of; empty at the part's end.
  Task<Result<std::string>> next_data();
  // All of it. kInvalid when it is longer.
  Task<Result<std::string>> read_text(std::size_t bytes_max);

 private:
  // The next step that says something.
  Task<Result<MultipartParser::Step::State>> advance();

  BodyPieces body_;
  MultipartParser parser_;
  std::string buffer_;
  std::string data_;  // of the latest step
  bool in_part_ = false;
};

}  // namespace pons::http
