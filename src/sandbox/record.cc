#include "record.h"

#include <nlohmann/json.hpp>

#include "limit_rules.h"
#include "pons/sandbox/wire.h"
#include "template_store.h"

namespace pons::sandbox {

namespace {

Error senseless() {
  return make_error(ErrorCode::kInvalid, "read sandbox record", "it makes no sense");
}

Json layers_json(const Layers& layers) {
  Json json = Json::array();
  for (const auto& layer : layers) json.push_back({layer.sandbox, layer.number});
  return json;
}

Layers layers_of(const Json& json) {
  Layers layers;
  for (const Json& pair : json)
    layers.push_back(
        {.sandbox = pair.at(0).get<std::uint64_t>(), .number = pair.at(1).get<std::uint32_t>()});
  return layers;
}

Json view_json(const LayerView& view) {
  Json checkpoints = Json::array();
  for (const auto& checkpoint : view.checkpoints)
    checkpoints.push_back({{"name", checkpoint.name}, {"layers", layers_json(checkpoint.layers)}});
  Json json = {{"upper", view.upper},
               {"next", view.next},
               {"layers", layers_json(view.layers)},
               {"mounted", layers_json(view.mounted)},
               {"own", view.own},
               {"checkpoints", std::move(checkpoints)}};
  if (view.asked)
    json["asked"] = {view.asked->upper, layers_json(view.asked->below), view.asked->checkpoint};
  return json;
}

LayerView view_of(const Json& json, std::uint64_t key) {
  LayerView view{.sandbox = key,
                 .upper = json.at("upper").get<std::uint32_t>(),
                 .next = json.at("next").get<std::uint32_t>(),
                 .layers = layers_of(json.at("layers")),
                 .mounted = layers_of(json.at("mounted")),
                 .own = json.at("own").get<std::vector<std::uint32_t>>(),
                 .checkpoints = {}};
  for (const Json& checkpoint : json.at("checkpoints"))
    view.checkpoints.push_back({.name = checkpoint.at("name").get<std::string>(),
                                .layers = layers_of(checkpoint.at("layers"))});
  if (const auto asked = json.find("asked"); asked != json.end())
    view.asked = {.upper = asked->at(0).get<std::uint32_t>(),
                  .below = layers_of(asked->at(1)),
                  .checkpoint = asked->at(2).get<std::string>()};
  return view;
}

Json spec_json(const SandboxSpec& spec) {
  Json layers = Json::array();
  for (const auto& digest : spec.template_layers) layers.push_back(hex_of(digest));
  const auto& limits = spec.limits;
  return {{"template_layers", std::move(layers)},
          {"flags", spec.flags},
          {"limits",
           {limits.memory_bytes, limits.swap_bytes, limits.pids, limits.cpu_percent,
            limits.disk_bytes, limits.disk_inodes, limits.io_read_bytes, limits.io_write_bytes,
            limits.io_read_operations, limits.io_write_operations}}};
}

Result<SandboxSpec> spec_of(const Json& json) {
  SandboxSpec spec{.template_layers = {}, .flags = json.at("flags").get<std::uint32_t>()};
  for (const Json& layer : json.at("template_layers"))
    spec.template_layers.push_back(TRY(parse_digest(layer.get<std::string>())));
  auto numbers = json.at("limits").get<std::vector<std::uint64_t>>();
  // A record of a version that had no limits on io.
  if (numbers.size() == 6) numbers.resize(10, 0);
  if (numbers.size() != 10 || spec.template_layers.size() > spawner::kTemplateLayersMax)
    return senseless();
  spec.limits = {.memory_bytes = numbers[0],
                 .swap_bytes = numbers[1],
                 .pids = numbers[2],
                 .cpu_percent = numbers[3],
                 .disk_bytes = numbers[4],
                 .disk_inodes = numbers[5],
                 .io_read_bytes = numbers[6],
                 .io_write_bytes = numbers[7],
                 .io_read_operations = numbers[8],
                 .io_write_operations = numbers[9]};
  return spec;
}

Result<SandboxRecord> read(const Json& json) {
  SandboxRecord record;
  record.id = json.at("id").get<std::string>();
  TRY_VOID(check_sandbox_id(record.id));
  record.key = json.at("key").get<std::uint64_t>();
  record.template_name = json.at("template").get<std::string>();
  record.spec = TRY(spec_of(json.at("spec")));
  record.limits = TRY(from_json<Limits>(json.at("limits")));
  // A record of a version that kept none.
  if (json.contains("environment"))
    record.environment = json.at("environment").get<std::map<std::string, std::string>>();
  record.labels = json.at("labels").get<std::map<std::string, std::string>>();
  record.network = {.environment = json.at("network").at(0).get<std::string>(),
                    .policy = json.at("network").at(1).get<std::string>()};
  record.ephemeral = json.at("ephemeral").get<bool>();
  record.warm = json.at("warm").get<bool>();
  record.created_unix_ms = json.at("created_unix_ms").get<std::int64_t>();
  record.paused = json.at("paused").get<bool>();
  record.auto_frozen = json.at("auto_frozen").get<bool>();
  record.view = view_of(json.at("view"), record.key);
  for (const auto& [job, pending] : json.at("transactions").items())
    record.transactions[job] = {
        .checkpoint = pending.at(0).get<std::string>(),
        .kind = static_cast<Transaction>(pending.at(1).get<std::uint8_t>())};
  if (record.key == 0 || record.view.layers.size() > spawner::kOwnLayersMax) return senseless();
  return record;
}

}  // namespace

Json to_json(const SandboxRecord& record) {
  Json transactions = Json::object();
  for (const auto& [job, pending] : record.transactions)
    transactions[job] = {pending.checkpoint, static_cast<std::uint8_t>(pending.kind)};
  return {{"id", record.id},
          {"key", record.key},
          {"template", record.template_name},
          {"spec", spec_json(record.spec)},
          {"limits", to_json(record.limits)},
          {"environment", record.environment},
          {"labels", record.labels},
          {"network", {record.network.environment, record.network.policy}},
          {"ephemeral", record.ephemeral},
          {"warm", record.warm},
          {"created_unix_ms", record.created_unix_ms},
          {"paused", record.paused},
          {"auto_frozen", record.auto_frozen},
          {"view", view_json(record.view)},
          {"transactions", std::move(transactions)}};
}

Result<SandboxRecord> parse_record(const Json& json) {
  try {
    return read(json);
  } catch (const Json::exception&) {
    return senseless();
  }
}

}  // namespace pons::sandbox
