#include "rows.h"

#include <array>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"

namespace pons::memory {

namespace {

using store::integer_of;
using store::optional_integer_of;
using store::Row;
using store::text_of;

constexpr std::array kProvenances = {Provenance::kHuman, Provenance::kAgent,
                                     Provenance::kUntrusted};
constexpr std::array kOperations = {Operation::kCreated, Operation::kModified, Operation::kDeleted};
constexpr std::array kActorKinds = {Actor::Kind::kSession, Actor::Kind::kApiKey, Actor::Kind::kUser,
                                    Actor::Kind::kServiceAccount};

template <class T, std::size_t N>
Result<T> word_of(const Row& row, std::size_t column, const std::array<T, N>& all) {
  const std::string name = TRY(text_of(row, column));
  for (const T value : all)
    if (name == name_of(value)) return value;
  return make_error(ErrorCode::kIo, "read row", fmt::format("column {} is \"{}\"", column, name));
}

Result<std::optional<std::string>> optional_text_of(const Row& row, std::size_t column) {
  if (column < row.size() && std::holds_alternative<store::Null>(row[column])) return std::nullopt;
  return TRY(text_of(row, column));
}

Result<Actor> actor_of(const Row& row, std::size_t column) {
  return Actor{.kind = TRY(word_of(row, column, kActorKinds)), .id = TRY(text_of(row, column + 1))};
}

Result<Metadata> metadata_of(const Row& row, std::size_t column) {
  const std::string text = TRY(text_of(row, column));
  const Json json = TRY(parse_json(text));
  Metadata metadata;
  for (const auto& [key, value] : json.items())
    if (value.is_string()) metadata.emplace(key, value.get<std::string>());
  return metadata;
}

}  // namespace

std::string_view name_of(Provenance provenance) {
  switch (provenance) {
    case Provenance::kHuman:
      return "human";
    case Provenance::kAgent:
      return "agent";
    case Provenance::kUntrusted:
      return "untrusted";
  }
  return {};
}

std::string_view name_of(Actor::Kind kind) {
  switch (kind) {
    case Actor::Kind::kSession:
      return "session_actor";
    case Actor::Kind::kApiKey:
      return "api_actor";
    case Actor::Kind::kUser:
      return "user_actor";
    case Actor::Kind::kServiceAccount:
      return "service_account_actor";
  }
  return {};
}

std::string_view name_of(Operation operation) {
  switch (operation) {
    case Operation::kCreated:
      return "created";
    case Operation::kModified:
      return "modified";
    case Operation::kDeleted:
      return "deleted";
  }
  return {};
}

std::optional<Operation> operation_named(std::string_view name) {
  for (const Operation operation : kOperations)
    if (name == name_of(operation)) return operation;
  return std::nullopt;
}

std::string write_metadata(const Metadata& metadata) {
  Json json = Json::object();
  for (const auto& [key, value] : metadata) json[key] = value;
  return dump_json(json);
}

Result<MemoryStore> store_of(const Row& row) {
  return MemoryStore{.id = TRY(text_of(row, 0)),
                     .name = TRY(text_of(row, 1)),
                     .description = TRY(text_of(row, 2)),
                     .metadata = TRY(metadata_of(row, 3)),
                     .created_ms = TRY(integer_of(row, 4)),
                     .updated_ms = TRY(integer_of(row, 5)),
                     .archived_ms = TRY(optional_integer_of(row, 6)),
                     .memories = TRY(integer_of(row, 7)),
                     .bytes = TRY(integer_of(row, 8)),
                     .number = TRY(integer_of(row, 9))};
}

Result<Memory> memory_of(const Row& row) {
  return Memory{.id = TRY(text_of(row, 0)),
                .store = TRY(text_of(row, 1)),
                .path = TRY(text_of(row, 2)),
                .version = TRY(text_of(row, 3)),
                .sha256 = TRY(text_of(row, 4)),
                .size_bytes = TRY(integer_of(row, 5)),
                .created_ms = TRY(integer_of(row, 6)),
                .updated_ms = TRY(integer_of(row, 7)),
                .provenance = TRY(word_of(row, 8, kProvenances)),
                .pinned = TRY(integer_of(row, 9)) != 0,
                .uses = TRY(integer_of(row, 10)),
                .content = TRY(optional_text_of(row, kMemoryColumnCount))};
}

ViewSql sql_of(View view) {
  if (view == View::kBasic) return {.column = "NULL", .join = ""};
  return {.column = "v.content", .join = "JOIN memory_versions v ON v.id = m.version_id"};
}

Result<MemoryVersion> version_of(const Row& row) {
  MemoryVersion version{.id = TRY(text_of(row, 0)),
                        .store = TRY(text_of(row, 1)),
                        .memory = TRY(text_of(row, 2)),
                        .number = TRY(integer_of(row, 3)),
                        .operation = TRY(word_of(row, 4, kOperations)),
                        .path = TRY(optional_text_of(row, 5)),
                        .sha256 = TRY(optional_text_of(row, 6)),
                        .size_bytes = TRY(optional_integer_of(row, 7)),
                        .provenance = TRY(word_of(row, 8, kProvenances)),
                        .created_by = TRY(actor_of(row, 9)),
                        .created_ms = TRY(integer_of(row, 11)),
                        .redacted_ms = TRY(optional_integer_of(row, 12)),
                        .redacted_by = std::nullopt,
                        .content = TRY(optional_text_of(row, 15))};
  if (version.redacted_ms) version.redacted_by = TRY(actor_of(row, 13));
  return version;
}

}  // namespace pons::memory
