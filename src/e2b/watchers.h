#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "call.h"

namespace pons::e2b {

struct WatchedPlace {
  std::string sandbox;
  std::string path;
  bool recursive = false;
  auto operator<=>(const WatchedPlace&) const = default;
};

// Changes of directories, kept for clients that ask for them from time to time. Watchers of the
// same place share one watch in the sandbox. One that nobody asks for minutes is forgotten.
class Watchers {
 public:
  explicit Watchers(linux::Loop& loop);
  ~Watchers();

  // The new watcher's id. kLimit when the sandbox has too many.
  Task<Result<std::string>> create(Call& call, WatchedPlace place, bool include_entry);

  // A place among the watches that a sandbox can have at once, until it is let go.
  class Room {
   public:
    Room(Watchers& watchers, std::string sandbox);
    Room(Room&& other) noexcept
        : watchers_(std::exchange(other.watchers_, nullptr)), sandbox_(std::move(other.sandbox_)) {}
    Room& operator=(Room&&) = delete;
    ~Room();

   private:
    Watchers* watchers_;
    std::string sandbox_;
  };
  // For a watch that is not kept here. kLimit when the sandbox has too many.
  Result<Room> take_room(const std::string& sandbox);

  struct Taken {
    std::vector<sandbox::FileChange> changes;
    std::string path;  // of the directory
    bool include_entry = false;
  };
  // What happened since the last time. kNotFound when the sandbox has no such watcher, or its
  // directory is gone.
  Result<Taken> take(const std::string& sandbox, const std::string& id);
  Result<void> remove(const std::string& sandbox, const std::string& id);

 private:
  struct Source;
  struct Watcher;
  using Of = std::map<std::string, Watcher, std::less<>>;

  Task<> read(Source& source);
  Task<> forget_idle();
  void drop_unused_sources();
  std::size_t count_sources(const std::string& sandbox) const;
  std::size_t count_watches(const std::string& sandbox) const;
  Watcher* find(const std::string& sandbox, const std::string& id);

  linux::Loop& loop_;
  std::map<std::string, std::size_t, std::less<>> streams_;  // rooms taken, by sandbox
  std::map<std::string, Of, std::less<>> watchers_;          // by sandbox
  std::map<WatchedPlace, std::shared_ptr<Source>> sources_;
  linux::TaskGroup tasks_;  // last: its tasks use all of the above
};

}  // namespace pons::e2b
