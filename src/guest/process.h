#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pons/harness/conversation.h"
#include "pons/linux/loop.h"
#include "pons/sandbox/provider.h"

namespace pons::guest {

// A harness at work in a sandbox: one job, whose lines are its Conversation. Whoever has it takes
// its events; what it is told leaves by itself. It outlives a restart of the warden.
class Process {
 public:
  // `provider` outlives this.
  Process(linux::Loop& loop, sandbox::Provider& provider, std::string sandbox, std::string job,
          std::unique_ptr<harness::Adapter> adapter);

  // The job begins. Its first words come as events.
  Task<Result<void>> start(sandbox::JobSpec spec);

  // kConflict: a turn is under way. kUnavailable: it is broken, or has ended.
  Result<void> send(std::string text);
  void interrupt();
  void answer(const std::string& request, const harness::ToolAnswer& answer);
  void decide(const std::string& question, const harness::Decision& decision);
  // SIGKILL to it and to all that it has begun; returns when it is said. Events that come of it end
  // the turn.
  Task<> end();

  std::optional<harness::Event> take();
  // The next one, where it is of this kind; else null.
  template <class Kind>
  const Kind* next() const {
    return events_.empty() ? nullptr : std::get_if<Kind>(&events_.front());
  }
  // Out of its turn: what came of a call of its own.
  std::optional<harness::ToolResult> take_result(std::string_view call);
  bool has_result(std::string_view call) const;
  // Something was said, or `wake` was called, since the event was reset.
  linux::Event& news() { return news_; }
  void wake() { news_.set(); }

  bool is_ready() const { return conversation_.is_ready(); }
  bool is_in_turn() const { return conversation_.is_in_turn(); }
  // Its turn is over, and nobody has heard of that yet.
  bool has_unheard_end() const;
  // It can be sent messages, now or when it is ready.
  bool is_usable() const { return !conversation_.is_broken() && !has_ended_; }
  const std::string& session() const { return conversation_.session(); }
  harness::Capabilities capabilities() const { return conversation_.capabilities(); }
  TimePoint begun_at() const { return begun_at_; }
  // When it last said something of its protocol that meant anything.
  TimePoint heard_at() const { return heard_at_; }
  // For people: what it wrote that was none of its protocol, the end of it.
  std::string complaints() const;

 private:
  void take_output(harness::Output output);
  Task<> follow(std::unique_ptr<sandbox::JobStream> stream);
  Task<bool> follow_once(sandbox::JobStream& stream);
  Task<> write();
  void lose(std::string why);

  linux::Loop& loop_;
  sandbox::Provider& provider_;
  std::string sandbox_;
  std::string job_;
  harness::Conversation conversation_;
  std::deque<harness::Event> events_;
  std::size_t unheard_bytes_ = 0;  // of those since it was empty
  std::string unwritten_;
  std::string errors_;  // the end of its standard error
  sandbox::JobOffsets at_;
  bool has_ended_ = false;
  TimePoint begun_at_;
  TimePoint heard_at_;
  linux::Event news_;
  linux::Event to_write_;
  linux::TaskGroup tasks_;  // last: they use all of the above
};

}  // namespace pons::guest
