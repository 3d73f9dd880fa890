#include "pons/sandbox/wire.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/base64.h"
#include "pons/base/text.h"
#include "wire_fields.h"

namespace pons::sandbox {

namespace {

constexpr const char* kStep = "read sandbox JSON";
constexpr std::size_t kListMax = 65'536;
constexpr std::size_t kMapMax = 4096;
// Thirty years: far from every overflow of a deadline counted in nanoseconds.
constexpr std::int64_t kMillisecondsMax = 1'000'000'000'000;
constexpr std::size_t kShownBytesMax = 64;

// ---- names of enumerators, in the order of their values

template <class E>
struct Names;
template <>
struct Names<State> {
  static constexpr std::array<std::string_view, 3> kAll = {"running", "paused", "ended"};
};
template <>
struct Names<Transaction> {
  static constexpr std::array<std::string_view, 3> kAll = {"none", "rollback_on_failure",
                                                           "rollback_always"};
};
template <>
struct Names<Outcome> {
  static constexpr std::array<std::string_view, 7> kAll = {
      "running", "exit", "signal", "timeout", "oom", "output_limit", "interrupted"};
};
template <>
struct Names<Output::Stream> {
  static constexpr std::array<std::string_view, 2> kAll = {"output", "error"};
};
template <>
struct Names<FileKind> {
  static constexpr std::array<std::string_view, 4> kAll = {"other", "file", "directory", "link"};
};
template <>
struct Names<FileChange::Kind> {
  static constexpr std::array<std::string_view, 5> kAll = {"create", "write", "remove", "rename",
                                                           "mode"};
};

// ---- writing

Json text_json(const std::string& bytes) {
  if (is_valid_utf8(bytes)) return bytes;
  return {{"base64", base64_encode(bytes)}};
}

template <class T>
Json object_json(const T& value);

struct Writer {
  Json out = Json::object();

