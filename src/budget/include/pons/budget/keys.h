#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/secret.h"
#include "pons/base/task.h"
#include "pons/budget/counters.h"
#include "pons/budget/limits.h"
#include "pons/budget/text_map.h"
#include "pons/store/store.h"

// Virtual keys: the tree of those who may call models, each with limits of its own. All that are
// good are held in memory, because every call looks here.

namespace pons::budget {

// A child is of a kind further down than its parent.
enum class KeyKind : std::uint8_t { kOrg, kTeam, kUser, kAgent, kSchedule, kSession };
std::string_view name_of(KeyKind kind);  // "org" … "session"
std::optional<KeyKind> parse_kind(std::string_view name);

inline constexpr std::size_t kKeyDepthMax = 8;
inline constexpr std::size_t kGoodKeysMax = 100'000;
// Agents of a project that have a key of their own.
inline constexpr std::size_t kAgentsMax = 200;
// Behind it stand 40 hexadecimal digits, of which only the SHA-256 is kept.
inline constexpr std::string_view kSecretPrefix = "ponsm_";

struct Key {
  std::string id;
  std::string project_id;
  std::string parent_id;  // empty: the root of its project
  KeyKind kind = KeyKind::kOrg;
  std::string name;
  std::string hash = {};  // 64 hexadecimal digits; empty: nobody can call with it
  std::vector<Limit> limits = {};
  int soft_percent = 80;
  std::vector<std::string> models = {};  // names, with * for anything; empty: all of them
  std::int64_t created_ms = 0;
  std::optional<std::int64_t> expires_ms = std::nullopt;
  std::optional<std::int64_t> revoked_ms = std::nullopt;
};

// Whether time of sandboxes is charged to such a key: a project's own, or an agent's.
bool has_sandboxes(const Key& key);

struct KeyWish {
  enum class Secrecy : std::uint8_t { kNone, kSecret };
  std::string project_id;
  std::string parent_id = {};  // empty: the root of the project
  KeyKind kind = KeyKind::kUser;
  std::string name;
  Secrecy secrecy = Secrecy::kSecret;
  std::vector<Limit> limits = {};
  int soft_percent = 80;
  std::vector<std::string> models = {};
  std::optional<std::int64_t> expires_ms = std::nullopt;
};

// What is not there stays as it is.
struct KeyChange {
  std::optional<std::string> name = std::nullopt;
  std::optional<std::vector<Limit>> limits = std::nullopt;
  std::optional<int> soft_percent = std::nullopt;
  std::optional<std::vector<std::string>> models = std::nullopt;
  std::optional<std::int64_t> expires_ms = std::nullopt;  // 0: never
};

struct NewKey {
  Key key;
  Secret text;  // shown once, known nowhere; empty when none was wished for
};

struct KeyList {
  enum class Which : std::uint8_t { kAll, kGood };
  std::string project_id;
  Which which = Which::kAll;   // kGood: without the revoked ones
  std::string parent_id = {};  // empty: of the whole project
  std::string after = {};      // the last id of the page before
  std::int64_t rows_max = 1'000;
};

// Belongs to a loop. Each key that is good is a node of the counters. Pointers to keys live until
// the next change of the keys.
class Keys {
 public:
  Keys(store::Store& store, Counters& counters, const Clock& clock)
      : store_(store), counters_(counters), clock_(clock) {}

  Task<Result<void>> load();

  // The root of a project, made when it is asked for first.
  Task<Result<Key>> ensure_root(std::string project_id);
  // What an agent of the project is charged to: a key below the root that nobody can call with,
  // made when it is asked for first. The root itself once a project has very many of them. kDenied:
  // it was revoked, and with it the agent.
  Task<Result<Key>> ensure_agent(std::string project_id, std::string name);
  Task<Result<NewKey>> create(KeyWish wish);
  Task<Result<Key>> update(std::string id, KeyChange change);
  // And with it all below. A root stays: a limit of 0 stops a project. kNotFound: there is none
  // that is good.
  Task<Result<void>> revoke(std::string id);
  Task<Result<void>> revoke_expired();
  // By id.
  Task<Result<std::vector<Key>>> list(KeyList which);

  // kDenied unless the key and all above it are good now.
  Result<const Key*> find(std::string_view id) const;
  Result<const Key*> find_by_secret(std::string_view text) const;
  // By the SHA-256 of the digits, for those who never see them.
  Result<const Key*> find_by_hash(std::string_view hash) const;
  // kDenied when the key or one above it names models and this is none of them.
  Result<void> may_call(const Key& key, std::string_view model) const;
  // From the root to the key: "mk_a/mk_b".
  std::string path_of(const Key& key) const;
  // All that are good: of a project (empty: of all), and if `above` names a key, of it and those
  // below it.
  void for_each(std::string_view project_id, std::string_view above,
                const std::function<void(const Key&)>& see) const;
  std::size_t size() const { return keys_.size(); }

 private:
  const Key* look_up(std::string_view id) const;
  bool is_below(const Key& key, std::string_view above) const;
  void add(Key key);
  void remove(const std::string& id);
  Result<void> check_new(const Key& key) const;

  store::Store& store_;
  Counters& counters_;
  const Clock& clock_;
  TextMap<Key> keys_;
  TextMap<std::string> id_of_hash_;
  TextMap<std::string> root_of_project_;
  TextMap<std::size_t> agents_of_root_;  // how many
};

}  // namespace pons::budget
