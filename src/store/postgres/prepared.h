#pragma once

#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backend_message.h"
#include "pons/store/store.h"

namespace pons::store::postgres {

// A statement that one connection has prepared, or is about to.
struct Prepared {
  std::string name;
  bool parsed = false;          // the server has said so
  std::vector<TypeId> columns;  // and has described them
};

// Those of one connection. A name is never used twice: whether the server has taken one that was
// said in a transaction that failed does not matter then.
class PreparedStatements {
 public:
  explicit PreparedStatements(std::size_t statements_max) : max_(statements_max) {}

  struct Found {
    std::shared_ptr<Prepared> prepared;
    bool is_new;
  };
  // The same text with other types of values is another statement. What has to make room for it is
  // appended to `closing` as messages, which go ahead of everything else.
  Found find_or_add(std::string_view sql, std::span<const Value> values, std::string& closing);
  void forget(const Prepared& prepared);

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<Prepared> prepared;
  };
  const std::size_t max_;
  std::uint64_t last_ = 0;
  std::list<Entry> entries_;  // the one that was used last stands first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key_;
};

}  // namespace pons::store::postgres
