#include "new_sandbox.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace pons::e2b {

namespace {

constexpr std::size_t kTextsMax = 256;
constexpr std::size_t kTextsBytesMax = 48 * 1024;  // all names and values together

Error wrong(std::string message) {
  return make_error(ErrorCode::kInvalid, "read request", std::move(message));
}

Result<std::map<std::string, std::string>> read_texts(const Json& body, const char* name) {
  std::map<std::string, std::string> texts;
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return texts;
  if (!found->is_object() || found->size() > kTextsMax)
    return wrong(fmt::format("{} is an object of at most {} texts", name, kTextsMax));
  std::size_t bytes = 0;
  for (const auto& [key, value] : found->items()) {
    if (!value.is_string()) return wrong(fmt::format("{}.{} is no text", name, key));
    bytes += key.size() + value.get_ref<const std::string&>().size();
    texts[key] = value.get<std::string>();
  }
  if (bytes > kTextsBytesMax)
    return wrong(fmt::format("{} has more than {} bytes", name, kTextsBytesMax));
  return texts;
}

Result<bool> read_flag(const Json& body, const char* name) {
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return false;
  if (!found->is_boolean()) return wrong(fmt::format("{} is true or false", name));
  return found->get<bool>();
}

}  // namespace

Result<std::optional<sandbox::Milliseconds>> read_seconds(const Json& body, const char* name) {
  constexpr std::int64_t kSecondsMax = 30LL * 24 * 3600;
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return std::optional<sandbox::Milliseconds>();
  if (!found->is_number_integer()) return wrong(fmt::format("{} is a number of seconds", name));
  const auto seconds = found->get<std::int64_t>();
  if (seconds < 0 || seconds > kSecondsMax)
    return wrong(fmt::format("{} is 0 to {} seconds", name, kSecondsMax));
  // 0 is "at once", which "no end" must not be mistaken for.
  return std::optional(seconds == 0 ? sandbox::Milliseconds(1)
                                    : sandbox::Milliseconds(std::chrono::seconds(seconds)));
}

Result<bool> wants_cold(const Json& body) {
  const auto memory = body.find("memory");
  if (memory == body.end() || memory->is_null()) return false;
  return !TRY(read_flag(body, "memory"));
}

Result<NewSandbox> read_new_sandbox(const Json& body, sandbox::Milliseconds timeout_default,
                                    std::string_view project) {
  if (!body.is_object()) return wrong("the body is an object");
  NewSandbox wanted;
  const auto name = body.find("templateID");
  if (name == body.end() || !name->is_string()) return wrong("templateID is missing");
  wanted.template_id = name->get<std::string>();
  wanted.environment = TRY(read_texts(body, "envVars"));
  wanted.metadata = dump_json(TRY(read_texts(body, "metadata")));
  wanted.timeout = TRY(read_seconds(body, "timeout")).value_or(timeout_default);
  wanted.auto_pause = TRY(read_flag(body, "autoPause"));
  if (const auto resume = body.find("autoResume"); resume != body.end() && resume->is_object())
    wanted.auto_resume = TRY(read_flag(*resume, "enabled"));
  if (const auto keeps = body.find("autoPauseMemory"); keeps != body.end() && !keeps->is_null())
    wanted.keeps_memory = TRY(read_flag(body, "autoPauseMemory"));
  if (!wanted.keeps_memory && wanted.auto_resume)
    return wrong("autoResume wakes what was kept in memory: autoPauseMemory must not be false");
  if (const auto iam = body.find("iam"); iam != body.end() && iam->is_object() &&
                                         iam->contains("tokens") && !iam->at("tokens").empty())
    return wrong("iam: this server issues no identity tokens");
  const auto mounts = body.find("volumeMounts");
  if (mounts != body.end() && !mounts->is_null() && !mounts->empty())
    return wrong("volumeMounts: this server has no volumes");
  const auto network = body.find("network");
  const bool given = network != body.end() && !network->is_null();
  wanted.network = TRY(read_network(body, given ? *network : Json::object(), project));
  return wanted;
}

}  // namespace pons::e2b
