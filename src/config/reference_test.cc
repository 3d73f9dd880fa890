#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/config/config.h"
#include "table.h"

namespace pons::config {
namespace {

using ::testing::HasSubstr;

// The committed file; rewritten first when the person running the test asks for it.
std::string committed(const std::string& name, const std::string& generated) {
  const std::string path = std::string(PONS_SOURCE_DIR) + "/docs/use/" + name;
  if (std::getenv("PONS_WRITE_REFERENCE") != nullptr)
    std::ofstream(path, std::ios::binary) << generated;
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

constexpr const char* kHowToRefresh =
    "the description changed; run config_test with PONS_WRITE_REFERENCE=1 and commit docs/use";

// Calls visit(field) for every field of every table.
template <class Visit>
void for_each_field(const Table& table, const Visit& visit) {
  for (const Field& field : table.fields) {
    visit(field);
    if (const auto* type = std::get_if<SectionType>(&field.type))
      for_each_field(*type->table, visit);
    if (const auto* type = std::get_if<NamedSectionsType>(&field.type))
      for_each_field(*type->table, visit);
  }
}

Json schema() {
  return Json::parse(config_json_schema());
}

// The part of draft 2020-12 the schema uses; an unknown keyword fails the test that meets it.
bool validates(const Json& rule, const Json& value) {
  for (const auto& [keyword, want] : rule.items()) {
    bool good = true;
    if (keyword == "description" || keyword == "default" || keyword == "examples" ||
        keyword == "title" || keyword == "$schema" || keyword == "$defs") {
      continue;
    } else if (keyword == "type") {
      const auto is_type = [&](const std::string& name) {
        return name == "object"    ? value.is_object()
               : name == "string"  ? value.is_string()
               : name == "integer" ? value.is_number_integer()
               : name == "null"    ? value.is_null()
                                   : false;
      };
      good = want.is_string() ? is_type(want) : std::ranges::any_of(want, is_type);
    } else if (keyword == "anyOf") {
      good = std::ranges::any_of(want, [&](const Json& one) { return validates(one, value); });
    } else if (keyword == "$ref") {
      EXPECT_EQ(want, "#/$defs/substitution");
      good = validates(schema()["$defs"]["substitution"], value);
    } else if (keyword == "enum") {
      good = std::ranges::find(want, value) != want.end();
    } else if (keyword == "pattern") {
      good = !value.is_string() ||
             std::regex_search(value.get<std::string>(), std::regex(want.get<std::string>()));
    } else if (keyword == "minimum") {
      good = !value.is_number() || value >= want;
    } else if (keyword == "maximum") {
      good = !value.is_number() || value <= want;
    } else if (keyword == "required") {
      good = std::ranges::all_of(
          want, [&](const Json& key) { return value.contains(key.get<std::string>()); });
    } else if (keyword == "properties") {
      for (const auto& [key, one] : value.items())
        good = good && (!want.contains(key) || validates(want[key], one));
    } else if (keyword == "additionalProperties") {
      for (const auto& [key, one] : value.items()) {
        if (rule.contains("properties") && rule["properties"].contains(key)) continue;
        good = good && want.is_object() && validates(want, one);
      }
    } else if (keyword == "propertyNames") {
      for (const auto& [key, one] : value.items()) good = good && validates(want, Json(key));
    } else {
      ADD_FAILURE() << "the schema uses " << keyword << ", which this test does not know";
    }
    if (!good) return false;
  }
  return true;
}

TEST(Reference, CommittedMarkdownIsTheGeneratedOne) {
  const std::string generated = config_reference_markdown();
  EXPECT_EQ(committed("configuration.md", generated), generated) << kHowToRefresh;
}

TEST(Reference, CommittedSchemaIsTheGeneratedOne) {
  const std::string generated = config_json_schema();
  EXPECT_EQ(committed("pons.schema.json", generated), generated) << kHowToRefresh;
}

TEST(Reference, EveryFieldHasASentenceAndStandsInTheReference) {
  const std::string reference = config_reference_markdown();
  int fields = 0;
  for_each_field(config_table(), [&](const Field& field) {
    ++fields;
    EXPECT_GE(field.doc.size(), 20u) << field.key;
    EXPECT_TRUE(field.doc.ends_with('.')) << field.key;
    EXPECT_TRUE(field.doc[0] >= 'A' && field.doc[0] <= 'Z') << field.key;
    EXPECT_FALSE(field.doc.contains('|')) << field.key << ": would break its Markdown table";
    EXPECT_THAT(reference, HasSubstr("| `" + std::string(field.key) + "` |"));
    EXPECT_THAT(reference, HasSubstr(std::string(field.doc)));
  });
  EXPECT_EQ(fields, 67);
}

TEST(Reference, DefaultsAsAFileLoadToTheDefaults) {
  const std::string reference = config_reference_markdown();
  const auto begin = reference.find("```yaml\n") + 8;
  const std::string yaml = reference.substr(begin, reference.find("```", begin) - begin);
  EXPECT_THAT(yaml, HasSubstr("\n  connections: 1024\n"));
  const auto result = load_config_text(yaml, "defaults.yaml");
  ASSERT_TRUE(result) << result.error()[0].describe();
  EXPECT_EQ(result->config, Config{});
}

TEST(Reference, DefaultsLieInTheirRanges) {
  const Config defaults;
  EXPECT_TRUE(validates(schema(), config_to_json(defaults)));
}

TEST(Reference, DoesNotDependOnWhoRunsIt) {
  EXPECT_THAT(config_reference_markdown(), HasSubstr("/var/lib/pons as root, otherwise"));
  EXPECT_FALSE(schema()["properties"]["state_dir"].contains("default"));
}

TEST(Schema, ExamplesAreAcceptedByTheSchemaAndByTheLoader) {
  for_each_field(config_table(), [&](const Field& field) {
    const auto* type = std::get_if<TextType>(&field.type);
    if (type == nullptr) return;
    EXPECT_TRUE(std::regex_search(std::string(type->rule.example),
                                  std::regex(std::string(type->rule.pattern))))
        << field.key;
  });
  for (const char* yaml :
       {"listen: 127.0.0.1:7600", "listen: '[::1]:0'", "state_dir: /var/lib/pons",
        "credentials: {GITHUB_TOKEN: {allowed_host: api.github.com}}", "harness: opencode"}) {
    const auto result = load_config_text(yaml, "example.yaml");
    ASSERT_TRUE(result) << yaml;
    EXPECT_TRUE(validates(schema(), config_to_json(result->config))) << yaml;
  }
}

TEST(Schema, AcceptsAnEmptyFileAndSubstitutions) {
  EXPECT_TRUE(validates(schema(), Json()));
  EXPECT_TRUE(validates(schema(), Json::object()));
  EXPECT_TRUE(validates(schema(), {{"listen", "127.0.0.1:${env:PORT}"}}));
  EXPECT_TRUE(validates(schema(), {{"log", {{"level", "${file:level}"}}}}));
}

TEST(Schema, RefusesWhatTheLoaderRefuses) {
  EXPECT_FALSE(validates(schema(), {{"lisen", "127.0.0.1:1"}}));
  EXPECT_FALSE(validates(schema(), {{"listen", "localhost:1"}}));
  EXPECT_FALSE(validates(schema(), {{"state_dir", "relative"}}));
  EXPECT_FALSE(validates(schema(), {{"log", {{"level", "loud"}}}}));
  EXPECT_FALSE(validates(schema(), {{"log", nullptr}}));
  EXPECT_FALSE(validates(schema(), {{"limits", {{"connections", 0}}}}));
  EXPECT_FALSE(validates(schema(), {{"limits", {{"connections", "5"}}}}));
  EXPECT_FALSE(validates(schema(), {{"limits", {{"connections", 5.5}}}}));
  EXPECT_FALSE(validates(schema(), {{"supervisor", {{"drain_seconds", 61}}}}));
  EXPECT_FALSE(validates(schema(), {{"credentials", {{"A", Json::object()}}}}));
  EXPECT_FALSE(validates(schema(), {{"credentials", {{"a", {{"allowed_host", "a.b"}}}}}}));
  EXPECT_FALSE(validates(schema(), {{"credentials", {{"A", {{"allowed_host", "*.a.b"}}}}}}));
  EXPECT_FALSE(validates(schema(), {{"credentials", {{"A", {{"allowed_host", "10.0.0.1"}}}}}}));
}

TEST(ConfigJson, ShowsEffectiveValues) {
  const auto result = load_config_text(
      "listen: '[::1]:1'\nlog: {level: warn}\ncredentials: {A: {allowed_host: a.b}}\n", "p.yaml");
  ASSERT_TRUE(result);
  const Json json = config_to_json(result->config);
  EXPECT_EQ(json["listen"], "[::1]:1");
  EXPECT_EQ(json["log"], (Json{{"level", "warn"}, {"format", "auto"}, {"requests", "all"}}));
  EXPECT_EQ(json["limits"]["header_bytes"], 16384);
  EXPECT_EQ(json["credentials"], (Json{{"A", {{"allowed_host", "a.b"}}}}));
  EXPECT_EQ(json["harness"], "native");
  EXPECT_EQ(json["confinement"]["landlock"], "required");
}

}  // namespace
}  // namespace pons::config
