#include "dialogue.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/session/machine_tools.h"
#include "pons/session/tools.h"

namespace pons::guest {

namespace {

// Of what a guest is told that was not there.
constexpr std::size_t kToldBytesMax = 400'000;
constexpr std::size_t kToldResultBytes = 8'000;

Error malformed(const char* what) {
  return make_error(ErrorCode::kInvalid, "read question", what);
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// A text, or the texts of a list of blocks. What is no text is named.
std::string text_of(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (!content.is_array()) return text;
  for (const Json& block : content) {
    if (!block.is_object()) continue;
    const std::string type = text_at(block, "type");
    if (!text.empty()) text += '\n';
    text += type == "text" ? text_at(block, "text") : fmt::format("[{} that is not shown]", type);
  }
  return text;
}

std::string cut(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string(text);
  std::size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return fmt::format("{}\n[… {} bytes are left out]", text.substr(0, end), text.size() - end);
}

Result<std::vector<harness::OfferedTool>> read_tools(const Json& request) {
  std::vector<harness::OfferedTool> tools;
  const auto list = request.find("tools");
  if (list == request.end()) return tools;
  if (!list->is_array()) return malformed("tools are no list");
  for (const Json& tool : *list) {
    if (!tool.is_object()) return malformed("a tool is no object");
    const auto schema = tool.find("input_schema");
    // Those that a provider runs by itself have none, and are nobody else's.
    if (schema == tool.end()) continue;
    tools.push_back({.name = text_at(tool, "name"),
                     .description = text_at(tool, "description"),
                     .input_schema = dump_json(*schema)});
  }
  return tools;
}

}  // namespace

Result<Dialogue> Dialogue::read(std::string_view request) {
  const Json json = TRY(parse_json(request, {.depth = 128, .bytes = std::size_t{64} << 20}));
  if (!json.is_object()) return malformed("it is no object");
  Dialogue dialogue;
  dialogue.model_ = text_at(json, "model");
  if (const auto system = json.find("system"); system != json.end())
    dialogue.system_ = text_of(*system);
  dialogue.tools_ = TRY(read_tools(json));
  const auto messages = json.find("messages");
  if (messages == json.end() || !messages->is_array()) return malformed("messages are no list");
  for (const Json& message : *messages) {
    if (!message.is_object() || !message.contains("content"))
      return malformed("a message has no content");
    const bool is_ours = text_at(message, "role") == "user";
    const Json& content = message.at("content");
    const Json blocks = content.is_array()
                            ? content
                            : Json::array({{{"type", "text"}, {"text", text_of(content)}}});
    for (const Json& block : blocks) {
      if (!block.is_object()) return malformed("a block is no object");
      const std::string type = text_at(block, "type");
      // It is nobody's to go on with but whose it was.
      if (type == "thinking" || type == "redacted_thinking") continue;
      Block read{.is_ours = is_ours};
      if (type == "tool_use") {
        read.kind = Block::Kind::kCall;
        read.call = text_at(block, "id");
        read.name = text_at(block, "name");
        read.text = block.contains("input") ? dump_json(block.at("input")) : "{}";
      } else if (type == "tool_result") {
        read.kind = Block::Kind::kResult;
        read.call = text_at(block, "tool_use_id");
        read.text = block.contains("content") ? text_of(block.at("content")) : std::string();
        read.is_error = block.value("is_error", false);
      } else {
        read.text = text_of(Json::array({block}));
      }
      // Marks for a provider's cache come and go; the words stay.
      read.digest = sha256_hex(fmt::format("{}\n{}\n{}\n{}\n{}\n{}", is_ours ? 'u' : 'a', type,
                                           read.call, read.name, read.is_error, read.text));
      dialogue.blocks_.push_back(std::move(read));
    }
  }
  return dialogue;
}

std::vector<harness::OfferedTool> Dialogue::tools_for(harness::Placement placement) const {
  std::vector<harness::OfferedTool> tools = tools_;
  if (placement == harness::Placement::kSandbox)
    std::erase_if(tools, [](const harness::OfferedTool& tool) {
      return session::is_machine_tool(tool.name) || tool.name == session::kProvision ||
             tool.name == session::kExecute;
    });
  return tools;
}

bool Dialogue::offers(std::string_view tool) const {
  return std::ranges::find(tools_, tool, &harness::OfferedTool::name) != tools_.end();
}

Terms Dialogue::terms(harness::Placement placement) const {
  std::string offer = model_;
  for (const harness::OfferedTool& tool : tools_for(placement))
    offer +=
        fmt::format("\n{}\n{}\n{}", tool.name, sha256_hex(tool.description), tool.input_schema);
  return {.offer = sha256_hex(offer), .system = sha256_hex(system_)};
}

std::string Dialogue::digest_of(std::size_t blocks) const {
  std::string all;
  for (std::size_t i = 0; i < blocks; ++i) all += blocks_[i].digest;
  return sha256_hex(all);
}

Heard Dialogue::heard() const {
  return {.blocks = blocks_.size(), .digest = digest_of(blocks_.size())};
}

const Dialogue::Block* Dialogue::find_call(std::string_view id) const {
  const auto found = std::ranges::find_if(blocks_, [&](const Block& block) {
    return block.kind == Block::Kind::kCall && block.call == id;
  });
  return found == blocks_.end() ? nullptr : &*found;
}

std::optional<News> Dialogue::news_since(const Heard& heard) const {
  if (heard.blocks > blocks_.size() || digest_of(heard.blocks) != heard.digest) return std::nullopt;
  std::size_t next = heard.blocks;
  while (next < blocks_.size() && !blocks_[next].is_ours) ++next;  // what it said itself
  News news;
  for (; next < blocks_.size(); ++next) {
    const Block& block = blocks_[next];
    if (!block.is_ours) return std::nullopt;  // somebody else answered meanwhile
    if (block.kind == Block::Kind::kResult) {
      const Block* call = find_call(block.call);
      news.results.push_back({.call = block.call,
                              .name = call == nullptr ? std::string() : call->name,
                              .input = call == nullptr ? std::string() : call->text,
                              .text = block.text,
                              .is_error = block.is_error});
    } else {
      if (!news.text.empty()) news.text += "\n\n";
      news.text += block.text;
    }
  }
  return news;
}

std::string Dialogue::told(const Block& block) const {
  switch (block.kind) {
    case Block::Kind::kSaid:
      return fmt::format("{}: {}\n\n", block.is_ours ? "User" : "You", block.text);
    case Block::Kind::kCall:
      return fmt::format("[You called {} with {}]\n\n", block.name,
                         cut(block.text, kToldResultBytes));
    case Block::Kind::kResult:
      return fmt::format("[It {}: {}]\n\n", block.is_error ? "failed" : "answered",
                         cut(block.text, kToldResultBytes));
  }
  return {};
}

std::string Dialogue::as_told(LastTime last_time) const {
  constexpr std::string_view kLook =
      "\n\n[You were at work on this before, and were cut off. What you had begun by then may not "
      "be "
      "told here: look whether it is done before you do it.]";
  const std::string_view end = last_time == LastTime::kCutOff ? kLook : "";
  std::string text;
  if (!system_.empty()) text = fmt::format("Instructions of whoever runs you:\n\n{}\n\n", system_);
  // One message needs no story around it.
  const bool is_begin = std::ranges::all_of(blocks_, [](const Block& block) {
    return block.is_ours && block.kind == Block::Kind::kSaid;
  });
  if (is_begin) {
    for (const Block& block : blocks_) text += block.text + "\n\n";
    return std::string(trim(text)).append(end);
  }
  std::vector<std::string> parts;
  std::size_t bytes = 0;
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    std::string part = told(blocks_[i]);
    bytes += part.size();
    if (bytes > kToldBytesMax && i > 0 && !parts.empty()) {
      parts.emplace_back("[… something is left out here]\n\n");
      parts.push_back(cut(told(blocks_.front()), kToldBytesMax));
      break;
    }
    parts.push_back(std::move(part));
  }
  text +=
      "You have been in this conversation before, and do not remember it. This is what was said "
      "and done so far; everything in it has happened and is not to be done "
      "again:\n\n<conversation>\n";
  for (const std::string& part : parts | std::views::reverse) text += part;
  text += "</conversation>\n\nGo on from there: answer what the user said last.";
  return text.append(end);
}

std::string Dialogue::as_new_instructions() const {
  return system_.empty()
             ? "[The instructions of whoever runs you hold no longer.]\n\n"
             : fmt::format("Instructions of whoever runs you, in place of those before:\n\n{}\n\n",
                           system_);
}

std::string told_result(const ResultNews& result) {
  return fmt::format("[Your call of {} with {} {}: {}]", result.name,
                     cut(result.input, kToldResultBytes),
                     result.is_error ? "failed" : "has ended with", result.text);
}

}  // namespace pons::guest
