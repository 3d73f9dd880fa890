#include "pons/models/protocol.h"

#include "messages/wire.h"

namespace pons::models {

namespace {

class MessagesProtocol final : public ProtocolText {
 public:
  Result<Request> read_request(std::string_view body) const override {
    return messages::read_request(body);
  }
  Result<std::string> write_request(const Request& request, std::string_view model,
                                    Omitted& omitted) const override {
    return messages::write_request(request, model, omitted);
  }
  Result<Answer> read_answer(std::string_view body) const override {
    return messages::read_answer(body);
  }
  std::string write_answer(const Answer& answer, const Request& request) const override {
    return messages::write_answer(answer, request);
  }
  std::unique_ptr<AnswerReader> stream_reader() const override { return messages::stream_reader(); }
  std::unique_ptr<AnswerWriter> stream_writer(const Request& request) const override {
    return messages::stream_writer(request);
  }
  std::unique_ptr<StreamWatch> stream_watch() const override { return messages::stream_watch(); }
  Usage usage_of(std::string_view body) const override { return messages::usage_of(body); }
  Failure read_error(int status, std::string_view body) const override {
    return messages::read_error(status, body);
  }
  ErrorBody write_error(const Failure& failure, std::string_view request_id) const override {
    return messages::write_error(failure, request_id);
  }
};

}  // namespace

const ProtocolText& messages_protocol() {
  static const MessagesProtocol kProtocol;
  return kProtocol;
}

}  // namespace pons::models
