#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "multipart.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/sandbox/provider.h"

namespace pons::e2b {

// The parts of a form, one after the other, out of a body that is pulled as they are.
class FormParts {
 public:
  FormParts(sandbox::ByteSource& body, std::string_view boundary)
      : body_(body), parser_(boundary) {}

  // Nothing when there are no more. What was not read of the part before is passed over.
  Task<Result<std::optional<PartHead>>> next_part();
  // The data of the part that next_part() told of; used up before the next.
  std::unique_ptr<sandbox::ByteSource> open_data();

 private:
  class Data;
  // The next step that says something.
  Task<Result<MultipartParser::Step::State>> advance();
  // Empty at the part's end.
  Task<Result<std::string>> next_data();

  sandbox::ByteSource& body_;
  MultipartParser parser_;
  std::string buffer_;
  std::string data_;  // of the latest step
  bool in_part_ = false;
};

}  // namespace pons::e2b
