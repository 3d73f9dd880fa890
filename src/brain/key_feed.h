#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api_keys.h"
#include "pons/http/exchange.h"
#include "pons/linux/loop.h"

namespace pons::brain {

// The keys that are good now, and the word to whoever waits for a change of them. Lives from the
// store's answers, so that a key is good here only after it is stored, and no longer from the
// moment when its end is.
class KeyFeed {
 public:
  KeyFeed(linux::Loop& loop, const std::vector<ApiKey>& active);

  void add(const ApiKey& key);
  // For good: what the store has had before does not bring it back.
  void remove(std::string_view id);
  // All that are good, as the store has them; those of workers stay as they are.
  void replace(const std::vector<ApiKey>& active);
  // The same for those of workers.
  void replace_workers(const std::vector<ApiKey>& active);
  bool has(std::string_view id, std::string_view project) const;
  // How often keys of the project may ask, together.
  void limit(const std::string& project, std::optional<std::int64_t> requests_per_second);

  // Names this state of the keys: another process, or another set, has another.
  const std::string& generation() const { return generation_; }
  // {"generation": "…", "keys": [{"id", "project", "hash", "scopes"}],
  //  "requests_per_second": {PROJECT: N}}
  std::string body() const;
  // Until the generation is another than `seen`, the client leaves, or the deadline passes.
  Task<> wait_for_news(std::string seen, http::Exchange& exchange, TimePoint deadline);
  // Until whoever follows the keys has them as they are now, or the deadline passes: a key that its
  // maker hears of is good at the door.
  Task<> wait_until_heard(TimePoint deadline);

 private:
  enum class Of : std::uint8_t { kAnybody, kWorkers };
  void replace(const std::vector<ApiKey>& active, Of whom);
  void change();

  linux::Loop& loop_;
  std::map<std::string, ApiKey, std::less<>> keys_;
  std::set<std::string, std::less<>> revoked_;               // here, and maybe not yet in the store
  std::map<std::string, std::int64_t> requests_per_second_;  // of projects that have a limit
  std::string process_;
  std::uint64_t changes_ = 0;
  std::string generation_;
  linux::Event changed_;
  std::string heard_generation_;  // what the follower last said it has; empty: nobody follows
  linux::Event heard_;
};

}  // namespace pons::brain
