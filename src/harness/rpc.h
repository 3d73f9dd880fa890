#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "fields.h"
#include "pons/harness/adapter.h"

namespace pons::harness {

// JSON-RPC over lines, both ways. `Purpose` is what an adapter asked for, so that it knows what an
// answer belongs to.
template <class Purpose>
class RpcPeer {
 public:
  enum class Version : std::uint8_t { kSaid, kLeftOut };
  explicit RpcPeer(Version version) : version_(version) {}

  void ask(Purpose purpose, std::string_view method, Json params, Output& out) {
    Json message = begin();
    message["id"] = ++last_id_;
    message["method"] = method;
    message["params"] = std::move(params);
    asked_.emplace(last_id_, purpose);
    out.lines.push_back(dump_json(message));
  }
  void tell(std::string_view method, Json params, Output& out) {
    Json message = begin();
    message["method"] = method;
    message["params"] = std::move(params);
    out.lines.push_back(dump_json(message));
  }
  void reply(const std::string& id, Json result, Output& out) {
    Json message = begin();
    message["id"] = Json::parse(id);
    message["result"] = std::move(result);
    out.lines.push_back(dump_json(message));
  }
  void refuse(const Json& id, std::string_view method, Output& out) {
    Json message = begin();
    message["id"] = id;
    message["error"] = {{"code", -32601}, {"message", "there is no method " + std::string(method)}};
    out.lines.push_back(dump_json(message));
  }

  // What an answer is to; nothing when nobody asked.
  std::optional<Purpose> take_answer(const Json& message) {
    const Json& id = member(message, "id");
    if (!id.is_number_integer()) return std::nullopt;
    const auto found = asked_.find(id.get<std::int64_t>());
    if (found == asked_.end()) return std::nullopt;
    const Purpose purpose = found->second;
    asked_.erase(found);
    return purpose;
  }

 private:
  Json begin() const {
    Json message = Json::object();
    if (version_ == Version::kSaid) message["jsonrpc"] = "2.0";
    return message;
  }

  Version version_;
  std::int64_t last_id_ = 0;
  std::map<std::int64_t, Purpose> asked_;
};

// The id of a request, as text to answer by; empty when it is none.
inline std::string request_id(const Json& message) {
  const Json& id = member(message, "id");
  return id.is_number_integer() || id.is_string() ? dump_json(id) : std::string();
}

// What went wrong, in the words of an error of JSON-RPC.
inline std::string error_text(const Json& message) {
  const Json& error = member(message, "error");
  std::string text = text_at(error, "message");
  const Json& data = member(error, "data");
  if (!data.is_null()) text += (text.empty() ? "" : ": ") + dump_json(data).substr(0, 1'000);
  return text;
}

}  // namespace pons::harness
