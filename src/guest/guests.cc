#include "pons/guest/guests.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "guest.h"
#include "hearing.h"
#include "pons/base/id.h"
#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/base/text.h"

namespace pons::guest {

namespace {

using session::Answer;
using session::NoAnswer;
using session::Trouble;

// Calls of one answer reach us side by side: who waits a moment for them gets all of them at once.
constexpr Duration kGathering = std::chrono::milliseconds(4);

NoAnswer no_answer(const Error& error) {
  // What is not installed, or refused, is so the next time as well.
  const bool is_lasting = error.code == ErrorCode::kInvalid || error.code == ErrorCode::kDenied ||
                          error.code == ErrorCode::kUnsupported;
  return {.trouble = is_lasting ? Trouble::kLasting : Trouble::kPassing,
          .message = error.message.empty() ? error.describe() : error.message};
}

std::string in_words(Duration time) {
  return human_duration(static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(time).count()));
}

}  // namespace

Guests::Guests(linux::Loop& loop, sandbox::Provider& cells, session::Hands& hands,
               session::Model& model, KeyDesk& desk, std::vector<harness::Recipe> recipes,
               GuestLimits limits)
    : loop_(loop),
      cells_(cells),
      hands_(hands),
      model_(model),
      desk_(desk),
      recipes_(std::move(recipes)),
      limits_(limits),
      job_prefix_(fmt::format("harness-{}-", random_text(8))),
      work_(loop) {}

Guests::~Guests() = default;

const harness::Recipe* Guests::find_recipe(std::string_view name) const {
  const auto found = std::ranges::find(recipes_, name, &harness::Recipe::name);
  return found == recipes_.end() ? nullptr : &*found;
}

std::size_t Guests::running() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      guests_, [](const auto& each) { return each.second->process || each.second->is_arriving; }));
}

Guest& Guests::guest_for(const session::Question& question) {
  auto& guest = guests_[question.session];
  if (!guest) {
    guest = std::make_unique<Guest>(loop_);
    guest->session = question.session;
  }
  guest->project = question.project;
  guest->used = loop_.now();
  return *guest;
}

// ---- one question

Task<Guests::Reply> Guests::ask(session::Question question, const session::Listener& listener) {
  if (question.harness.empty()) co_return co_await model_.ask(std::move(question), listener);
  const harness::Recipe* recipe = find_recipe(question.harness);
  if (recipe == nullptr)
    co_return NoAnswer{.trouble = Trouble::kLasting,
                       .message = fmt::format("there is no harness \"{}\"", question.harness)};
  const auto placement =
      question.in_machine ? harness::Placement::kSandbox : harness::Placement::kBrain;
  if (!recipe->lives_in(placement))
    co_return NoAnswer{.trouble = Trouble::kLasting,
                       .message = fmt::format("the harness {} cannot live in the placement {}",
                                              recipe->name, name_of(placement))};
  Guest& guest = guest_for(question);
  // Whoever asks may be cancelled anywhere; the guest must not go on for nobody.
  struct Asking {
    Guests& guests;
    Guest& guest;
    ~Asking() {
      guest.is_asked = false;
      guest.used = guests.loop_.now();
      guests.interrupt(guest);
    }
  };
  guest.is_asked = true;  // and stays, whoever has it now
  const Asking asking{*this, guest};
  while (guest.is_kept) {
    guest.changed.reset();
    co_await guest.changed.wait(kNever);
  }
  if (guest.recipe != recipe || guest.placement != placement) co_await dismiss(guest);
  guest.recipe = recipe;
  guest.placement = placement;
  std::string request = std::exchange(question.request, {});
  const TimePoint begun = loop_.now();
  std::int64_t first_ms = -1;
  const session::Listener noting{
      .on_text =
          [&](std::string_view text) {
            if (first_ms < 0)
              first_ms = std::chrono::duration_cast<std::chrono::milliseconds>(loop_.now() - begun)
                             .count();
            listener.on_text(text);
          },
      .on_tool = listener.on_tool};
  if (const auto brought = co_await bring(guest, question, request); !brought)
    co_return no_answer(brought.error());
  auto reply = co_await hear(guest, noting);
  co_await account(guest);
  // One that was gone before it said a word has not begun: the next one remembers as much.
  if (std::holds_alternative<NoAnswer>(reply) && !guest.may_have_begun() && !guest.notes.empty() &&
      guest.process && !guest.process->is_usable()) {
    co_await dismiss(guest);
    (void)co_await write_notes(guest);
    guest.notes.clear();
    if (const auto brought = co_await bring(guest, question, request); !brought)
      co_return no_answer(brought.error());
    reply = co_await hear(guest, noting);
    co_await account(guest);
  }
  if (auto* answer = std::get_if<Answer>(&reply)) {
    answer->first_ms = std::max<std::int64_t>(0, first_ms);
    guest.silences = 0;
    if (answer->stop_reason == "end_turn") co_await remember(guest);
    answer->usage = std::exchange(guest.unpaid, {});
  } else {
    // One that ended its turn itself has told of all that it began.
    if (guest.placement == harness::Placement::kSandbox && guest.last_time == LastTime::kEnded &&
        guest.process && guest.process->is_usable() && !guest.process->is_in_turn())
      co_await drop_notes(guest);
    // What it remembers of a turn that failed is not what the session does.
    co_await dismiss(guest);
    auto& none = std::get<NoAnswer>(reply);
    if (const std::string doubt = doubt_about(*recipe); !doubt.empty())
      none.message += "; " + doubt;
    none.usage = std::exchange(guest.unpaid, {});
  }
  co_return reply;
}

