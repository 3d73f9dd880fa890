#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "pons/config/config.h"

namespace pons::config {

// The part of YAML a configuration needs: scalars, lists and mappings with plain keys. Anchors,
// aliases, tags beyond the core ones and several documents are refused, so what a person reads is
// what is loaded, and the tree is never larger than the text.

inline constexpr std::size_t kYamlBytesMax = 1 << 20;
inline constexpr std::size_t kYamlNodesMax = 10'000;
inline constexpr std::size_t kYamlDepthMax = 32;

// A place in the text; both count from 1, columns in bytes.
struct Mark {
  int line = 1;
  int column = 1;
  auto operator<=>(const Mark&) const = default;
};

enum class NodeKind : std::uint8_t { kNull, kScalar, kSequence, kMapping };
enum class ScalarStyle : std::uint8_t { kPlain, kQuoted };  // kQuoted is always text

struct Node {
  NodeKind kind = NodeKind::kNull;
  ScalarStyle style = ScalarStyle::kPlain;
  std::string text;  // of a scalar
  Mark mark;         // of the value; of the key where the value is missing
  std::string key;   // of a child of a mapping
  Mark key_mark;
  std::vector<Node> children;
};

struct YamlDocument {
  Node root;  // kNull for an empty file
  // Keys that stand twice in one mapping: errors, though the rest of the tree (with the first of
  // the two) can still be checked.
  ConfigErrors duplicates;
};

// Bounded in time, memory and stack whatever the text is.
std::expected<YamlDocument, ConfigIssue> parse_yaml(std::string_view text, const std::string& file);

}  // namespace pons::config
