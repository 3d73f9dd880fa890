#pragma once

#include "pons/base/json.h"
#include "pons/managed/query.h"
#include "pons/memory/records.h"

// Memory stores as clients say and see them.

namespace pons::managed {

Result<memory::NewStore> read_new_store(const Json& body);
Result<memory::StoreChange> read_store_change(const Json& body);
Result<memory::NewMemory> read_new_memory(const Json& body);
Result<memory::MemoryChange> read_memory_change(const Json& body);

// "view" of a query.
Result<memory::View> read_view(const Query& query, memory::View otherwise);
Result<memory::StoreQuery> read_store_query(const Query& query);
Result<memory::MemoryQuery> read_memory_query(const Query& query);
Result<memory::VersionQuery> read_version_query(const Query& query);

Json show_store(const memory::MemoryStore& store);
Json show_memory(const memory::Memory& memory, memory::View view);
Json show_entry(const memory::MemoryEntry& entry, memory::View view);
Json show_version(const memory::MemoryVersion& version);

}  // namespace pons::managed
