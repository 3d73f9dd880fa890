#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/config/config.h"
#include "substitution.h"
#include "table.h"
#include "yaml_tree.h"

namespace pons::config {

namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

Json table_to_json(const Table& table, const void* object);

Json value_to_json(const Field& field, const void* object) {
  return std::visit(Overloaded{
                        [&](const IntegerType& type) { return Json(type.get(object)); },
                        [&](const ChoiceType& type) { return Json(type.words[type.get(object)]); },
                        [&](const TextType& type) { return Json(type.get(object)); },
                        [&](const SectionType& type) {
                          return table_to_json(*type.table, type.const_member(object));
                        },
                        [&](const NamedSectionsType& type) {
                          Json entries = Json::object();
                          for (const auto& [name, entry] : type.entries(object))
                            entries[name] = table_to_json(*type.table, entry);
                          return entries;
                        },
                        [&](const NamedDocumentsType& type) {
                          Json entries = Json::object();
                          for (const auto& [name, document] : type.entries(object))
                            entries[name] = Json::parse(document);
                          return entries;
                        },
                    },
                    field.type);
}

Json table_to_json(const Table& table, const void* object) {
  Json out = Json::object();
  for (const Field& field : table.fields)
    out[std::string(field.key)] = value_to_json(field, object);
  return out;
}

// A default can be written down unless it depends on the machine or does not exist.
bool has_fixed_default(const Field& field) {
  return field.notes.presence == Presence::kOptional && field.notes.default_text.empty();
}

// ---- JSON Schema

Json table_schema(const Table& table, const void* defaults);

// An editor sees the file before substitution.
Json text_or_substitution(Json schema) {
  return Json{{"anyOf", Json::array({std::move(schema), {{"$ref", "#/$defs/substitution"}}})}};
}

Json type_schema(const Field& field, const void* defaults) {
  return std::visit(
      Overloaded{
          [](const IntegerType& type) {
            return Json{
                {"type", "integer"}, {"minimum", type.range.min}, {"maximum", type.range.max}};
          },
          [](const ChoiceType& type) { return text_or_substitution({{"enum", type.words}}); },
          [](const TextType& type) {
            Json schema =
                text_or_substitution({{"type", "string"}, {"pattern", type.rule.pattern}});
            schema["examples"] = Json::array({type.rule.example});
            return schema;
          },
          [&](const SectionType& type) {
            return table_schema(*type.table, type.const_member(defaults));
          },
          [](const NamedSectionsType& type) {
            return Json{{"type", "object"},
                        {"propertyNames", {{"pattern", type.name_rule.pattern}}},
                        {"additionalProperties", table_schema(*type.table, nullptr)}};
          },
          [](const NamedDocumentsType& type) {
            return Json{{"type", "object"},
                        {"propertyNames", {{"pattern", type.name_rule.pattern}}},
                        {"additionalProperties", {{"type", "object"}}}};
          },
      },
      field.type);
}

Json field_schema(const Field& field, const void* defaults) {
  std::string description(field.doc);
  if (!field.notes.default_text.empty())
    description += fmt::format(" Default: {}.", field.notes.default_text);
  Json schema = {{"description", std::move(description)}};
  schema.update(type_schema(field, defaults));
  if (defaults != nullptr && has_fixed_default(field) &&
      !std::holds_alternative<SectionType>(field.type))
    schema["default"] = value_to_json(field, defaults);
  return schema;
}

// `defaults` is an object of the table's struct, or null where no field has a default.
Json table_schema(const Table& table, const void* defaults) {
  Json properties = Json::object();
  Json required = Json::array();
  for (const Field& field : table.fields) {
    properties[std::string(field.key)] = field_schema(field, defaults);
    if (field.notes.presence == Presence::kRequired) required.push_back(field.key);
  }
  Json schema = {
      {"type", "object"}, {"additionalProperties", false}, {"properties", std::move(properties)}};
  if (!required.empty()) schema["required"] = std::move(required);
  return schema;
}

// ---- Markdown

std::string default_cell(const Field& field, const void* defaults) {
  if (field.notes.presence == Presence::kRequired) return "required";
  if (!field.notes.default_text.empty()) return std::string(field.notes.default_text);
  if (std::holds_alternative<SectionType>(field.type)) return "see below";
  const Json value = value_to_json(field, defaults);
  if (value.empty() && value.is_object()) return "none";
  return fmt::format("`{}`", value.is_string() ? value.get<std::string>() : dump_json(value));
}

std::string table_markdown(const Table& table, const void* defaults) {
  std::string out = "| Key | Value | Default | Meaning |\n|---|---|---|---|\n";
  for (const Field& field : table.fields)
    out += fmt::format("| `{}` | {} | {} | {} |\n", field.key, expected_value(field),
                       default_cell(field, defaults), field.doc);
  for (const Rule& rule : table.rules) out += fmt::format("\n`{}` {}.\n", rule.key, rule.promise);
  return out;
}

std::string sections_markdown(const Table& table, const void* defaults) {
  std::string out;
  for (const Field& field : table.fields) {
    if (const auto* type = std::get_if<SectionType>(&field.type))
      out += fmt::format("\n### {}\n\n{}\n\n{}", field.key, field.doc,
                         table_markdown(*type->table, type->const_member(defaults)));
    if (const auto* type = std::get_if<NamedSectionsType>(&field.type))
      out += fmt::format("\n### {}\n\n{} Each name is made of {}, and has:\n\n{}", field.key,
                         field.doc, type->name_rule.what, table_markdown(*type->table, nullptr));
    if (const auto* type = std::get_if<NamedDocumentsType>(&field.type))
      out += fmt::format(
          "\n### {}\n\n{} Each name is made of {}; [{}]({}) says what stands below it.\n",
          field.key, field.doc, type->name_rule.what, type->described_in, type->described_in);
  }
  return out;
}

bool is_comment(const Field& field) {
  return !std::holds_alternative<SectionType>(field.type) && !has_fixed_default(field);
}

// The file that says what an empty one means. What depends on the machine stands in a comment.
std::string defaults_yaml(const Table& table, const void* defaults, const std::string& indent) {
  std::string out;
  for (const Field& field : table.fields) {
    if (const auto* type = std::get_if<SectionType>(&field.type)) {
      // A key with nothing but comments below it would be one without a value.
      out += fmt::format(
          "{}{}{}:\n{}", indent, std::ranges::all_of(type->table->fields, is_comment) ? "# " : "",
          field.key, defaults_yaml(*type->table, type->const_member(defaults), indent + "  "));
      continue;
    }
    const Json value = value_to_json(field, defaults);
    const std::string shown = !has_fixed_default(field) ? std::string(field.notes.default_text)
                              : value.is_string()       ? value.get<std::string>()
                                                        : dump_json(value);
    out += fmt::format("{}{}{}: {}\n", indent, is_comment(field) ? "# " : "", field.key, shown);
  }
  return out;
}

constexpr std::string_view kIntroduction = R"(# Configuration

Pons reads one YAML file, `pons.yaml`. Every key has a default: an empty file, or none, is a complete
configuration. Editors that know JSON Schema can check the file while you type with
[pons.schema.json](pons.schema.json).

This page is made from the program (`src/config/fields.cc`); a test keeps the two equal.

## Keys

)";

