#include "prepared.h"

#include <fmt/format.h>

#include "frontend_message.h"

namespace pons::store::postgres {

namespace {

std::string key_of(std::string_view sql, std::span<const Value> values) {
  std::string key;
  key.reserve(values.size() + 1 + sql.size());
  for (const Value& value : values) key += static_cast<char>('0' + value.index());
  key += ' ';
  key += sql;
  return key;
}

}  // namespace

PreparedStatements::Found PreparedStatements::find_or_add(std::string_view sql,
                                                          std::span<const Value> values,
                                                          std::string& closing) {
  std::string key = key_of(sql, values);
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    return {.prepared = entries_.front().prepared, .is_new = false};
  }
  if (entries_.size() >= max_) {
    write_close(entries_.back().prepared->name, closing);
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
  auto prepared = std::make_shared<Prepared>(Prepared{.name = fmt::format("p{}", ++last_)});
  entries_.push_front({.key = std::move(key), .prepared = prepared});
  by_key_.emplace(entries_.front().key, entries_.begin());
  return {.prepared = std::move(prepared), .is_new = true};
}

void PreparedStatements::forget(const Prepared& prepared) {
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->prepared.get() != &prepared) continue;
    by_key_.erase(entry->key);
    entries_.erase(entry);
    return;
  }
}

}  // namespace pons::store::postgres