// The guest is there, and hears what it has not heard.
Task<Result<void>> Guests::bring(Guest& guest, const session::Question& question,
                                 std::string request) {
  CO_TRY(const auto dialogue, Dialogue::read(request));
  const Terms terms = dialogue.terms(guest.placement);
  offer(guest, dialogue);
  // What it may use and whom it asks a process is told once, when it begins.
  if (guest.process && guest.terms.offer != terms.offer) co_await dismiss(guest);
  if (guest.process) CO_TRY_VOID(co_await settle(guest));
  std::optional<News> news;
  if (guest.process && guest.process->is_usable()) news = dialogue.news_since(guest.heard);
  if (!news) {
    co_await dismiss(guest);
    CO_TRY_VOID(co_await start(guest, question, dialogue));
    news = dialogue.news_since(guest.heard);
    if (!news || guest.heard.blocks == 0) {
      news = News{.results = {}, .text = dialogue.as_told(guest.last_time)};
      guest.terms = terms;
    }
  }
  std::string text = give_results(guest, *news);
  if (guest.process->is_in_turn() || guest.process->has_unheard_end()) {
    if (trim(text).empty()) {
      guest.heard = dialogue.heard();
      co_return {};
    }
    // Only its own tools were at work: it cannot be told anything before it stops.
    CO_TRY_VOID(co_await stop_turn(guest));
    if (!guest.process) {
      CO_TRY_VOID(co_await start(guest, question, dialogue));
      text = dialogue.as_told(guest.last_time);
      guest.terms = terms;
    }
  }
  guest.heard = {};  // until it is sent, nobody knows
  co_await note_turn(guest);
  guest.has_spoken = false;
  guest.half_said.clear();
  guest.worked = {};
  guest.stop_by.reset();
  if (trim(text).empty()) text = "Go on.";
  if (guest.terms.system != terms.system) text.insert(0, dialogue.as_new_instructions());
  CO_TRY_VOID(guest.process->send(std::move(text)));
  guest.heard = dialogue.heard();
  guest.terms = terms;
  co_return {};
}

// The session's tools, as it may ask for them by MCP.
void Guests::offer(Guest& guest, const Dialogue& dialogue) {
  Json list = Json::array();
  guest.tool_names.clear();
  for (const harness::OfferedTool& tool : dialogue.tools_for(guest.placement)) {
    guest.tool_names.push_back(tool.name);
    list.push_back({{"name", tool.name},
                    {"description", tool.description},
                    {"inputSchema", parse_json(tool.input_schema).value_or(Json::object())}});
  }
  guest.tools = dump_json(list);
}

// What is left to be said: results that nobody waits for, and what people say. The first result
// that it gets from us brings these as well.
std::string Guests::give_results(Guest& guest, News& news) {
  std::string left;
  for (const ResultNews& result : news.results)
    if (!guest.being_done.contains(result.call)) left += told_result(result) + "\n\n";
  left += news.text;
  for (ResultNews& result : news.results) {
    const auto found = guest.being_done.find(result.call);
    if (found == guest.being_done.end()) continue;
    WantedCall& wanted = *found->second;
    if (!wanted.is_own() && !left.empty())
      result.text += fmt::format("\n\n[Meanwhile: {}]", std::exchange(left, {}));
    wanted.result = mcp::ToolResult{.text = result.text, .is_error = result.is_error};
    if (!wanted.request.empty())
      guest.process->answer(wanted.request, {.text = result.text, .is_error = result.is_error});
    wanted.answered.set();
    guest.being_done.erase(found);
  }
  return left;
}

// A turn that nobody waits for any more has to end first.
Task<Result<void>> Guests::settle(Guest& guest) {
  if (guest.is_paused) {
    const auto resumed = co_await cells_.resume(guest.sandbox);
    if (!resumed && resumed.error().code != ErrorCode::kNotFound) co_return resumed.error();
    guest.is_paused = false;
    if (!resumed) {  // somebody has ended its cell: the next one has another
      co_await dismiss(guest);
      co_return {};
    }
  }
  // One that has not waited for its tools is told of them in words.
  const auto is_own = [](const auto& call) { return call.second->is_own(); };
  if (!guest.being_done.empty() &&
      (guest.process->is_in_turn() || std::ranges::all_of(guest.being_done, is_own)))
    co_return {};
  co_return co_await stop_turn(guest);
}

