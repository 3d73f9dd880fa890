#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/linux/fd.h"
#include "pons/linux/loop.h"
#include "pons/linux/unix_socket.h"

namespace pons::roles {

// The supervisor keeps named descriptors for each role (a sandbox's listener, a cell's connection)
// so that they outlive the role's process: a role deposits them, dies, and the next process of that
// role gets them back.

inline constexpr std::size_t kKeptDescriptorsMax = 65'536;  // of one role
inline constexpr std::size_t kKeptNameBytesMax = 128;
inline constexpr std::size_t kKeptAtOnceMax = 8;  // in one message

// What the supervisor holds for one role.
class DescriptorStore {
 public:
  // Replaces what had the name. kLimit when full, kInvalid for a bad name.
  Result<void> put(std::string_view name, linux::UniqueFd descriptor);
  Result<void> drop(std::string_view name);
  const std::map<std::string, linux::UniqueFd, std::less<>>& items() const { return items_; }

 private:
  std::map<std::string, linux::UniqueFd, std::less<>> items_;
};

// The supervisor's side of a role's line: serves its store and notes when it says that it is ready.
Task<> serve_keeper(linux::Loop& loop, int line, DescriptorStore& store,
                    std::function<void()> on_ready);

// The role's side. Calls wait for the supervisor's word, at most `answer_time`. Answers come in
// the order of the questions and bear no number, so after one that did not come every later call is
// kUnavailable: it could take an old answer for its own.
class Keeper {
 public:
  explicit Keeper(int line, std::chrono::milliseconds answer_time = std::chrono::seconds(5))
      : line_(line), answer_time_(answer_time) {}

  Result<void> say_ready();
  Result<void> put(std::string_view name, int descriptor);
  Result<void> drop(std::string_view name);
  // The same for up to kKeptAtOnceMax in one message, without waiting for the supervisor's word: it
  // is read before the next question, and a refusal is logged then. A full line waits.
  struct Put {
    std::string name;
    int descriptor;
  };
  Result<void> put_soon(std::span<const Put> all);
  Result<void> drop_soon(std::span<const std::string> names);
  struct Kept {
    std::string name;
    linux::UniqueFd descriptor;
  };
  Result<std::vector<Kept>> take_back();  // copies; the supervisor keeps its own

 private:
  Result<void> ask(std::string_view text, std::span<const int> descriptors);
  Result<linux::Message> next_answer();
  Result<void> request(std::string_view text, std::span<const int> descriptors);
  Result<void> tell(std::string_view text, std::span<const int> descriptors);
  Result<void> take_owed_answers(std::size_t owed_max);
  int line_;
  std::chrono::milliseconds answer_time_;
  bool in_step_ = true;
  std::size_t owed_ = 0;  // answers to what was told without waiting
};

}  // namespace pons::roles
