#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "guest.h"
#include "pons/base/json.h"
#include "pons/session/world.h"

namespace pons::guest {

// What is heard of one answer: events of a harness on their way to blocks of the Messages protocol.
class Hearing {
 public:
  // All outlive this.
  Hearing(linux::Loop& loop, const session::Listener& listener, Guest& guest);

  // What is here already. Calls that the guest asks for at once are one answer; those of its own
  // and those of ours never are: each would wait for the other.
  void listen(Process& process);

  bool is_over() const { return ending_.has_value(); }
  bool wants_own() const;
  // More may come at once, of what is wanted.
  bool may_want_more() const { return !guest_.wanted.empty() && !wants_own(); }
  session::Answer asking_for_tools();
  // Once it is over.
  std::variant<session::Answer, session::NoAnswer> whole();

 private:
  struct Taking;  // of single events

  bool goes_on(const Process& process) const;
  bool is_ours(const std::string& tool) const;
  bool may_use(const std::string& tool) const;
  bool has_room(std::string_view text);
  void fail(std::string why);
  void close_thoughts();
  void close_text();
  void add_calls();
  session::Answer answer(const char* stop_reason);

  linux::Loop& loop_;
  const session::Listener& listener_;
  Guest& guest_;
  Json blocks_ = Json::array();
  std::string thoughts_;     // that are in no block yet
  std::string pieces_;       // of a text that is not whole yet
  bool says_again_ = false;  // of that text, what was heard before
  std::size_t bytes_ = 0;    // of the blocks
  std::optional<harness::Failure> failure_;
  std::optional<harness::Ending> ending_;
};

}  // namespace pons::guest
