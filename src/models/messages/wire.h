#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "pons/models/protocol.h"

// The parts that the Messages protocol is put together from; what each promises stands in
// protocol.h.

namespace pons::models::messages {

Result<Request> read_request(std::string_view body);
Result<std::string> write_request(const Request& request, std::string_view model, Omitted& omitted);

Result<Answer> read_answer(std::string_view body);
std::string write_answer(const Answer& answer, const Request& request);

std::unique_ptr<AnswerReader> stream_reader();
std::unique_ptr<AnswerWriter> stream_writer(const Request& request);
std::unique_ptr<StreamWatch> stream_watch();
Usage usage_of(std::string_view body);

Failure read_error(int status, std::string_view body);
ErrorBody write_error(const Failure& failure, std::string_view request_id);

}  // namespace pons::models::messages