  void operator()(const char* key, const std::string& value) { out[key] = text_json(value); }
  void operator()(const char* key, Milliseconds value) { out[key] = value.count(); }
  void operator()(const char* key, const std::vector<std::string>& values) {
    Json& list = out[key] = Json::array();
    for (const std::string& value : values) list.push_back(text_json(value));
  }
  void operator()(const char* key, const std::map<std::string, std::string>& values) {
    Json& map = out[key] = Json::object();
    for (const auto& [name, value] : values) map[name] = text_json(value);
  }
  template <class T>
  void operator()(const char* key, const std::optional<T>& value) {
    if (value) (*this)(key, *value);
  }
  template <class T>
  void operator()(const char* key, const T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      out[key] = value;
    } else if constexpr (std::is_enum_v<T>) {
      out[key] = Names<T>::kAll.at(std::to_underlying(value));
    } else {
      out[key] = object_json(value);
    }
  }
};

template <class T>
Json object_json(const T& value) {
  Writer writer;
  visit(writer, value);
  return std::move(writer.out);
}

// ---- reading

Error wrong(std::string_view key, std::string_view what) {
  return make_error(ErrorCode::kInvalid, kStep, fmt::format("\"{}\" {}", key, what));
}

Result<std::string> read_text(std::string_view key, const Json& json) {
  if (json.is_string()) return json.get_ref<const std::string&>();
  if (json.is_object() && json.size() == 1 && json.contains("base64") &&
      json["base64"].is_string()) {
    if (auto bytes = base64_decode(json["base64"].get_ref<const std::string&>()))
      return std::move(*bytes);
    return wrong(key, "is no valid base64");
  }
  return wrong(key, "must be text");
}

template <class T>
Result<T> read_object(std::string_view name, const Json& json);

template <std::integral T>
Result<void> read_value(std::string_view key, const Json& json, T& out) {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
  if (json.is_number_unsigned()) {
    const auto value = json.get<std::uint64_t>();
    if (value > kMax) return wrong(key, "is too large");
    out = static_cast<T>(value);
  } else if (json.is_number_integer()) {
    const auto value = json.get<std::int64_t>();
    if (!std::in_range<T>(value)) return wrong(key, "is out of range");
    out = static_cast<T>(value);
  } else {
    return wrong(key, "must be a whole number");
  }
  return {};
}

Result<void> read_value(std::string_view key, const Json& json, bool& out) {
  if (!json.is_boolean()) return wrong(key, "must be true or false");
  out = json.get<bool>();
  return {};
}

Result<void> read_value(std::string_view key, const Json& json, double& out) {
  if (!json.is_number()) return wrong(key, "must be a number");
  out = json.get<double>();
  return {};
}

Result<void> read_value(std::string_view key, const Json& json, std::string& out) {
  out = TRY(read_text(key, json));
  return {};
}

Result<void> read_value(std::string_view key, const Json& json, Milliseconds& out) {
  std::int64_t count = 0;
  TRY_VOID(read_value(key, json, count));
  if (count < 0 || count > kMillisecondsMax)
    return wrong(key, fmt::format("must be 0 to {} milliseconds", kMillisecondsMax));
  out = Milliseconds(count);
  return {};
}

template <class E>
  requires std::is_enum_v<E>
Result<void> read_value(std::string_view key, const Json& json, E& out) {
  if (!json.is_string()) return wrong(key, "must be text");
  const auto& names = Names<E>::kAll;
  const auto found = std::ranges::find(names, json.get_ref<const std::string&>());
  if (found == names.end())
    return wrong(key, fmt::format("must be one of {}", fmt::join(names, ", ")));
  out = static_cast<E>(found - names.begin());
  return {};
}

Result<void> read_value(std::string_view key, const Json& json, std::vector<std::string>& out) {
  if (!json.is_array()) return wrong(key, "must be a list");
  if (json.size() > kListMax) return wrong(key, fmt::format("has more than {} entries", kListMax));
  out.clear();
  for (const Json& entry : json) out.push_back(TRY(read_text(key, entry)));
  return {};
}

Result<void> read_value(std::string_view key, const Json& json,
                        std::map<std::string, std::string>& out) {
  if (!json.is_object()) return wrong(key, "must be an object");
  if (json.size() > kMapMax) return wrong(key, fmt::format("has more than {} entries", kMapMax));
  out.clear();
  for (const auto& [name, value] : json.items()) out[name] = TRY(read_text(key, value));
  return {};
}

template <class T>
  requires std::is_class_v<T>
Result<void> read_value(std::string_view key, const Json& json, T& out) {
  out = TRY(read_object<T>(key, json));
  return {};
}

template <class T>
Result<void> read_value(std::string_view key, const Json& json, std::optional<T>& out) {
  return read_value(key, json, out.emplace());
}

// Keeps the first problem; the fields after it stay as they are.
struct Reader {
  const Json& json;
  Result<void> outcome = {};
  std::vector<std::string_view> known = {};
  std::size_t found = 0;

  template <class T>
  void operator()(const char* key, T& out) {
    known.emplace_back(key);
    const auto entry = json.find(key);
    if (entry == json.end()) return;
    ++found;
    if (outcome) outcome = read_value(key, *entry, out);
  }
};

Error unknown_key(const Reader& reader) {
  for (const auto& [key, value] : reader.json.items()) {
    if (std::ranges::find(reader.known, key) != reader.known.end()) continue;
    const auto nearest = nearest_match(key, reader.known);
    return make_error(ErrorCode::kInvalid, kStep,
                      fmt::format("there is no key \"{}\"{}", key.substr(0, kShownBytesMax),
                                  nearest ? fmt::format("; did you mean \"{}\"?", *nearest) : ""));
  }
  return make_error(ErrorCode::kInvalid, kStep, "a key appears twice");
}

template <class T>
Result<T> read_object(std::string_view name, const Json& json) {
  if (!json.is_object()) return wrong(name, "must be an object");
  T value;
  Reader reader{.json = json};
  visit(reader, value);
  TRY_VOID(std::move(reader.outcome));
  if (reader.found != json.size()) return unknown_key(reader);
  return value;
}

}  // namespace

