#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "values.h"

namespace pons::config {

// The description of one struct: each field once, with everything that loading, the reference and
// the schema need to know. The structs behind the `void*` are those the makers below were given.
struct Table;

struct Range {
  std::uint64_t min;
  std::uint64_t max;
};

struct IntegerType {
  Range range;
  std::function<void(void*, std::uint64_t)> set;
  std::function<std::uint64_t(const void*)> get;
};

struct ChoiceType {
  std::vector<std::string_view> words;
  std::function<void(void*, std::size_t index)> set;
  std::function<std::size_t(const void*)> get;
};

struct TextRule {
  std::string_view what;  // "an address and port"
  std::string_view example;
  std::string_view pattern;  // for the schema; may allow more than the parser, never less
};

struct TextType {
  TextRule rule;
  std::function<Parsed<void>(void*, const std::string&)> set;
  std::function<std::string(const void*)> get;
};

// A struct of its own.
struct SectionType {
  const Table* table;
  std::function<void*(void*)> member;
  std::function<const void*(const void*)> const_member;
};

// Names the operator chooses, each with a struct.
struct NamedSectionsType {
  TextRule name_rule;
  bool (*is_name)(std::string_view);
  const Table* table;
  std::function<void*(void*, const std::string& name)> insert;
  std::function<std::vector<std::pair<std::string, const void*>>(const void*)> entries;
};

// Names the operator chooses, each with a document whose shape somebody else knows and checks. Kept
// as JSON text.
struct NamedDocumentsType {
  TextRule name_rule;
  bool (*is_name)(std::string_view);
  std::string_view described_in;  // a page of docs/use
  std::function<void(void*, const std::string& name, std::string json)> insert;
  std::function<const std::map<std::string, std::string>&(const void*)> entries;
};

enum class Presence : std::uint8_t { kOptional, kRequired };

struct Notes {
  std::string_view default_text = {};  // where the default depends on the machine
  Presence presence = Presence::kOptional;
};

struct Field {
  std::string_view key;
  std::string_view doc;
  Notes notes;
  std::variant<IntegerType, ChoiceType, TextType, SectionType, NamedSectionsType,
               NamedDocumentsType>
      type;
};

// What must hold between fields, checked when each of them is right.
struct Rule {
  std::string_view key;      // the field a violation is reported at
  std::string_view promise;  // "must not be less than restart_delay_ms"
  std::function<bool(const void*)> holds;
};

struct Table {
  std::vector<Field> fields;
  std::vector<Rule> rules = {};
};

template <class T>
const T& as(const void* object) {
  return *static_cast<const T*>(object);
}
template <class T>
T& as(void* object) {
  return *static_cast<T*>(object);
}

template <class T, class M>
Field integer(std::string_view key, M T::* member, Range range, std::string_view doc,
              Notes notes = {}) {
  return {key, doc, notes,
          IntegerType{range,
                      [=](void* object, std::uint64_t value) {
                        as<T>(object).*member = static_cast<M>(value);
                      },
                      [=](const void* object) -> std::uint64_t { return as<T>(object).*member; }}};
}

// `words` stand in the order of the enumerators, which count from 0.
template <class T, class E>
Field choice(std::string_view key, E T::* member, std::vector<std::string_view> words,
             std::string_view doc, Notes notes = {}) {
  return {
      key, doc, notes,
      ChoiceType{
          std::move(words),
          [=](void* object, std::size_t index) { as<T>(object).*member = static_cast<E>(index); },
          [=](const void* object) { return static_cast<std::size_t>(as<T>(object).*member); }}};
}

inline std::string to_text(const std::string& value) {
  return value;
}
inline std::string to_text(const ListenAddress& value) {
  return value.text();
}

template <class T, class M>
Field text(std::string_view key, M T::* member, TextRule rule,
           Parsed<M> (*parse)(const std::string&), std::string_view doc, Notes notes = {}) {
  return {key, doc, notes,
          TextType{rule,
                   [=](void* object, const std::string& value) -> Parsed<void> {
                     auto parsed = parse(value);
                     if (!parsed) return std::unexpected(std::move(parsed).error());
                     as<T>(object).*member = *std::move(parsed);
                     return {};
                   },
                   [=](const void* object) { return to_text(as<T>(object).*member); }}};
}

template <class T, class M>
Field section(std::string_view key, M T::* member, const Table& table, std::string_view doc) {
  return {key, doc, Notes{},
          SectionType{&table, [=](void* object) -> void* { return &(as<T>(object).*member); },
                      [=](const void* object) -> const void* { return &(as<T>(object).*member); }}};
}

template <class T, class M>
Field named_sections(std::string_view key, std::map<std::string, M> T::* member, TextRule name_rule,
                     bool (*is_name)(std::string_view), const Table& table, std::string_view doc,
                     Notes notes = {}) {
  return {key, doc, notes,
          NamedSectionsType{name_rule, is_name, &table,
                            [=](void* object, const std::string& name) -> void* {
                              return &(as<T>(object).*member)[name];
                            },
                            [=](const void* object) {
                              std::vector<std::pair<std::string, const void*>> entries;
                              for (const auto& [name, value] : as<T>(object).*member)
                                entries.emplace_back(name, &value);
                              return entries;
                            }}};
}

template <class T>
Field named_documents(std::string_view key, std::map<std::string, std::string> T::* member,
                      TextRule name_rule, bool (*is_name)(std::string_view),
                      std::string_view described_in, std::string_view doc) {
  return {key, doc, Notes{},
          NamedDocumentsType{name_rule, is_name, described_in,
                             [=](void* object, const std::string& name, std::string json) {
                               (as<T>(object).*member)[name] = std::move(json);
                             },
                             [=](const void* object) -> const std::map<std::string, std::string>& {
                               return as<T>(object).*member;
                             }}};
}

template <class T>
Rule rule(std::string_view key, std::string_view promise, bool (*holds)(const T&)) {
  return {key, promise, [=](const void* object) { return holds(as<T>(object)); }};
}

// The description of Config.
const Table& config_table();

// "a whole number from 1 to 60", "one of debug, info, warn, error": for messages and the reference.
std::string expected_value(const Field& field);

}  // namespace pons::config
