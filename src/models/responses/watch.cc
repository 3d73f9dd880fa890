#include "responses/responses.h"
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
    // Text, refusals, reasoning, arguments: each grows by a string of this name.
    if (type->ends_with(".delta")) {
      output_bytes_ += root->string_or("delta", "").value_or("").size();
      return true;
    }
    if (*type == "error") {
      const auto error = root->find("error");
      failure_ = read_failure(error ? *error : *root);
    } else if (const auto response = root->find("response")) {
      see_response(*type, *response);
    }
    return true;
  }

 private:
  void see_response(std::string_view type, const JsonNode& response) {
    if (response.find("usage")) usage_ = read_usage(response);
    if (type == "response.completed" || type == "response.incomplete") {
      whole_ = true;
    } else if (type == "response.failed" || type == "response.cancelled") {
      const auto error = response.find("error");
      failure_ =
          error ? read_failure(*error) : Failure{.message = "the provider gave up on the answer"};
    }
  }
};

}  // namespace

std::unique_ptr<StreamWatch> stream_watch() {
  return std::make_unique<Watch>();
}

}  // namespace pons::models::responses
