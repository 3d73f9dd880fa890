#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/config/config.h"
#include "quote.h"
#include "substitution.h"
#include "table.h"
#include "yaml_json.h"
#include "yaml_tree.h"

namespace pons::config {

namespace {

// Without the text: where a mapping belongs, somebody may have written the credential itself.
std::string describe_kind(const Node& node) {
  switch (node.kind) {
    case NodeKind::kNull:
      return "nothing";
    case NodeKind::kSequence:
      return "a list";
    case NodeKind::kMapping:
      return "a mapping";
    case NodeKind::kScalar:
      break;
  }
  return "text";
}

std::string describe_found(const Node& node) {
  if (node.kind != NodeKind::kScalar) return describe_kind(node);
  return node.style == ScalarStyle::kQuoted ? "the quoted text " + quote(node.text)
                                            : quote(node.text);
}

// Carries the tree into the structs, table by table, and collects everything there is to say.
class Loader {
 public:
  Loader(const std::string& file, const Substitution& substitution)
      : file_(file), substitution_(substitution) {}

  void load(const Table& table, const Node& node, const std::string& path, void* object) {
    if (node.kind != NodeKind::kMapping) {
      const std::string where = path.empty() ? "the file" : path;
      fail(node.mark, fmt::format("{}: expected a mapping of keys to values, found {}{}", where,
                                  describe_kind(node), advice_for(node)));
      return;
    }
    const std::size_t errors_before = errors.size();
    for (const Node& child : node.children) load_member(table, child, path, object);
    for (const Field& field : table.fields) {
      if (field.notes.presence == Presence::kRequired && find_child(node, field.key) == nullptr)
        fail(node.key_mark,
             fmt::format("{} needs {}; add it, with {}", path, field.key, expected_value(field)));
    }
    if (errors.size() != errors_before) return;
    for (const Rule& rule : table.rules) {
      if (rule.holds(object)) continue;
      const Node* child = find_child(node, rule.key);
      fail(child != nullptr ? child->mark : node.key_mark,
           fmt::format("{} {}; change one of the two", join(path, rule.key), rule.promise));
    }
  }

  ConfigErrors errors;

 private:
  static const Node* find_child(const Node& node, std::string_view key) {
    const auto child = std::ranges::find(node.children, key, &Node::key);
    return child == node.children.end() ? nullptr : &*child;
  }

  static std::string join(const std::string& path, std::string_view key) {
    return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
  }

  // A missing value is never taken for the default: the operator may have meant "none".
  static std::string_view advice_for(const Node& node) {
    return node.kind == NodeKind::kNull ? "; give it a value or remove the key" : "";
  }

  void fail(Mark mark, std::string message) {
    errors.push_back({file_, mark.line, mark.column, std::move(message)});
  }

  void fail_type(const Field& field, const Node& node, const std::string& path,
                 std::string_view advice) {
    fail(node.mark, fmt::format("{}: expected {}, found {}{}", path, expected_value(field),
                                describe_found(node), advice));
  }

  void load_member(const Table& table, const Node& child, const std::string& path, void* object) {
    const auto field = std::ranges::find(table.fields, child.key, &Field::key);
    if (field == table.fields.end()) return fail_unknown_key(table, child, path);
    const std::string field_path = join(path, field->key);
    std::visit([&](const auto& type) { load_value(*field, type, child, field_path, object); },
               field->type);
  }

  void fail_unknown_key(const Table& table, const Node& child, const std::string& path) {
    std::vector<std::string_view> keys;
    for (const Field& field : table.fields) keys.push_back(field.key);
    const auto nearest = nearest_match(child.key, keys);
    fail(child.key_mark,
         fmt::format("unknown key {}{}{}; {}", quote(child.key), path.empty() ? "" : " in ", path,
                     nearest ? fmt::format("did you mean \"{}\"?", *nearest)
                             : fmt::format("the keys here are {}", fmt::join(keys, ", "))));
  }

  void load_value(const Field& field, const IntegerType& type, const Node& node,
                  const std::string& path, void* object) {
    if (node.kind != NodeKind::kScalar) return fail_type(field, node, path, advice_for(node));
    if (node.text.contains("${"))
      return fail_type(field, node, path, "; substitutions work in text only, write the number");
    const bool is_plain = node.style == ScalarStyle::kPlain;
    const auto value = parse_decimal(node.text);
    const bool is_canonical = value && (node.text == "0" || !node.text.starts_with('0'));
    if (!is_plain) return fail_type(field, node, path, is_canonical ? "; remove the quotes" : "");
    if (!is_canonical)
      return fail_type(field, node, path,
                       "; write decimal digits only, without sign, leading zero, point, exponent, "
                       "unit or underscore");
    if (*value < type.range.min || *value > type.range.max) return fail_type(field, node, path, "");
    type.set(object, *value);
  }

  // The text after substitution; nothing when that failed and was reported.
  std::optional<ExpandedText> load_text(const Field& field, const Node& node,
                                        const std::string& path) {
    if (node.kind != NodeKind::kScalar) {
      fail_type(field, node, path, advice_for(node));
      return std::nullopt;
    }
    auto expanded = expand(node.text, file_, substitution_);
    if (expanded) return *std::move(expanded);
    fail(node.mark, fmt::format("{}: {}", path, expanded.error()));
    return std::nullopt;
  }

  void fail_text(const Field& field, const Node& node, const std::string& path,
                 const ExpandedText& value, const std::string& advice) {
    fail(node.mark, fmt::format("{}: expected {}, found {}{}", path, expected_value(field),
                                value.origin == Origin::kSubstituted
                                    ? "something else in the substituted text, which is not shown"
                                    : quote(value.text),
                                advice));
  }

