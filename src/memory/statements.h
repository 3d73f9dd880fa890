#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/memory/memory_stores.h"
#include "pons/memory/records.h"
#include "pons/store/store.h"

// The statements of one change. The first one counts it in the row of its store: whoever changes
// something in the same store waits there, so that what the following ones look at stays as it is.

namespace pons::memory {

using Values = std::vector<store::Value>;

// Adds a value and gives its parameter: "$3".
std::string parameter(Values& values, store::Value value);
// "$3, $4"
std::string parameters(Values& values, const std::vector<std::string>& texts);

struct Growth {
  std::int64_t memories = 0;
  std::int64_t bytes = 0;
};
// Refused when the store is archived or has no room.
store::Statement count_growth(const Place& place, Growth growth, const MemoryLimits& limits);
// Also of an archived one.
store::Statement count_loss(const Place& place, Growth loss);

// Other memories of the store at the path or above it, and those below it: one question each, since
// each is a short way through the index and both together would be a long one.
struct Conflicts {
  std::string above;  // FROM memories AS o WHERE …
  std::string below;
};
// `store` and `except` are parameters: "$1".
Conflicts find_conflicts(Values& values, std::string_view store, std::string_view except,
                         const std::string& path);
// A condition: there are none.
std::string no_conflicts(const Conflicts& conflicts);

// A version of what the memory becomes; the memory's row is not looked at.
struct NewVersion {
  std::string id;
  std::string memory;
  Operation operation = Operation::kCreated;
  std::string path;
  const std::string* content = nullptr;  // none: it is gone
  Provenance provenance = Provenance::kHuman;
  Actor actor;
  std::int64_t created_ms = 0;
};
store::Statement insert_version(const Place& place, const NewVersion& version);
// The id of the version that a change of that name makes, and no other.
std::string version_of_change(std::string_view change);

// The words of a memory, put into the index or taken out of it: before its row changes, and after.
void add_words(store::Dialect dialect, const std::string& memory, const std::string& path,
               const std::string& content, store::Transaction& out);
void remove_words(store::Dialect dialect, const std::string& memory, store::Transaction& out);
// Of all memories of a store up to a number.
void remove_words_up_to(store::Dialect dialect, const std::string& store, std::int64_t number,
                        store::Transaction& out);

// A row of the index is the store's number and the memory's: what one store holds stands together.
inline constexpr std::int64_t kRowsOfStore = 1LL << 32;

// What a memory is worth at the start of a session, without the time of looking: each use makes
// it as if it had been written six hours later, up to five days.
std::string weight_sql(std::string_view touched, std::string_view uses);

}  // namespace pons::memory
