#pragma once

#include <string_view>

#include "pons/memory/records.h"
#include "pons/store/store.h"

// Rows of the three tables as records, and back.

namespace pons::memory {

// Of memory_stores AS s.
inline constexpr std::string_view kStoreColumns =
    "s.id, s.name, s.description, s.metadata, s.created, s.updated, s.archived, s.memories, "
    "s.bytes, s.number";
Result<MemoryStore> store_of(const store::Row& row);

// Of memories AS m; `v.content` or NULL behind them.
inline constexpr std::string_view kMemoryColumns =
    "m.id, m.store_id, m.path, m.version_id, m.sha256, m.size, m.created, m.updated, "
    "m.provenance, m.pinned, m.uses";
inline constexpr std::size_t kMemoryColumnCount = 11;
Result<Memory> memory_of(const store::Row& row);

// What a view adds to the columns and to the tables.
struct ViewSql {
  std::string_view column;
  std::string_view join;
};
ViewSql sql_of(View view);

// Of memory_versions AS v; `v.content` or NULL behind them.
inline constexpr std::string_view kVersionColumns =
    "v.id, v.store_id, v.memory_id, v.number, v.operation, v.path, v.sha256, v.size, "
    "v.provenance, v.actor_kind, v.actor_id, v.created, v.redacted, v.redacted_actor_kind, "
    "v.redacted_actor_id";
Result<MemoryVersion> version_of(const store::Row& row);

std::string write_metadata(const Metadata& metadata);

std::optional<Operation> operation_named(std::string_view name);

}  // namespace pons::memory
