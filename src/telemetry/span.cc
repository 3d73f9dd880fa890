#include "pons/telemetry/span.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/json_place.h"
#include "pons/base/text.h"

namespace pons::telemetry {

namespace {

constexpr std::size_t kTraceDigits = 32;
constexpr std::size_t kSpanDigits = 16;
constexpr std::size_t kMessageBytesMax = std::size_t{2} << 20;
constexpr std::size_t kAttributesMax = 40;
constexpr std::size_t kTextBytesMax = 512;
constexpr std::size_t kEntriesMax = 16;
constexpr std::uint64_t kLatestMs = 4'102'444'800'000;  // the year 2100

// The names by which the words are known to whoever reads the attributes.
constexpr std::string_view kSchema = "https://opentelemetry.io/schemas/1.41.0";

Result<std::string> id_at(const JsonPlace& place, std::size_t digits) {
  std::string id = TRY(place.text());
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (id.size() != digits || !std::ranges::all_of(id, is_digit))
    return place.refuse(fmt::format("must be {} hexadecimal digits", digits));
  return id;
}

Result<std::string> text_at(const JsonPlace& place) {
  std::string text = TRY(place.text());
  if (text.size() > kTextBytesMax) return place.refuse("is too long");
  return text;
}

Result<Span::Value> value_at(const JsonPlace& place) {
  if (place.value.is_number_integer()) return Span::Value(place.value.get<std::int64_t>());
  if (place.value.is_number_float()) return Span::Value(place.value.get<double>());
  if (place.value.is_string()) return Span::Value(TRY(text_at(place)));
  TRY_VOID(place.expect_list(kEntriesMax));
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < place.value.size(); ++i) texts.push_back(TRY(text_at(place.at(i))));
  return Span::Value(std::move(texts));
}

Result<Span> read_span(const JsonPlace& place) {
  TRY_VOID(place.expect_object(
      {"trace", "span", "parent", "name", "client", "begun", "ended", "failed", "attributes"}));
  for (const char* key : {"trace", "span", "name", "begun", "ended", "attributes"})
    if (!place.has(key)) return place.refuse(fmt::format("\"{}\" is missing", key));
  Span span{.trace_id = TRY(id_at(place.at("trace"), kTraceDigits)),
            .span_id = TRY(id_at(place.at("span"), kSpanDigits)),
            .name = TRY(text_at(place.at("name")))};
  if (place.has("parent")) span.parent_id = TRY(id_at(place.at("parent"), kSpanDigits));
  if (place.has("client") && TRY(place.at("client").flag())) span.kind = Span::Kind::kClient;
  if (place.has("failed")) span.failed = TRY(place.at("failed").flag());
  span.begun_ms = static_cast<std::int64_t>(TRY(place.at("begun").number(0, kLatestMs)));
  span.ended_ms = static_cast<std::int64_t>(TRY(place.at("ended").number(0, kLatestMs)));
  const JsonPlace attributes = place.at("attributes");
  if (!attributes.value.is_object() || attributes.value.size() > kAttributesMax)
    return attributes.refuse("must be an object of some attributes");
  for (const auto& [name, value] : attributes.value.items())
    span.attributes.emplace_back(name, TRY(value_at(attributes.at(name))));
  return span;
}

Json value_json(const Span::Value& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

// Whole numbers are text in JSON of protocol buffers: some readers have no other that are large.
Json otlp_value(const Span::Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return {{"stringValue", *text}};
  if (const auto* whole = std::get_if<std::int64_t>(&value))
    return {{"intValue", std::to_string(*whole)}};
  if (const auto* number = std::get_if<double>(&value)) return {{"doubleValue", *number}};
  Json values = Json::array();
  for (const std::string& text : std::get<std::vector<std::string>>(value))
    values.push_back({{"stringValue", text}});
  return {{"arrayValue", {{"values", std::move(values)}}}};
}

Json otlp_attribute(const std::string& name, const Span::Value& value) {
  return {{"key", name}, {"value", otlp_value(value)}};
}

Json otlp_span(const Span& span) {
  const auto nanoseconds = [](std::int64_t ms) { return fmt::format("{}000000", ms); };
  constexpr int kError = 2;
  Json json = {{"traceId", span.trace_id}, {"spanId", span.span_id}};
  if (!span.parent_id.empty()) json["parentSpanId"] = span.parent_id;
  json["name"] = span.name;
  json["kind"] = static_cast<int>(span.kind);
  json["startTimeUnixNano"] = nanoseconds(span.begun_ms);
  json["endTimeUnixNano"] = nanoseconds(span.ended_ms);
  json["attributes"] = Json::array();
  for (const auto& [name, value] : span.attributes)
    json["attributes"].push_back(otlp_attribute(name, value));
  json["status"] = span.failed ? Json{{"code", kError}} : Json::object();
  return json;
}

}  // namespace

const Span::Value* Span::find(std::string_view attribute) const {
  for (const auto& [key, value] : attributes)
    if (key == attribute) return &value;
  return nullptr;
}

std::string trace_id_of(std::string_view words) {
  return sha256_hex(fmt::format("trace:{}", words)).substr(0, kTraceDigits);
}

std::string span_id_of(std::string_view words) {
  return sha256_hex(fmt::format("span:{}", words)).substr(0, kSpanDigits);
}

Json to_json(const std::vector<Span>& spans) {
  Json list = Json::array();
  for (const Span& span : spans) {
    Json json = {{"trace", span.trace_id}, {"span", span.span_id},
                 {"name", span.name},      {"client", span.kind == Span::Kind::kClient},
                 {"begun", span.begun_ms}, {"ended", span.ended_ms},
                 {"failed", span.failed},  {"attributes", Json::object()}};
    if (!span.parent_id.empty()) json["parent"] = span.parent_id;
    for (const auto& [name, value] : span.attributes) json["attributes"][name] = value_json(value);
    list.push_back(std::move(json));
  }
  return {{"spans", std::move(list)}};
}

Result<std::vector<Span>> read_spans(std::string_view text) {
  constexpr std::size_t kDepth = 6;
  const Json document = TRY(parse_json(text, {.depth = kDepth, .bytes = kMessageBytesMax}));
  const JsonPlace place{.value = document, .pointer = {}};
  TRY_VOID(place.expect_object({"spans"}));
  if (!place.has("spans")) return place.refuse("\"spans\" is missing");
  const JsonPlace list = place.at("spans");
  TRY_VOID(list.expect_list(kSpansMax));
  std::vector<Span> spans;
  for (std::size_t i = 0; i < list.value.size(); ++i) spans.push_back(TRY(read_span(list.at(i))));
  return spans;
}

std::string write_otlp(const std::vector<Span>& spans, std::string_view version) {
  Json list = Json::array();
  for (const Span& span : spans) list.push_back(otlp_span(span));
  const Json resource = {
      {"attributes",
       Json::array({otlp_attribute("service.name", Span::Value("pons")),
                    otlp_attribute("service.version", Span::Value(std::string(version)))})}};
  const Json scope = {{"name", "pons"}, {"version", version}};
  return dump_json({{"resourceSpans",
                     Json::array({Json{{"resource", resource},
                                       {"scopeSpans", Json::array({Json{{"scope", scope},
                                                                        {"spans", std::move(list)},
                                                                        {"schemaUrl", kSchema}}})},
                                       {"schemaUrl", kSchema}}})}});
}

}  // namespace pons::telemetry
