#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/guest/key_desk.h"
#include "pons/harness/recipe.h"
#include "pons/linux/loop.h"
#include "pons/mcp/toolbox.h"
#include "pons/sandbox/provider.h"
#include "pons/session/world.h"

namespace pons::guest {

struct GuestLimits {
  std::size_t processes = 64;  // of all sessions; idle ones make room
  Duration start_time = std::chrono::seconds(90);
  Duration silence_time = std::chrono::minutes(20);   // without a word, in a turn
  Duration turn_time = std::chrono::hours(3);         // at work, without the time of its tools
  Duration own_call_time = std::chrono::hours(6);     // of a tool of its own
  Duration interrupt_time = std::chrono::seconds(5);  // then SIGKILL
  Duration pause_after = std::chrono::seconds(5);     // idle; it is frozen
  Duration wait_time = std::chrono::hours(1);         // for a tool or a person; then likewise
  Duration stop_after = std::chrono::minutes(15);     // idle; its process ends, its files stay
  std::chrono::milliseconds cell_idle = std::chrono::hours(6);  // then these are gone, too
};

struct Guest;
class Dialogue;
struct News;

// Models, and in the place of some of them guests: other people's agents (Claude Code, Codex, …),
// each a process in a sandbox for as long as its session needs it.
//
// To a session a guest is a model that remembers. A question to it is what it has not heard yet;
// its answer is what it says, up to the tools that it wants to have used; and their results are its
// next question. So approvals, limits, budgets, logs and replay are those of every session, whoever
// answers. A guest that is gone, or not where the conversation is, is told all of it again.
class Guests final : public session::Model, public mcp::Toolbox {
 public:
  // All outlive this. `model` answers where no guest does.
  Guests(linux::Loop& loop, sandbox::Provider& cells, session::Hands& hands, session::Model& model,
         KeyDesk& desk, std::vector<harness::Recipe> recipes, GuestLimits limits = {});
  ~Guests() override;

  Task<std::variant<session::Answer, session::NoAnswer>> ask(
      session::Question question, const session::Listener& listener) override;

  // What a guest has used is told with its next answer.
  Task<Result<session::Usage>> end_question(std::string id) override {
    return model_.end_question(std::move(id));
  }
  // Also its files.
  void forget(const std::string& session) override;

  Task<Result<session::OwnReport>> own_result(std::string session, std::string call) override;

  // What happened in a session: guests stop working when nobody waits for them any more.
  void observe(const std::string& session, const std::vector<session::StoredEvent>& events);

  // The tools of the session whose guest lives in the sandbox of that name; nobody else has any.
  std::string list(const std::string& sandbox) const override;
  Task<Result<mcp::ToolResult>> call(mcp::ToolCall call) override;
  void cancel(const std::string& session, const std::string& call) override;
  void end(const std::string&) override {}

  // Freezes and ends those that nobody needs; never returns.
  Task<> keep_tidy();

  std::size_t running() const;
  bool has_guest_in(const std::string& sandbox) const { return by_sandbox_.contains(sandbox); }

 private:
  using Reply = std::variant<session::Answer, session::NoAnswer>;
  enum class Excess : std::uint8_t { kSilence, kTurn };
  // What is known of the version of a harness.
  struct Installed {
    std::optional<TimePoint> checked;
    std::string doubt;  // for people; empty: it is the one that was tested
  };

  const harness::Recipe* find_recipe(std::string_view name) const;
  Guest& guest_for(const session::Question& question);
  Task<Result<void>> make_room();
  Task<Result<void>> bring(Guest& guest, const session::Question& question, std::string request);
  static void offer(Guest& guest, const Dialogue& dialogue);
  static std::string give_results(Guest& guest, News& news);
  Task<Result<void>> settle(Guest& guest);
  Task<Result<void>> stop_turn(Guest& guest);
  Task<Result<void>> start(Guest& guest, const session::Question& question,
                           const Dialogue& dialogue);
  Task<Result<void>> make_cell(Guest& guest, const session::Question& question);
  Task<std::string> recall(Guest& guest);
  Task<> end_leftovers(std::string sandbox);
  Task<> sweep();
  Task<Result<void>> write_file(Guest& guest, std::string path, std::string text);
  Task<> remember(Guest& guest);
  Task<Result<void>> write_notes(Guest& guest);
  Task<> note_turn(Guest& guest);
  Task<> drop_notes(Guest& guest);
  Task<Reply> hear(Guest& guest, const session::Listener& listener);
  session::NoAnswer lose_patience(Guest& guest, Excess excess) const;
  Guest* find_user(const mcp::ToolCall& call) const;
  Task<> account(Guest& guest);
  Task<> dismiss(Guest& guest);
  Task<> tidy(Guest& guest);
  Task<> enforce_interrupt(std::string session, TimePoint stop_by);
  void interrupt(Guest& guest);
  static bool has_cell(const Guest& guest);
  void drop(Guest& guest);
  Task<> clear_away(std::string session);
  bool is_cell(const sandbox::SandboxInfo& sandbox) const;
  bool has_harness(const sandbox::SandboxInfo& sandbox) const;
  Task<> check_version(const harness::Recipe& recipe, harness::Placement placement);
  std::string doubt_about(const harness::Recipe& recipe) const;

  linux::Loop& loop_;
  sandbox::Provider& cells_;
  session::Hands& hands_;
  session::Model& model_;
  KeyDesk& desk_;
  std::vector<harness::Recipe> recipes_;
  GuestLimits limits_;
  const std::string job_prefix_;                          // of those that this process begins
  std::map<std::string, std::unique_ptr<Guest>> guests_;  // by session
  std::map<std::string, Guest*> by_sandbox_;
  std::map<std::string, Installed> installed_;           // by their names
  std::multimap<std::string, std::string> left_behind_;  // cells of a brain before this one
  linux::TaskGroup work_;                                // last: its tasks use all of the above
};

}  // namespace pons::guest
