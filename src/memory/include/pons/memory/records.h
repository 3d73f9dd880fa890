#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// What memory stores hold, as plain values. Times are milliseconds since 1970.

namespace pons::memory {

// Whose words a note holds. What came from outside is never put before an agent unasked.
enum class Provenance : std::uint8_t { kHuman, kAgent, kUntrusted };
std::string_view name_of(Provenance provenance);

struct Actor {
  enum class Kind : std::uint8_t { kSession, kApiKey, kUser, kServiceAccount };
  Kind kind = Kind::kUser;
  std::string id;
  bool operator==(const Actor&) const = default;
};
std::string_view name_of(Actor::Kind kind);

// Who changes something, and whether to take it for their own words.
struct Author {
  Actor actor;
  Provenance provenance = Provenance::kHuman;
  // Names the change: asked for again under the same name, it is made once. Empty: nobody asks
  // again.
  std::string change = {};
};

// Of a project, one of its stores.
struct Place {
  std::string project;
  std::string store;
};

using Metadata = std::map<std::string, std::string>;
using MetadataPatch = std::map<std::string, std::optional<std::string>>;  // nothing: is removed

struct MemoryStore {
  std::string id;
  std::string name;
  std::string description;
  Metadata metadata;
  std::int64_t created_ms = 0;
  std::int64_t updated_ms = 0;  // of the store itself, not of what is in it
  std::optional<std::int64_t> archived_ms;
  std::int64_t memories = 0;
  std::int64_t bytes = 0;   // of all versions
  std::int64_t number = 0;  // its place in the index of words
};

enum class View : std::uint8_t { kBasic, kFull };

struct Memory {
  std::string id;
  std::string store;
  std::string path;
  std::string version;
  std::string sha256;
  std::int64_t size_bytes = 0;
  std::int64_t created_ms = 0;
  std::int64_t updated_ms = 0;
  Provenance provenance = Provenance::kHuman;
  bool pinned = false;
  std::int64_t uses = 0;
  std::optional<std::string> content;  // of the full view
};

enum class Operation : std::uint8_t { kCreated, kModified, kDeleted };
std::string_view name_of(Operation operation);

// One change of a memory. Path, digest and size are gone when it was redacted; digest, size and
// content when the memory was deleted by it.
struct MemoryVersion {
  std::string id;
  std::string store;
  std::string memory;
  std::int64_t number = 0;  // of the store's changes: they are told in this order
  Operation operation = Operation::kCreated;
  std::optional<std::string> path;
  std::optional<std::string> sha256;
  std::optional<std::int64_t> size_bytes;
  Provenance provenance = Provenance::kHuman;
  Actor created_by;
  std::int64_t created_ms = 0;
  std::optional<std::int64_t> redacted_ms;
  std::optional<Actor> redacted_by;
  std::optional<std::string> content;
};

// ---- changes

struct NewStore {
  std::string name;
  std::string description = {};
  Metadata metadata = {};
};
struct StoreChange {
  std::optional<std::string> name = std::nullopt;
  std::optional<std::string> description = std::nullopt;
  MetadataPatch metadata = {};
};
struct NewMemory {
  std::string path;
  std::string content = {};
};
struct MemoryChange {
  std::optional<std::string> content = std::nullopt;
  std::optional<std::string> path = std::nullopt;
  std::optional<std::string> expected_sha256 = std::nullopt;
};
// What people decide about a note without changing it.
struct Marks {
  std::optional<bool> pinned = std::nullopt;
  std::optional<Provenance> provenance = std::nullopt;
};

struct PathConflict {
  std::string memory;
  std::string path;
};
struct PreconditionFailed {
  std::string sha256;  // what it is instead
};
using Written = std::variant<Memory, PathConflict, PreconditionFailed>;
struct Deleted {
  std::string id;
};
using Removed = std::variant<Deleted, PreconditionFailed>;

// ---- lists

// `page` is what the last page gave as `next`; it fits only the same list with the same filters.
struct StoreQuery {
  std::optional<std::int64_t> created_from_ms = std::nullopt;
  std::optional<std::int64_t> created_to_ms = std::nullopt;  // that moment too
  bool with_archived = false;
  std::int64_t limit = 20;
  std::string page = {};
};
struct MemoryQuery {
  std::string path_prefix = "/";
  enum class Depth : std::uint8_t { kAll, kChildren } depth = Depth::kAll;
  View view = View::kBasic;
  std::int64_t limit = 20;
  std::string page = {};
};
struct VersionQuery {
  std::string memory = {};
  std::optional<Operation> operation = std::nullopt;
  std::optional<Actor> actor = std::nullopt;
  std::optional<std::int64_t> created_from_ms = std::nullopt;
  std::optional<std::int64_t> created_to_ms = std::nullopt;
  View view = View::kBasic;
  std::int64_t limit = 20;
  std::string page = {};
};

template <class T>
struct Page {
  std::vector<T> entries;
  std::string next;  // empty: that was all
};

// "/a/": memories stand below it.
struct MemoryPrefix {
  std::string path;
};
using MemoryEntry = std::variant<Memory, MemoryPrefix>;

struct Hit {
  Memory memory;        // without its content
  std::string snippet;  // one line around what was found
};

// What a session starts with.
struct Preload {
  std::vector<Memory> notes;  // with contents, the most important first
  std::int64_t left_out = 0;  // that did not fit
};

}  // namespace pons::memory
