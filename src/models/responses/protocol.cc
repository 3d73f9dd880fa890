#include "responses/responses.h"
#include "shared_document.h"

namespace pons::models {

namespace {

class ResponsesProtocol final : public ProtocolText {
 public:
  Result<Request> read_request(std::string_view body) const override {
    return responses::read_request(body);
  }
  Result<std::string> write_request(const Request& request, std::string_view model,
                                    Omitted& omitted) const override {
    return responses::write_request(request, model, omitted);
  }
  Result<Answer> read_answer(std::string_view body) const override {
    return responses::read_answer(body);
  }
  std::string write_answer(const Answer& answer, const Request& request) const override {
    return responses::write_answer(answer, request);
  }
  std::unique_ptr<AnswerReader> stream_reader() const override {
    return responses::stream_reader();
  }
  std::unique_ptr<AnswerWriter> stream_writer(const Request& request) const override {
    return responses::stream_writer(request);
  }
  std::unique_ptr<StreamWatch> stream_watch() const override { return responses::stream_watch(); }
  Usage usage_of(std::string_view body) const override {
    const auto root = shared_document(body).parse(body);
    return root ? responses::read_usage(*root) : Usage{};
  }
  Failure read_error(int status, std::string_view body) const override {
    return responses::read_error(status, body);
  }
  ErrorBody write_error(const Failure& failure, std::string_view /*request_id*/) const override {
    return responses::write_error(failure);
  }
};

}  // namespace

const ProtocolText& responses_protocol() {
  static const ResponsesProtocol kProtocol;
  return kProtocol;
}

}  // namespace pons::models