  void load_value(const Field& field, const ChoiceType& type, const Node& node,
                  const std::string& path, void* object) {
    const auto value = load_text(field, node, path);
    if (!value) return;
    const auto word = std::ranges::find(type.words, value->text);
    if (word != type.words.end())
      return type.set(object, static_cast<std::size_t>(word - type.words.begin()));
    // A suggestion would tell something about a substituted value.
    const auto nearest = value->origin == Origin::kSubstituted
                             ? std::nullopt
                             : nearest_match(value->text, type.words);
    fail_text(field, node, path, *value,
              nearest ? fmt::format("; did you mean \"{}\"?", *nearest) : "");
  }

  void load_value(const Field& field, const TextType& type, const Node& node,
                  const std::string& path, void* object) {
    const auto value = load_text(field, node, path);
    if (!value) return;
    if (const auto set = type.set(object, value->text); !set)
      fail_text(field, node, path, *value, "; " + set.error());
  }

  void load_value(const Field&, const SectionType& type, const Node& node, const std::string& path,
                  void* object) {
    load(*type.table, node, path, type.member(object));
  }

  void load_value(const Field& field, const NamedSectionsType& type, const Node& node,
                  const std::string& path, void* object) {
    if (node.kind != NodeKind::kMapping) {
      fail(node.mark, fmt::format("{}: expected {}, found {}{}", path, expected_value(field),
                                  describe_kind(node), advice_for(node)));
      return;
    }
    for (const Node& child : node.children) {
      if (!type.is_name(child.key)) {
        fail_name(child, path, type.name_rule);
        continue;
      }
      load(*type.table, child, join(path, child.key), type.insert(object, child.key));
    }
  }

  void load_value(const Field& field, const NamedDocumentsType& type, const Node& node,
                  const std::string& path, void* object) {
    if (node.kind != NodeKind::kMapping) return fail_type(field, node, path, advice_for(node));
    for (const Node& child : node.children) {
      if (!type.is_name(child.key)) {
        fail_name(child, path, type.name_rule);
      } else if (child.kind != NodeKind::kMapping) {
        fail(child.mark,
             fmt::format("{}: expected a mapping of keys to values, found {}{}",
                         join(path, child.key), describe_kind(child), advice_for(child)));
      } else {
        type.insert(object, child.key, dump_json(document_of(child, join(path, child.key))));
      }
    }
  }

  Json document_of(const Node& node, const std::string& path) {
    switch (node.kind) {
      case NodeKind::kNull:
        return nullptr;
      case NodeKind::kSequence: {
        Json list = Json::array();
        for (const Node& child : node.children) list.push_back(document_of(child, path));
        return list;
      }
      case NodeKind::kMapping: {
        Json mapping = Json::object();
        for (const Node& child : node.children)
          mapping[child.key] = document_of(child, join(path, child.key));
        return mapping;
      }
      case NodeKind::kScalar:
        break;
    }
    if (auto value = plain_value(node)) return *std::move(value);
    auto expanded = expand(node.text, file_, substitution_);
    if (expanded) return std::move(expanded->text);
    fail(node.mark, fmt::format("{}: {}", path, expanded.error()));
    return nullptr;
  }

  void fail_name(const Node& child, const std::string& path, const TextRule& rule) {
    fail(child.key_mark, fmt::format("{}: {} is not a usable name; write {}, such as {}", path,
                                     quote(child.key), rule.what, rule.example));
  }

  const std::string& file_;
  const Substitution& substitution_;
};

void sort_and_cut(std::vector<ConfigIssue>& issues) {
  std::ranges::sort(issues, {}, [](const ConfigIssue& issue) {
    return std::tie(issue.line, issue.column, issue.message);
  });
  if (issues.size() <= kIssuesMax) return;
  issues[kIssuesMax - 1].message +=
      fmt::format(" (and {} more not shown)", issues.size() - kIssuesMax);
  issues.resize(kIssuesMax);
}

}  // namespace

std::string ConfigIssue::describe() const {
  if (line == 0) return fmt::format("{}: {}", file, message);
  return fmt::format("{}:{}:{}: {}", file, line, column, message);
}

std::expected<LoadedConfig, ConfigErrors> load_config_text(std::string_view yaml,
                                                           const std::string& file_name,
                                                           const Substitution& substitution) {
  auto document = parse_yaml(yaml, file_name);
  if (!document) return std::unexpected(ConfigErrors{std::move(document).error()});

  LoadedConfig loaded{.file = file_name};
  Loader loader(file_name, substitution);
  loader.errors = std::move(document->duplicates);
  if (document->root.kind != NodeKind::kNull)
    loader.load(config_table(), document->root, "", &loaded.config);
  if (!loader.errors.empty()) {
    sort_and_cut(loader.errors);
    return std::unexpected(std::move(loader.errors));
  }
  return loaded;
}

std::expected<LoadedConfig, ConfigErrors> load_config_file(const std::string& path) {
  const auto text = read_regular_file(path, kYamlBytesMax);
  if (text) return load_config_text(*text, path);
  const Error& error = text.error();
  const std::string advice =
      error.code == ErrorCode::kNotFound
          ? "create the file, correct the path, or name no file to run with the defaults"
      : error.code == ErrorCode::kDenied ? "make it readable for the user Pons runs as"
                                         : "name a regular file of at most 1 MiB";
  return std::unexpected(ConfigErrors{
      {.file = path,
       .message = fmt::format("cannot be read ({}); {}", reading_problem(error), advice)}});
}

}  // namespace pons::config