std::string_view name_of(State value) {
  return Names<State>::kAll.at(std::to_underlying(value));
}
std::string_view name_of(Outcome value) {
  return Names<Outcome>::kAll.at(std::to_underlying(value));
}
std::string_view name_of(FileKind value) {
  return Names<FileKind>::kAll.at(std::to_underlying(value));
}

Json to_json(const Limits& value) {
  return object_json(value);
}
Json to_json(const Weakening& value) {
  return object_json(value);
}
Json to_json(const TemplateInfo& value) {
  return object_json(value);
}
Json to_json(const CreateRequest& value) {
  return object_json(value);
}
Json to_json(const SandboxInfo& value) {
  return object_json(value);
}
Json to_json(const Metrics& value) {
  return object_json(value);
}
Json to_json(const TerminalSize& value) {
  return object_json(value);
}
Json to_json(const JobSpec& value) {
  return object_json(value);
}
Json to_json(const RunRequest& value) {
  return object_json(value);
}
Json to_json(const JobInfo& value) {
  return object_json(value);
}
Json to_json(const Output& value) {
  return object_json(value);
}
Json to_json(const JobStarted& value) {
  return object_json(value);
}
Json to_json(const JobEvent& value) {
  if (const auto* started = std::get_if<JobStarted>(&value))
    return {{"started", to_json(*started)}};
  if (const auto* output = std::get_if<Output>(&value)) return {{"output", to_json(*output)}};
  return {{"ended", to_json(std::get<JobInfo>(value))}};
}
Json to_json(const FileInfo& value) {
  return object_json(value);
}
Json to_json(const FileChange& value) {
  return object_json(value);
}

template <>
Result<Limits> from_json(const Json& json) {
  return read_object<Limits>("limits", json);
}
template <>
Result<Weakening> from_json(const Json& json) {
  return read_object<Weakening>("weakening", json);
}
template <>
Result<TemplateInfo> from_json(const Json& json) {
  return read_object<TemplateInfo>("template", json);
}
template <>
Result<CreateRequest> from_json(const Json& json) {
  return read_object<CreateRequest>("request", json);
}
template <>
Result<SandboxInfo> from_json(const Json& json) {
  return read_object<SandboxInfo>("sandbox", json);
}
template <>
Result<Metrics> from_json(const Json& json) {
  return read_object<Metrics>("metrics", json);
}
template <>
Result<TerminalSize> from_json(const Json& json) {
  return read_object<TerminalSize>("size", json);
}
template <>
Result<JobSpec> from_json(const Json& json) {
  return read_object<JobSpec>("job", json);
}
template <>
Result<RunRequest> from_json(const Json& json) {
  return read_object<RunRequest>("request", json);
}
template <>
Result<JobInfo> from_json(const Json& json) {
  return read_object<JobInfo>("job", json);
}
template <>
Result<Output> from_json(const Json& json) {
  auto output = TRY(read_object<Output>("output", json));
  if (output.lost > output.offset) return wrong("lost", "is more than came before");
  if (output.bytes.size() > std::numeric_limits<std::uint64_t>::max() - output.offset)
    return wrong("offset", "is too large");
  return output;
}
template <>
Result<JobStarted> from_json(const Json& json) {
  return read_object<JobStarted>("started", json);
}
template <>
Result<JobEvent> from_json(const Json& json) {
  if (json.is_object() && json.size() == 1) {
    if (json.contains("output")) return JobEvent(TRY(from_json<Output>(json["output"])));
    if (json.contains("started")) return JobEvent(TRY(from_json<JobStarted>(json["started"])));
    if (json.contains("ended")) return JobEvent(TRY(from_json<JobInfo>(json["ended"])));
  }
  return make_error(ErrorCode::kInvalid, kStep,
                    "an event of a job is {\"started\":…}, {\"output\":…} or {\"ended\":…}");
}
template <>
Result<FileInfo> from_json(const Json& json) {
  return read_object<FileInfo>("file", json);
}
template <>
Result<FileChange> from_json(const Json& json) {
  return read_object<FileChange>("change", json);
}

}  // namespace pons::sandbox
