#include "check_spec.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/id.h"
#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/schedule/cron.h"

namespace pons::schedule {

namespace {

constexpr std::size_t kNameBytesMax = 1'024;
constexpr std::size_t kDescriptionBytesMax = 8 << 10;
constexpr std::size_t kEventsMax = 50;
constexpr std::size_t kEventsBytesMax = 512 << 10;
constexpr std::size_t kResourcesMax = 500;
constexpr std::size_t kResourcesBytesMax = 512 << 10;
constexpr std::size_t kVaultsMax = 50;
constexpr std::size_t kSmallBytesMax = 16 << 10;
constexpr std::size_t kMetadataMax = 16;
constexpr std::size_t kMetadataKeyBytesMax = 256;
constexpr std::size_t kMetadataValueBytesMax = 2'048;
constexpr std::size_t kMetadataBytesMax = 64 << 10;
constexpr std::int64_t kLateSecondsMin = 60;
constexpr std::int64_t kLateSecondsMax = std::int64_t{7} * 24 * 3'600;
constexpr std::array<std::string_view, 3> kEventTypes = {"user.message", "user.define_outcome",
                                                         "system.message"};

Error refuse(std::string message) {
  return make_error(ErrorCode::kInvalid, "check deployment", std::move(message));
}

bool has_control_characters(std::string_view text) {
  return std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

Result<Json> parse(const char* field, std::string_view text, std::size_t bytes_max) {
  if (text.size() > bytes_max)
    return refuse(fmt::format("{}: longer than {} bytes", field, bytes_max));
  auto json = parse_json(text);
  if (!json) return refuse(fmt::format("{}: {}", field, json.error().message));
  return json;
}

Result<Json> parse_list(const char* field, std::string_view text, std::size_t least,
                        std::size_t most, std::size_t bytes_max) {
  auto list = TRY(parse(field, text, bytes_max));
  if (!list.is_array() || list.size() < least || list.size() > most)
    return refuse(fmt::format("{}: it must be a list of {} to {}", field, least, most));
  return list;
}

bool is_id(const Json& value) {
  return value.is_string() && is_id_text(value.get_ref<const std::string&>());
}

Result<void> check_events(const std::string& text) {
  const auto events = TRY(parse_list("initial_events", text, 1, kEventsMax, kEventsBytesMax));
  for (const Json& event : events) {
    const auto type = event.is_object() ? event.find("type") : event.end();
    if (!event.is_object() || type == event.end() || !type->is_string() ||
        std::ranges::find(kEventTypes, type->get_ref<const std::string&>()) == kEventTypes.end())
      return refuse(
          "initial_events: each is a user.message, a user.define_outcome or a system.message");
  }
  return {};
}

Result<void> check_vaults(const std::string& text) {
  const auto ids = TRY(parse_list("vault_ids", text, 0, kVaultsMax, kSmallBytesMax));
  if (!std::ranges::all_of(ids, is_id)) return refuse("vault_ids: one of them is no id");
  return {};
}

Result<void> check_resources(const std::string& text) {
  const auto list = TRY(parse_list("resources", text, 0, kResourcesMax, kResourcesBytesMax));
  if (!std::ranges::all_of(list, [](const Json& value) { return value.is_object(); }))
    return refuse("resources: one of them is no object");
  return {};
}

Result<void> check_metadata(const std::string& text) {
  const auto metadata = TRY(parse("metadata", text, kMetadataBytesMax));
  if (!metadata.is_object() || metadata.size() > kMetadataMax)
    return refuse(fmt::format("metadata: it must be an object of up to {} texts", kMetadataMax));
  for (const auto& [key, value] : metadata.items())
    if (key.empty() || key.size() > kMetadataKeyBytesMax || !value.is_string() ||
        value.get_ref<const std::string&>().size() > kMetadataValueBytesMax)
      return refuse(fmt::format("metadata: keys have 1 to {} bytes, values are texts of up to {}",
                                kMetadataKeyBytesMax, kMetadataValueBytesMax));
  return {};
}

Result<void> check_schedule(const Schedule& schedule, Zones& zones) {
  if (auto cron = Cron::parse(schedule.expression); !cron)
    return refuse(fmt::format("schedule.expression: {}", cron.error().message));
  if (auto zone = zones.load(schedule.timezone); !zone) {
    if (zone.error().code != ErrorCode::kInvalid) return zone.error();
    return refuse(fmt::format("schedule.timezone: {}", zone.error().message));
  }
  if (schedule.late_seconds < kLateSecondsMin || schedule.late_seconds > kLateSecondsMax)
    return refuse(
        fmt::format("schedule.late_seconds: from {} to {}", kLateSecondsMin, kLateSecondsMax));
  return {};
}

Result<void> check_words(const DeploymentSpec& spec) {
  if (spec.name.empty() || spec.name.size() > kNameBytesMax || !is_valid_utf8(spec.name) ||
      has_control_characters(spec.name))
    return refuse(fmt::format("name: 1 to {} bytes of text in one line", kNameBytesMax));
  if (spec.description &&
      (spec.description->size() > kDescriptionBytesMax || !is_valid_utf8(*spec.description) ||
       spec.description->find('\0') != std::string::npos))
    return refuse(fmt::format("description: up to {} bytes of text", kDescriptionBytesMax));
  if (!is_id_text(spec.environment_id)) return refuse("environment_id: this is no id");
  return {};
}

}  // namespace

Result<std::string> agent_id_of(const std::string& agent) {
  const auto reference = TRY(parse("agent", agent, kSmallBytesMax));
  const auto id = reference.is_object() ? reference.find("id") : reference.end();
  const auto version = reference.is_object() ? reference.find("version") : reference.end();
  if (!reference.is_object() || id == reference.end() || !is_id(*id) ||
      version == reference.end() || !version->is_number_integer())
    return refuse("agent: it must be an object with an id and the number of a version");
  return id->get<std::string>();
}

Result<void> check_spec(const DeploymentSpec& spec, Zones& zones) {
  TRY_VOID(check_words(spec));
  TRY_VOID(agent_id_of(spec.agent));
  TRY_VOID(check_events(spec.initial_events));
  TRY_VOID(check_resources(spec.resources));
  TRY_VOID(check_vaults(spec.vault_ids));
  TRY_VOID(check_metadata(spec.metadata));
  if (spec.budget && !TRY(parse("budget", *spec.budget, kSmallBytesMax)).is_object())
    return refuse("budget: it must be an object");
  if (spec.schedule) TRY_VOID(check_schedule(*spec.schedule, zones));
  return {};
}

}  // namespace pons::schedule
