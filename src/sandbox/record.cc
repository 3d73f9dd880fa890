#include "record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "limit_rules.h"
#include "pons/base/log.h"
#include "pons/base/text.h"
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
  return {{"upper", view.upper},
          {"next", view.next},
          {"layers", layers_json(view.layers)},
          {"mounted", layers_json(view.mounted)},
          {"own", view.own},
          {"checkpoints", std::move(checkpoints)}};
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
            limits.disk_bytes, limits.disk_inodes}}};
}

Result<SandboxSpec> spec_of(const Json& json) {
  SandboxSpec spec{.template_layers = {}, .flags = json.at("flags").get<std::uint32_t>()};
  for (const Json& layer : json.at("template_layers"))
    spec.template_layers.push_back(TRY(parse_digest(layer.get<std::string>())));
  const auto numbers = json.at("limits").get<std::vector<std::uint64_t>>();
  if (numbers.size() != 6 || spec.template_layers.size() > spawner::kTemplateLayersMax)
    return senseless();
  spec.limits = {.memory_bytes = numbers[0],
                 .swap_bytes = numbers[1],
                 .pids = numbers[2],
                 .cpu_percent = numbers[3],
                 .disk_bytes = numbers[4],
                 .disk_inodes = numbers[5]};
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
  record.labels = json.at("labels").get<std::map<std::string, std::string>>();
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
          {"labels", record.labels},
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

// ---- the file

namespace {

constexpr std::size_t kPlaceBytes = 1 << 20;
constexpr std::size_t kFreeMax = 64;

struct PlaceHeader {
  std::uint64_t number;  // the higher one is newer
  std::uint64_t size;
  std::uint64_t sum;
};

// Tells a piece that was cut off from a whole one; nobody forges files of the warden.
std::uint64_t sum_of(std::string_view text) {
  std::uint64_t sum = 0xcbf2'9ce4'8422'2325;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 0x0000'0100'0000'01b3;
  return sum;
}

struct Place {
  std::uint64_t number = 0;
  std::string text;
};

constexpr off_t offset_of(std::uint64_t place) {
  return static_cast<off_t>(place) * static_cast<off_t>(kPlaceBytes);
}

Place read_place(int file, std::uint64_t index) {
  const off_t at = offset_of(index);
  PlaceHeader header{};
  if (pread(file, &header, sizeof header, at) != sizeof header ||
      header.size > kPlaceBytes - sizeof header)
    return {};
  Place place{.number = header.number, .text = std::string(header.size, '\0')};
  const ssize_t got = pread(file, place.text.data(), place.text.size(), at + sizeof header);
  if (got != static_cast<ssize_t>(place.text.size()) || sum_of(place.text) != header.sum) return {};
  return place;
}

}  // namespace

Result<void> Note::write(const SandboxRecord& record) {
  const std::string text = dump_json(to_json(record));
  if (text.size() > kPlaceBytes - sizeof(PlaceHeader))
    return make_error(ErrorCode::kLimit, "write sandbox record", "it is too long");
  const std::uint64_t number = number_ + 1;
  const PlaceHeader header{.number = number, .size = text.size(), .sum = sum_of(text)};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += text;
  if (pwrite(file_.get(), bytes.data(), bytes.size(), offset_of(number % 2)) !=
      static_cast<ssize_t>(bytes.size()))
    return os_error("write sandbox record", name_);
  number_ = number;  // and not before: the other place holds the only good one
  return {};
}

Result<Note> Notes::open(const std::string& name, int more_flags) const {
  auto file = TRY(linux::open_file(fmt::format("{}/{}", directory_, name),
                                   O_RDWR | O_NOFOLLOW | more_flags, 0600));
  return Note(name, std::move(file));
}

std::vector<Noted> Notes::load() {
  std::vector<Noted> all;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    const std::string name = entry.path().filename();
    const auto number = parse_decimal(name);
    auto note = number ? open(name, 0) : Result<Note>(os_error("open note", name, EINVAL));
    if (!note) {
      LOG_WARN("a file of record makes no sense", {"file", name});
      unlink(entry.path().c_str());
      continue;
    }
    next_name_ = std::max(next_name_, *number + 1);
    Place newest = read_place(note->file_.get(), 0);
    if (Place other = read_place(note->file_.get(), 1); other.number > newest.number)
      newest = std::move(other);
    note->number_ = newest.number;
    const auto json = parse_json(newest.text, {.bytes = kPlaceBytes});
    auto record = json ? parse_record(*json) : Result<SandboxRecord>(json.error());
    if (record) {
      all.push_back({.record = std::move(*record), .note = std::move(*note)});
      continue;
    }
    if (newest.number != 0) LOG_WARN("a file of record makes no sense", {"file", name});
    give_back(std::move(*note));
  }
  return all;
}

Result<Note> Notes::take() {
  if (free_.empty()) return open(std::to_string(next_name_++), O_CREAT | O_EXCL);
  Note note = std::move(free_.back());
  free_.pop_back();
  return note;
}

void Notes::give_back(Note note) {
  if (!note) return;
  const PlaceHeader nothing{};
  bool empty = true;
  // The older one first: it must never count again.
  for (const std::uint64_t place : {(note.number_ + 1) % 2, note.number_ % 2})
    empty =
        pwrite(note.file_.get(), &nothing, sizeof nothing, offset_of(place)) == sizeof nothing &&
        empty;
  note.number_ = 0;
  if (empty && free_.size() < kFreeMax)
    free_.push_back(std::move(note));
  else
    unlink(fmt::format("{}/{}", directory_, note.name_).c_str());
}

}  // namespace pons::sandbox
