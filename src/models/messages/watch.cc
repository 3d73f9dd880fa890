#include <array>

#include "messages/errors.h"
#include "messages/usage.h"
#include "messages/wire.h"
#include "shared_document.h"

namespace pons::models::messages {

namespace {

class MessagesWatch final : public StreamWatch {
 public:
  bool see(const http::ServerEvent& event) override {
    if (event.data == "[DONE]") return true;  // some servers end every stream so
    const auto root = shared_document(event.data).parse(event.data);
    if (!root || !root->is_object()) return false;
    const auto type = root->string_or("type", event.event);
    if (!type || type->empty()) return false;
    if (*type == "content_block_delta") {
      see_delta(*root);
    } else if (*type == "message_start") {
      began_ = true;
      if (const auto message = root->find("message")) see_usage(*message);
    } else if (*type == "message_delta") {
      see_usage(*root);
    } else if (*type == "message_stop") {
      whole_ = sealed_ = began_;
    } else if (*type == "error") {
      failure_ = failure_of(*root, 0);
    }
    return true;
  }

  void end_with(const Failure& failure, std::string& out) const override {
    messages_protocol().stream_writer({})->take(failure, out);
  }

 private:
  void see_delta(const JsonNode& root) {
    const auto delta = root.find("delta");
    if (!delta) return;
    constexpr std::array<std::string_view, 3> kKeys = {"text", "partial_json", "thinking"};
    for (const std::string_view key : kKeys)
      output_bytes_ += delta->string_or(key, "").value_or("").size();
  }

  void see_usage(const JsonNode& holder) {
    if (const auto usage = holder.find("usage")) count_.see(*usage);
    usage_ = count_.usage();
  }

  UsageCount count_;
};

}  // namespace

std::unique_ptr<StreamWatch> stream_watch() {
  return std::make_unique<MessagesWatch>();
}

}  // namespace pons::models::messages
