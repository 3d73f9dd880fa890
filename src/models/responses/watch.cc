#include "responses/answer_out.h"
#include "shared_document.h"

namespace pons::models::responses {

namespace {

class Watch final : public StreamWatch {
 public:
  bool see(const http::ServerEvent& event) override {
    if (event.data == "[DONE]") return true;
    const auto root = shared_document(event.data).parse(event.data);
    if (!root) return false;
    const auto type = root->string_at("type");
    if (!type) return false;
    if (type->starts_with("response.")) began_ = true;
    if (const auto number = root->integer_at("sequence_number"); number && *number)
      told_.next = **number + 1;
    // Text, refusals, reasoning, arguments: each grows by a string of this name.
    if (type->ends_with(".delta")) {
      output_bytes_ += root->string_or("delta", "").value_or("").size();
      return true;
    }
    if (*type == "error") {
      const auto error = root->find("error");
      failure_ = read_failure(error ? *error : *root);
      told_.error = true;
    } else if (const auto response = root->find("response")) {
      see_response(*type, *response);
    }
    return true;
  }

  void end_with(const Failure& failure, std::string& out) const override {
    end_stream(told_, failure, out);
  }

 private:
  void see_response(std::string_view type, const JsonNode& response) {
    if (told_.id.empty()) {
      told_.id = response.string_or("id", "").value_or("");
      told_.model = response.string_or("model", "").value_or("");
    }
    if (response.find("usage")) usage_ = read_usage(response);
    if (type == "response.completed" || type == "response.incomplete") {
      whole_ = sealed_ = true;
    } else if (type == "response.failed" || type == "response.cancelled") {
      const auto error = response.find("error");
      failure_ =
          error ? read_failure(*error) : Failure{.message = "the provider gave up on the answer"};
      told_.end = true;
    }
  }

  Told told_;
};

}  // namespace

std::unique_ptr<StreamWatch> stream_watch() {
  return std::make_unique<Watch>();
}

}  // namespace pons::models::responses
