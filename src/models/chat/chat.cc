#include "chat/chat.h"
#include "shared_document.h"

namespace pons::models {

namespace {

class ChatText final : public ProtocolText {
 public:
  Result<Request> read_request(std::string_view body) const override {
    return chat::read_request(body);
  }
  Result<std::string> write_request(const Request& request, std::string_view model,
                                    Omitted& omitted) const override {
    return chat::write_request(request, model, omitted);
  }
  Result<Answer> read_answer(std::string_view body) const override {
    return chat::read_answer(body);
  }
  std::string write_answer(const Answer& answer, const Request& request) const override {
    return chat::write_answer(answer, request);
  }
  std::unique_ptr<AnswerReader> stream_reader() const override { return chat::stream_reader(); }
  std::unique_ptr<AnswerWriter> stream_writer(const Request& request) const override {
    return chat::stream_writer(request);
  }
  std::unique_ptr<StreamWatch> stream_watch() const override { return chat::stream_watch(); }
  Usage usage_of(std::string_view body) const override {
    const auto root = shared_document(body).parse(body);
    if (!root) return {};
    const auto usage = root->find("usage");
    return usage ? chat::read_usage(*usage) : Usage{};
  }
  Failure read_error(int status, std::string_view body) const override {
    return chat::read_error(status, body);
  }
  // The request's id goes in a header field: an error of this protocol has no place for it.
  ErrorBody write_error(const Failure& failure, std::string_view /*request_id*/) const override {
    return chat::write_error(failure);
  }
};

}  // namespace

const ProtocolText& chat_protocol() {
  static const ChatText kText;
  return kText;
}

}  // namespace pons::models
