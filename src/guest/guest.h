#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dialogue.h"
#include "pons/harness/recipe.h"
#include "pons/mcp/toolbox.h"
#include "pons/session/event.h"
#include "process.h"

namespace pons::guest {

// A tool that the guest wants to have used.
struct WantedCall {
  explicit WantedCall(linux::Loop& loop) : answered(loop) {}
  std::string id;  // in the conversation
  std::string name;
  std::string input;
  std::string request;  // in the words of its protocol, where it asked by its own streams
  std::string own;      // likewise, where it does it itself
  std::string mcp;      // of the call by MCP otherwise
  linux::Event answered;
  std::optional<mcp::ToolResult> result;

  bool is_own() const { return !own.empty(); }
};

// Somebody else's agent in one session.
struct Guest {
  explicit Guest(linux::Loop& loop) : changed(loop) {}

  std::string session;
  std::string project;
  std::string sandbox;
  const harness::Recipe* recipe = nullptr;
  harness::Placement placement = harness::Placement::kBrain;

  std::shared_ptr<Process> process;  // null: none runs; whoever waits for it holds it, too
  std::string key;                   // its id
  session::Usage charged = {};       // with that key, so far
  session::Usage unpaid = {};        // of it and of those before, not told to the session yet
  Heard heard = {};
  Terms terms = {};                     // that it knows of
  std::string tools = "[]";             // as MCP lists them
  std::vector<std::string> tool_names;  // of the same

  std::deque<std::shared_ptr<WantedCall>> wanted;                 // not told yet
  std::map<std::string, std::shared_ptr<WantedCall>> being_done;  // by their ids
  std::string notes;        // of how far it had heard when its last turn ended well; JSON
  bool has_spoken = false;  // since it was sent something
  std::string half_said;    // pieces of a text that was told before it was whole

  Duration worked = {};              // in this turn, while somebody waited for it
  std::optional<TimePoint> stop_by;  // it was interrupted in this turn, and is killed then
  int silences = 0;                  // one after the other, that somebody lost patience over

  bool is_asked = false;  // a question waits for its answer
  bool is_arriving = false;
  bool is_paused = false;
  bool has_notes = true;                  // of how far it has heard, in a file of its sandbox
  LastTime last_time = LastTime::kEnded;  // when the process that runs now began
  bool is_kept = false;                   // it is being ended or frozen; whoever asks waits
  TimePoint used = {};
  linux::Event changed;  // whoever waits for it to be free

  bool is_busy() const {
    return is_asked || !being_done.empty() || (process && process->is_in_turn());
  }
  // A tool of its own is at work. One whose end was told is over, also before the session hears it.
  bool is_doing_own() const;
  // Also where nothing was heard of it: of a tool of its own one is told when it is at work.
  bool may_have_begun() const {
    return has_spoken || last_time == LastTime::kCutOff ||
           (placement == harness::Placement::kSandbox && process && process->is_ready());
  }
  bool offers(std::string_view tool) const;
  // Nobody waits for its tools any more.
  void answer_all(std::string_view why);
};

// While it lives, nobody else begins anything with the guest.
class Keeping {
 public:
  explicit Keeping(Guest& guest) : guest_(guest) { guest_.is_kept = true; }
  Keeping(const Keeping&) = delete;
  Keeping& operator=(const Keeping&) = delete;
  ~Keeping() {
    guest_.is_kept = false;
    guest_.changed.set();
  }

 private:
  Guest& guest_;
};

}  // namespace pons::guest
