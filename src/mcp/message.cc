#include "pons/mcp/message.h"

#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"

namespace pons::mcp {

namespace {

constexpr std::size_t kIdBytesMax = 256;
constexpr std::size_t kMethodBytesMax = 256;
// What the other side says of its failure, and what is kept of it.
constexpr std::size_t kErrorBytesMax = 4'096;

std::unexpected<Unreadable> refuse(std::int64_t code, std::string message,
                                   std::string id = "null") {
  return std::unexpected(
      Unreadable{.error = {.code = code, .message = std::move(message)}, .id = std::move(id)});
}

// As JSON text; nothing when it is neither a short text nor a whole number.
std::optional<std::string> read_id(const Json& id) {
  if (id.is_number_integer()) return id.dump();
  const auto* text = id.get_ptr<const std::string*>();
  if (text == nullptr || text->size() > kIdBytesMax) return std::nullopt;
  return dump_json(id);
}

std::expected<Message, Unreadable> read_call(const Json& json, std::optional<std::string> id) {
  const std::string known = id.value_or("null");
  const auto* method = json.at("method").get_ptr<const std::string*>();
  if (method == nullptr || method->empty() || method->size() > kMethodBytesMax)
    return refuse(kInvalidRequest, "\"method\" must be a text of 1 to 256 bytes", known);
  std::string params = "{}";
  if (const auto found = json.find("params"); found != json.end()) {
    if (!found->is_object()) return refuse(kInvalidRequest, "\"params\" must be an object", known);
    params = dump_json(*found);
  }
  if (!id) return Notification{.method = *method, .params = std::move(params)};
  return Request{.id = std::move(*id), .method = *method, .params = std::move(params)};
}

std::expected<Message, Unreadable> read_reply(const Json& json, std::string id) {
  const auto result = json.find("result");
  const auto error = json.find("error");
  if ((result == json.end()) == (error == json.end()))
    return refuse(kInvalidRequest, "a message has a method, a result or an error, and one of them",
                  id);
  if (error == json.end()) {
    if (id == "null") return refuse(kInvalidRequest, "a result needs an \"id\"");
    return Reply{.id = std::move(id), .outcome = dump_json(*result)};
  }
  if (!error->is_object() || !error->contains("code") || !error->contains("message") ||
      !error->at("code").is_number_integer() || !error->at("message").is_string())
    return refuse(kInvalidRequest, "\"error\" must have a code and a message", id);
  return Reply{.id = std::move(id),
               .outcome = RpcError{
                   .code = error->at("code").get<std::int64_t>(),
                   .message = error->at("message").get<std::string>().substr(0, kErrorBytesMax)}};
}

}  // namespace

std::expected<Message, Unreadable> read_message(std::string_view text, std::size_t bytes_max) {
  if (text.size() > bytes_max)
    return refuse(kInvalidRequest, fmt::format("a message may have {} bytes", bytes_max));
  const auto json = parse_json(text, {.bytes = bytes_max});
  if (!json) return refuse(kParseError, "this is no JSON that can be read");
  if (json->is_array())
    return refuse(kInvalidRequest, "send one message at a time: there are no batches");
  if (!json->is_object()) return refuse(kInvalidRequest, "a message is an object");
  std::optional<std::string> id;
  const auto given = json->find("id");
  if (given != json->end()) id = read_id(*given);
  const auto version = json->find("jsonrpc");
  if (version == json->end() || *version != "2.0")
    return refuse(kInvalidRequest, "\"jsonrpc\" must be \"2.0\"", id.value_or("null"));
  const bool is_call = json->contains("method");
  if (is_call && (json->contains("result") || json->contains("error")))
    return refuse(kInvalidRequest, "a message is a request or an answer, not both",
                  id.value_or("null"));
  const bool is_null = given != json->end() && given->is_null();
  if (given != json->end() && !id && !(is_null && !is_call))
    return refuse(kInvalidRequest, "\"id\" must be a whole number or a text of at most 256 bytes");
  return is_call ? read_call(*json, std::move(id)) : read_reply(*json, id.value_or("null"));
}

namespace {

std::string quote(const std::string& text) {
  return dump_json(Json(text));
}

struct Writer {
  std::string operator()(const Request& message) const {
    return fmt::format(R"({{"jsonrpc":"2.0","id":{},"method":{},"params":{}}})", message.id,
                       quote(message.method), message.params);
  }
  std::string operator()(const Notification& message) const {
    return fmt::format(R"({{"jsonrpc":"2.0","method":{},"params":{}}})", quote(message.method),
                       message.params);
  }
  std::string operator()(const Reply& message) const {
    if (const auto* error = std::get_if<RpcError>(&message.outcome))
      return fmt::format(R"({{"jsonrpc":"2.0","id":{},"error":{{"code":{},"message":{}}}}})",
                         message.id, error->code, quote(error->message));
    return fmt::format(R"({{"jsonrpc":"2.0","id":{},"result":{}}})", message.id,
                       std::get<std::string>(message.outcome));
  }
};

}  // namespace

std::string write_message(const Message& message) {
  return std::visit(Writer{}, message);
}

}  // namespace pons::mcp
