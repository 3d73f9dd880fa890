#include "chat/chat.h"
#include "pons/base/text.h"
#include "shared_document.h"

namespace pons::models::chat {

namespace {

class ChunkWatch final : public StreamWatch {
 public:
  bool see(const http::ServerEvent& event) override;
  void end_with(const Failure& failure, std::string& out) const override {
    stream_writer({})->take(failure, out);
  }

 private:
  void see_choice(const JsonNode& choice);
  void count(const JsonNode& node, std::string_view key);
};

void ChunkWatch::count(const JsonNode& node, std::string_view key) {
  const auto found = node.find(key);
  if (!found) return;
  if (const auto text = found->as_string()) output_bytes_ += text->size();
}

void ChunkWatch::see_choice(const JsonNode& choice) {
  began_ = true;
  if (const auto usage = choice.find("usage"); usage && usage->is_object())
    usage_ = read_usage(*usage);
  if (const auto reason = choice.string_or("finish_reason", ""); reason && !reason->empty())
    whole_ = true;
  const auto delta = choice.find("delta");
  if (!delta) return;
  for (const char* const key : {"content", "refusal"}) count(*delta, key);
  // Some servers send both names with the same text.
  count(*delta, delta->find("reasoning_content") ? "reasoning_content" : "reasoning");
  const auto calls = delta->find("tool_calls");
  if (!calls) return;
  (void)calls->for_each([&](const JsonNode& call) -> Result<void> {
    if (const auto function = call.find("function")) count(*function, "arguments");
    if (const auto custom = call.find("custom")) count(*custom, "input");
    return {};
  });
}

bool ChunkWatch::see(const http::ServerEvent& event) {
  const std::string_view data = trim(event.data);
  if (data == "[DONE]") {
    whole_ = sealed_ = began_;
    return true;
  }
  const auto root = shared_document(data).parse(data);
  if (!root || !root->is_object()) return false;
  if (auto failure = find_failure(*root)) {
    failure_ = std::move(failure);
    return true;
  }
  const auto usage = root->find("usage");
  if (usage && usage->is_object()) usage_ = read_usage(*usage);
  const auto choices = root->find("choices");
  if (choices)
    (void)choices->for_each([&](const JsonNode& choice) -> Result<void> {
      see_choice(choice);
      return {};
    });
  return usage || choices || root->find("type");  // {"type":"ping"}: some servers say more
}

}  // namespace

std::unique_ptr<StreamWatch> stream_watch() {
  return std::make_unique<ChunkWatch>();
}

}  // namespace pons::models::chat