// It is ready for another one then, or gone.
Task<Result<void>> Guests::stop_turn(Guest& guest) {
  const std::shared_ptr<Process> process = guest.process;
  if (!process->is_ready()) guest.heard = {};  // what it was to be sent is forgotten with it
  // Whoever was interrupted before somebody came has as long as it had then, and no longer.
  if (!guest.stop_by) process->interrupt();
  const TimePoint deadline = guest.stop_by.value_or(loop_.now() + limits_.interrupt_time);
  while (process->is_in_turn() && process->is_usable()) {
    process->news().reset();
    if (co_await process->news().wait(deadline) == linux::Wait::kTimeout) break;
  }
  while (process->take()) {
  }
  guest.answer_all("The user interrupted this.");
  guest.stop_by.reset();
  if (process->is_in_turn() || !process->is_usable()) co_await dismiss(guest);
  co_return {};
}

Task<Guests::Reply> Guests::hear(Guest& guest, const session::Listener& listener) {
  Hearing hearing(loop_, listener, guest);
  const std::shared_ptr<Process> kept = guest.process;
  Process& process = *kept;
  const TimePoint begun = loop_.now();
  const Duration before = guest.worked;
  const TimePoint turn_end = begun + limits_.turn_time - before;
  for (;;) {
    process.news().reset();
    hearing.listen(process);
    if (!hearing.is_over() && hearing.may_want_more()) {
      co_await loop_.sleep_for(kGathering);
      hearing.listen(process);
    }
    if (hearing.is_over()) co_return hearing.whole();
    guest.worked = before + (loop_.now() - begun);
    if (!guest.wanted.empty()) co_return hearing.asking_for_tools();
    // Only what its protocol says counts: warnings may come for ever.
    const TimePoint silence_end = process.is_ready()
                                      ? std::max(process.heard_at(), begun) + limits_.silence_time
                                      : process.begun_at() + limits_.start_time;
    if (co_await process.news().wait(std::min(silence_end, turn_end)) == linux::Wait::kTimeout)
      co_return lose_patience(guest, loop_.now() >= turn_end ? Excess::kTurn : Excess::kSilence);
  }
}

NoAnswer Guests::lose_patience(Guest& guest, Excess excess) const {
  const std::string& name = guest.recipe->name;
  if (excess == Excess::kTurn)
    return {
        .trouble = Trouble::kLasting,
        .message = fmt::format("the harness {} has worked for {} without an end, which is the most",
                               name, in_words(limits_.turn_time))};
  const bool is_ready = guest.process->is_ready();
  std::string message = fmt::format("the harness {} said nothing for {}{}", name,
                                    in_words(is_ready ? limits_.silence_time : limits_.start_time),
                                    is_ready ? "" : " after its start");
  if (const std::string complaints = guest.process->complaints(); !complaints.empty())
    message += "; it wrote: " + complaints;
  // One may have been bad luck. Whoever goes on like that is not asked a third time.
  const bool is_lasting = ++guest.silences > 1;
  if (is_lasting) guest.silences = 0;
  return {.trouble = is_lasting ? Trouble::kLasting : Trouble::kPassing,
          .message = std::move(message)};
}

// What the gateway says that its calls came to since the last time.
Task<> Guests::account(Guest& guest) {
  if (guest.key.empty()) co_return;
  const auto used = co_await desk_.used(guest.key);
  if (!used) {
    LOG_WARN("what a harness used is not known yet", {"session", guest.session},
             {"error", used.error()});
    co_return;
  }
  const auto since = [](std::int64_t now, std::int64_t before) {
    return std::max<std::int64_t>(0, now - before);
  };
  guest.unpaid += {.input = since(used->input, guest.charged.input),
                   .cache_read = since(used->cache_read, guest.charged.cache_read),
                   .cache_write = since(used->cache_write, guest.charged.cache_write),
                   .output = since(used->output, guest.charged.output),
                   .cost_nano = since(used->cost_nano, guest.charged.cost_nano)};
  guest.charged = *used;
}

// ---- what its session does

void Guests::observe(const std::string& session, const std::vector<session::StoredEvent>& events) {
  const auto found = guests_.find(session);
  if (found == guests_.end()) return;
  Guest& guest = *found->second;
  for (const session::StoredEvent& event : events) {
    if (!std::holds_alternative<session::TurnEnded>(event.event)) continue;
    guest.answer_all("The user interrupted this.");
    interrupt(guest);
  }
}

}  // namespace pons::guest