constexpr std::string_view kRules = R"(
## Values from outside: `${{env:NAME}}` and `${{file:PATH}}`

Any text value may contain them, also several times. Keys and numbers may not.

- `${{env:NAME}}` is the environment variable `NAME`. One that is not set is an error.
- `${{file:PATH}}` is the content of a regular file without its last line break. A relative path starts
  in the directory of the configuration file. A file that cannot be read is an error.
- `$${{` stands for the two characters `${{`.
- What was put in is not searched again, and has at most {substituted_kib} KiB.
- Inside `{{ }}` YAML needs quotes around them: `{{allowed_host: "${{env:API_HOST}}"}}`.
- A value that came from outside is never shown in a message.

## How the file is read

- An unknown key, a wrong type or a value out of range stops the start; all problems are listed with
  line and column, {issues} at most.
- Types are strict. A number is written with decimal digits only: `"7600"`, `0x10`, `010`, `1e3` and
  `1_000` are not numbers.
- A key without a value is an error; remove the key to get the default.
- A key may stand once. Anchors, aliases, custom tags and a second document are refused.
- The file is UTF-8 text with at most {mib} MiB, {nodes} values and {depth} levels.
)";

}  // namespace

Json config_to_json(const Config& config) {
  return table_to_json(config_table(), &config);
}

std::string config_json_schema() {
  const Config defaults;
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "pons.yaml"},
                 {"description", "The configuration of Pons."}};
  schema.update(table_schema(config_table(), &defaults));
  schema["type"] = Json::array({"object", "null"});  // an empty file is a configuration
  schema["$defs"] = {{"substitution",
                      {{"description", "Text with ${env:NAME} or ${file:PATH} in it."},
                       {"type", "string"},
                       {"pattern", R"(\$\{(env|file):[^}]+\})"}}}};
  return schema.dump(2) + "\n";
}

std::string config_reference_markdown() {
  const Config defaults;
  std::string out(kIntroduction);
  out += table_markdown(config_table(), &defaults);
  out += sections_markdown(config_table(), &defaults);
  out += fmt::format("\n## The defaults as a file\n\n```yaml\n{}```\n",
                     defaults_yaml(config_table(), &defaults, ""));
  out += fmt::format(kRules, fmt::arg("substituted_kib", kSubstitutedBytesMax / 1024),
                     fmt::arg("issues", kIssuesMax), fmt::arg("mib", kYamlBytesMax >> 20),
                     fmt::arg("nodes", kYamlNodesMax), fmt::arg("depth", kYamlDepthMax));
  return out;
}

}  // namespace pons::config
