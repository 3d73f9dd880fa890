#include <algorithm>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "call_end.h"
#include "driver.h"
#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/memory/tools.h"
#include "pons/session/call_id.h"
#include "pons/session/conversation.h"
#include "pons/session/machine_tools.h"
#include "pons/session/outcome.h"
#include "pons/session/tool_text.h"
#include "pons/session/tools.h"
#include "summary.h"

// What a session does. Each of these may be begun again after a crash, with the same ids: whoever
// is asked twice answers twice and acts once.

namespace pons::session {

namespace {

constexpr std::int64_t kFirstPauseMs = 500;
constexpr std::int64_t kLongestPauseMs = 60'000;
// All of them are named wherever something is looked through for their stand-ins.
constexpr std::size_t kSandboxesMax = 200;

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

Error no_sandbox(const std::string& name) {
  return make_error(
      ErrorCode::kInvalid, "execute",
      name.empty()
          ? "There is no sandbox yet. Call sandbox_provision first."
          : fmt::format("There is no sandbox {}. sandbox_provision gives you a new one.", name));
}

constexpr std::string_view kWithheld = "withheld";

// What others see where less is left than nothing: an empty text would stand for all of it.
std::string shown_of(Redaction& clean) {
  if (clean.redacted.empty()) return {};
  return clean.text.empty() ? std::string(kWithheld) : std::move(clean.text);
}

// The same of what is JSON, also where it has lost its shape.
std::string shown_json_of(Redaction& clean) {
  std::string shown = shown_of(clean);
  const JsonLimits limits{.depth = 128, .bytes = std::size_t{64} << 20};
  return shown.empty() || parse_json(shown, limits) ? shown : dump_json(kWithheld);
}

std::string text_of_answer(const std::string& content) {
  State reader;  // reads the text blocks of an answer as a session does
  reader.head = 1;
  reader.turn_open = true;
  reader.asked = Asked{.seq = 1};
  fold(reader, {.seq = 2, .event = ModelAnswered{.asked = 1, .content = content}});
  return reader.said;
}

}  // namespace

std::int64_t milliseconds_since(const linux::Loop& loop, TimePoint begun) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(loop.now() - begun).count();
}

std::string reason_of(std::string message) {
  constexpr std::size_t kReasonBytesMax = 4'000;
  return shorten(printable(std::move(message)), kReasonBytesMax);
}

std::string reason_of(const Error& error) {
  return reason_of(error.message.empty() ? error.describe() : error.message);
}

ToolEnded refused(Seq call, const Error& error) {
  return {
      .call = call, .outcome = ToolOutcome::kRefused, .is_error = true, .text = reason_of(error)};
}

ToolEnded failed(Seq call, const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalid:
    case ErrorCode::kLimit:
    case ErrorCode::kUnsupported:
    case ErrorCode::kDenied:
      return refused(call, error);
    default:
      return {.call = call,
              .outcome = ToolOutcome::kInterrupted,
              .is_error = true,
              .text = fmt::format("interrupted: {}. It may have run; look before you run it again",
                                  reason_of(error))};
  }
}

std::string sandbox_id_for(std::string_view purpose) {
  constexpr std::size_t kDigits = 24;
  return "sx-" + sha256_hex(purpose).substr(0, kDigits);
}

std::string machine_name_of(std::string_view session, std::int64_t moves) {
  return moves == 0 ? std::string(session) : fmt::format("{}:{}", session, moves);
}

std::string machine_id_of(std::string_view name) {
  return sandbox_id_for(fmt::format("{}:machine", name));
}

std::string Driver::call_id(Seq seq) const {
  return call_id_of(lease_.session, seq);
}

// Begins with the time at which it was asked: where calls are kept, those that were made one after
// the other stand side by side.
std::string Driver::question_id(const std::string& name, std::int64_t at_ms) const {
  constexpr int kTimeDigits = 11;  // hexadecimal
  constexpr std::size_t kHashDigits = 20;
  const auto time = static_cast<std::uint64_t>(std::max<std::int64_t>(at_ms, 0));
  return fmt::format("{:0{}x}{}", time & ((std::uint64_t{1} << (4 * kTimeDigits)) - 1), kTimeDigits,
                     sha256_hex(fmt::format("{}:{}", lease_.session, name)).substr(0, kHashDigits));
}

ProvisionOrder Driver::order_of(const State& state, Seq asked, std::int64_t block) const {
  std::string purpose = fmt::format("{}:{}:{}", lease_.session, asked, block);
  // On another node it is another one, with a name of its own.
  if (state.moves > 0) purpose += fmt::format(":{}", state.moves);
  return {.sandbox = sandbox_id_for(purpose),
          .sandbox_template = state.agent.sandbox_template,
          .environment = state.agent.environment,
          .network = state.agent.network,
          .session = lease_.session,
          .project = lease_.project};
}

std::vector<std::string> Driver::sandbox_ids() const {
  std::vector<std::string> ids;
  for (const auto& [name, sandbox] : state_.sandboxes) ids.push_back(sandbox.id);
  // Its first output comes before the log says that it is there.
  if (has_machine(state_.agent) || is_harness_inside(state_.agent))
    if (std::string machine = machine_order().sandbox; !state_.has_sandbox(machine))
      ids.push_back(std::move(machine));
  return ids;
}

// ---- the model

Task<> Driver::ask_model(Asked asked) {
  const TimePoint begun = world_.loop.now();
  std::string unsaid;
  linux::Event more(world_.loop);
  linux::TaskGroup speaker(world_.loop);
  if (asked.purpose == Purpose::kReply) speaker.spawn(speak(asked.seq, unsaid, more));
  const Listener listener{
      .on_text =
          [&](std::string_view text) {
            // Also while nobody listens: who comes later hears it from the beginning.
            unsaid += text;
            if (world_.audience.wants_deltas(lease_.session)) more.set();
          },
      .on_tool = [&](std::int64_t block,
                     std::string_view tool) { prepare_sandbox(asked.seq, block, tool); },
      .on_thinking = [&] { world_.audience.on_thinking(lease_.session, asked.seq); }};
  Question question{.id = question_id(question_name(asked), asked.at_ms),
                    .session = lease_.session,
                    .project = lease_.project,
                    .agent = state_.agent.name,
                    .request = write_request(state_, asked.purpose)};
  if (asked.purpose == Purpose::kReply && !state_.agent.harness.empty()) add_harness(question);
  auto answer = co_await hear_answer(std::move(question), listener);
  if (auto* none = std::get_if<NoAnswer>(&answer)) {
    Item item = failure_of(asked.seq, std::move(*none));
    // Providers repeat what they were sent.
    auto& failed = std::get<ModelFailed>(item.events.front());
    if (!failed.message.empty()) {
      Redaction clean = co_await redact(failed.message);
      failed.message = std::move(clean.text);
      failed.redacted = std::move(clean.redacted);
    }
    deliver(std::move(item));
    co_return;
  }
  auto& whole = std::get<Answer>(answer);
  const std::int64_t took_ms = milliseconds_since(world_.loop, begun);
  if (asked.purpose == Purpose::kSummary) {
    std::string summary = text_of_answer(whole.content);
    if (auto good = check_summary(summary, whole.stop_reason); !good) {
      deliver(failure_of(asked.seq,
                         {.message = std::move(good.error().message), .usage = whole.usage}));
      co_return;
    }
    Redaction clean = co_await redact(summary);
    deliver({.events = {ContextSummarised{.asked = asked.seq,
                                          .summary = std::move(summary),
                                          .shown = shown_of(clean),
                                          .redacted = std::move(clean.redacted),
                                          .usage = whole.usage,
                                          .took_ms = took_ms}},
             .effect = asked.seq});
    co_return;
  }
  if (asked.purpose == Purpose::kGrade) {
    co_await deliver_grade(asked.seq, std::move(whole), took_ms);
    co_return;
  }
  Redaction clean = co_await redact(whole.content);
  deliver({.events = {ModelAnswered{.asked = asked.seq,
                                    .content = std::move(whole.content),
                                    .shown = shown_json_of(clean),
                                    .redacted = std::move(clean.redacted),
                                    .stop_reason = std::move(whole.stop_reason),
                                    .model = std::move(whole.model),
                                    .usage = whole.usage,
                                    .first_ms = whole.first_ms,
                                    .took_ms = took_ms}},
           .effect = asked.seq});
}

// A harness that lives in the machine makes it when it is asked. What it has said is said, also
// when the machine was lost meanwhile.
Task<std::variant<Answer, NoAnswer>> Driver::hear_answer(Question question,
                                                         const Listener& listener) {
  if (!question.in_machine) co_return co_await world_.model.ask(std::move(question), listener);
  if (co_await has_lost_machine())
    co_return NoAnswer{.trouble = Trouble::kLasting,
                       .message = "The machine is lost, and this thread cannot have another."};
  const std::string machine = question.machine.sandbox;
  auto answer = co_await world_.model.ask(std::move(question), listener);
  if (co_await has_lost_machine()) chores_.drop_sandbox(machine);
  co_return answer;
}

// Summaries and verdicts are the model's own, whoever answers otherwise.
void Driver::add_harness(Question& question) const {
  const AgentSpec& agent = state_.agent;
  question.harness = agent.harness;
  question.in_machine = agent.harness_in_machine;
  question.machine = machine_order();
  const auto left = [](std::int64_t budget, std::int64_t used) {
    return budget == 0 ? 0 : std::max<std::int64_t>(budget - used, 1);
  };
  question.cost_left_nano = left(agent.budget_nano, state_.usage.cost_nano);
  question.tokens_left = left(agent.budget_tokens, state_.usage.all_tokens());
}

Task<> Driver::deliver_grade(Seq asked, Answer answer, std::int64_t took_ms) {
  auto grade = read_grade(text_of_answer(answer.content));
  if (!grade) {
    deliver(
        failure_of(asked, {.message = std::move(grade.error().message), .usage = answer.usage}));
    co_return;
  }
  Redaction clean = co_await redact(grade->explanation);
  deliver({.events = {OutcomeGraded{.asked = asked,
                                    .verdict = grade->verdict,
                                    .explanation = std::move(grade->explanation),
                                    .shown = shown_of(clean),
                                    .redacted = std::move(clean.redacted),
                                    .usage = answer.usage,
                                    .took_ms = took_ms}},
           .effect = asked});
}

Driver::Item Driver::failure_of(Seq asked, NoAnswer none) const {
  return {.events = {ModelFailed{.asked = asked,
                                 .trouble = none.trouble,
                                 .fault = none.fault,
                                 .message = reason_of(std::move(none.message)),
                                 .wait_ms = pause_before_next_try(none.wait_ms, asked),
                                 .usage = none.usage,
                                 .unpaid = none.unpaid}},
          .effect = asked};
}

// Passes on what the model says while it says it, once it is known to hold nothing that must stay.
Task<> Driver::speak(Seq asked, std::string& unsaid, linux::Event& more) {
  std::string held;
  for (;;) {
    co_await more.wait(kNever);
    more.reset();
    std::string text = held + std::exchange(unsaid, {});
    const auto clean = co_await world_.boundary.redact({text, sandbox_ids(), true});
    if (!clean) co_return;  // all of it comes with the answer, later
    std::size_t end = clean->text.size() - std::min(clean->held, clean->text.size());
    while (end > 0 && end < clean->text.size() && continues_character(clean->text[end])) --end;
    // What is held back is the same in both; what comes before it may have changed its length.
    held = text.substr(text.size() - std::min(clean->text.size() - end, text.size()));
    if (end > 0)
      world_.audience.on_delta(lease_.session, asked, std::string_view(clean->text).substr(0, end));
  }
}

// Waits as long as it takes: without an answer nothing may leave. What nobody will ever look
// through never does.
Task<Redaction> Driver::redact(std::string text) {
  std::int64_t pause_ms = 50;
  for (;;) {
    auto clean = co_await world_.boundary.redact({text, sandbox_ids()});
    if (clean) co_return std::move(*clean);
    if (clean.error().code == ErrorCode::kInvalid) {
      LOG_ERROR("what cannot be checked is not shown", {"session", lease_.session},
                {"error", clean.error()});
      co_return Redaction{.text = std::string(kWithheld), .redacted = {"unknown"}};
    }
    LOG_WARN("cannot check what is about to be shown; trying again", {"session", lease_.session},
             {"error", clean.error()});
    co_await world_.loop.sleep_for(std::chrono::milliseconds(pause_ms));
    pause_ms = std::min<std::int64_t>(2 * pause_ms, 5'000);
  }
}

// Twice as long each time, and not the same for all sessions that failed together.
std::int64_t Driver::pause_before_next_try(std::int64_t asked_for_ms, Seq asked) const {
  const std::int64_t doubled =
      std::min(kFirstPauseMs << std::min<std::int64_t>(state_.failures, 8), kLongestPauseMs);
  const std::int64_t pause = std::max(doubled, std::min(asked_for_ms, 10 * kLongestPauseMs));
  const auto spread = static_cast<std::int64_t>(std::hash<std::string>{}(call_id(asked)) %
                                                static_cast<std::size_t>(pause / 4 + 1));
  return pause + spread;
}

// ---- sandboxes

// While the model still writes its call, the sandbox is made: most calls want the usual one.
void Driver::prepare_sandbox(Seq asked, std::int64_t block, std::string_view tool) {
  if (tool != kProvision || !is_allowed(state_.agent, tool)) return;
  ProvisionOrder order = order_of(state_, asked, block);
  auto& prepared = prepared_[order.sandbox];
  if (prepared) return;
  prepared = std::make_unique<Prepared>(world_.loop);
  preparing_.spawn(make_ready(std::move(order), *prepared));
}

Task<> Driver::make_ready(ProvisionOrder order, Prepared& prepared) {
  prepared.report = co_await world_.hands.provision(std::move(order));
  prepared.done.set();
  news_.set();  // the session may rest now, or nobody wants it any more
}

Task<Result<ProvisionReport>> Driver::take_sandbox(const ProvisionOrder& order) {
  if (const auto found = prepared_.find(order.sandbox); found != prepared_.end()) {
    Prepared& prepared = *found->second;
    co_await prepared.done.wait(kNever);
    if (*prepared.report) co_return *prepared.report;
  }
  co_return co_await world_.hands.provision(order);
}

// Those that no call of the answer wants, or waits for any more.
void Driver::drop_prepared() {
  if (state_.asked || over_) return;
  std::erase_if(prepared_, [this](const auto& prepared) {
    if (!prepared.second->done.is_set()) return false;  // looked at when it is there
    const auto is_its_call = [&](const Call& call) {
      return call.name == kProvision &&
             order_of(state_, state_.last_asked, call.block).sandbox == prepared.first;
    };
    if (std::ranges::any_of(state_.calls,
                            [&](const Call& call) { return is_its_call(call) && !call.ended; }))
      return false;
    if (!state_.sandboxes.contains(prepared.first)) chores_.drop_sandbox(prepared.first);
    return true;
  });
}

Task<> Driver::run_call(Seq seq) {
  const Call call = *state_.find_call(seq);
  Item item;
  if (is_own_call(state_.agent, call.tool_use_id))
    item = co_await hear_of_own(call);
  else if (call.name == kProvision)
    item = co_await provision(call);
  else if (call.name == kExecute)
    item = co_await execute(call);
  else if (is_machine_tool(call.name))
    item = co_await use_machine(call);
  else if (memory::is_memory_tool(call.name))
    item = co_await use_memory(call);
  else if (!call.server.empty())
    item = co_await call_server(call);
  else
    item = co_await spawn_agent(call);
  item.effect = seq;
  for (Event& event : item.events) {
    auto* ended = std::get_if<ToolEnded>(&event);
    if (ended == nullptr) continue;
    ended->untrusted |= brings_words_from_outside(state_.agent, call.name) ||
                        (is_own_call(state_.agent, call.tool_use_id) && has_network(state_.agent));
    Redaction clean = co_await redact(ended->text);
    ended->shown = shown_of(clean);
    ended->redacted = std::move(clean.redacted);
    for (Blob& blob : item.blobs) co_await redact_full(*ended, blob);
  }
  deliver(std::move(item));
}

// It is done where nobody else has a hand in it; only what came of it is heard.
Task<Driver::Item> Driver::hear_of_own(const Call& call) {
  const TimePoint begun = world_.loop.now();
  Item item;
  auto report = co_await world_.model.own_result(lease_.session, call.tool_use_id);
  if (!report) {
    item.events.push_back(failed(call.seq, report.error()));
    co_return item;
  }
  ToolText text{.text = shorten(printable(std::move(report->text)), kResultBytesMax),
                .is_error = report->is_error};
  ToolEnded ended{.call = call.seq, .took_ms = milliseconds_since(world_.loop, begun)};
  put_text(std::move(text), std::move(ended), item);
  co_return item;
}

// All of an output is kept for people only: as they may see it, while it is known what may not be.
Task<> Driver::redact_full(ToolEnded& ended, Blob& blob) {
  Redaction clean = co_await redact(blob.bytes);
  if (clean.redacted.empty()) co_return;
  // Cut where the other one is, of what was crossed out no piece is left at the edges.
  const std::string part = shorten(blob.bytes, kResultBytesMax);
  if (const std::size_t at = ended.text.find(part); at != std::string::npos)
    ended.shown =
        std::string(ended.text).replace(at, part.size(), shorten(clean.text, kResultBytesMax));
  blob = {.digest = sha256_hex(clean.text), .bytes = std::move(clean.text)};
  ended.full = blob.digest;
  ended.full_bytes = static_cast<std::int64_t>(blob.bytes.size());
  for (std::string& name : clean.redacted)
    if (std::ranges::find(ended.redacted, name) == ended.redacted.end())
      ended.redacted.push_back(std::move(name));
}

// Those that are there, and those that calls before this one may still bring.
std::size_t Driver::sandboxes_before(Seq call) const {
  return state_.sandboxes.size() +
         static_cast<std::size_t>(std::ranges::count_if(state_.calls, [&](const Call& other) {
           return other.name == kProvision && other.is_open() && other.seq < call;
         }));
}

Task<Driver::Item> Driver::provision(const Call& call) {
  const TimePoint begun = world_.loop.now();
  Item item;
  const auto arguments = read_provision(call.input);
  if (!arguments) {
    item.events.push_back(refused(call.seq, arguments.error()));
    co_return item;
  }
  if (sandboxes_before(call.seq) >= kSandboxesMax) {
    item.events.push_back(refused(
        call.seq, make_error(ErrorCode::kLimit, "provision",
                             fmt::format("This session has {} sandboxes already; go on in one of "
                                         "them.",
                                         kSandboxesMax))));
    co_return item;
  }
  const ProvisionOrder order = order_for(state_, call, *arguments);
  const auto report = co_await take_sandbox(order);
  if (!report) {
    const bool has_no_template = report.error().code == ErrorCode::kNotFound;
    item.events.push_back(has_no_template ? refused(call.seq, report.error())
                                          : failed(call.seq, report.error()));
    co_return item;
  }
  item.events.push_back(SandboxBound{.call = call.seq,
                                     .sandbox = order.sandbox,
                                     .sandbox_template = order.sandbox_template,
                                     .kept = arguments->keep,
                                     .known_as = {},
                                     .node = world_.node});
  item.events.push_back(
      ToolEnded{.call = call.seq,
                .text = fmt::format("sandbox_id: {}\n{}", order.sandbox, report->contents),
                .took_ms = milliseconds_since(world_.loop, begun)});
  co_return item;
}

ProvisionOrder Driver::order_for(const State& state, const Call& call,
                                 const ProvisionArguments& arguments) const {
  ProvisionOrder order = order_of(state, state.last_asked, call.block);
  if (!arguments.sandbox_template.empty() && arguments.sandbox_template != order.sandbox_template) {
    order.sandbox += "-t";  // the one that was made beforehand is another
    order.sandbox_template = arguments.sandbox_template;
  }
  return order;
}

// The checkpoint that one more is too many for, when commands that were begun before have theirs.
std::string Driver::forgotten_with(const std::vector<std::string>& taken, Seq call) const {
  const auto to_come = std::ranges::count_if(state_.calls, [&](const Call& other) {
    return other.name == kExecute && other.is_open() && other.seq < call;
  });
  const std::size_t all = taken.size() + static_cast<std::size_t>(to_come);
  if (all < kCheckpointsMax || all - kCheckpointsMax >= taken.size()) return {};
  return taken[all - kCheckpointsMax];
}

Task<Driver::Item> Driver::execute(const Call& call) {
  using Undo = ExecuteOrder::Undo;
  Item item;
  const auto arguments = read_execute(call.input);
  if (!arguments) {
    item.events.push_back(refused(call.seq, arguments.error()));
    co_return item;
  }
  const std::string name = arguments->sandbox.empty() ? call.sandbox : arguments->sandbox;
  const auto sandbox = state_.sandboxes.find(name);
  if (sandbox == state_.sandboxes.end()) {
    item.events.push_back(refused(call.seq, no_sandbox(name)));
    co_return item;
  }
  ExecuteOrder order{.sandbox = sandbox->second.id,
                     .call = call_id(call.seq),
                     .command = arguments->command,
                     .input = arguments->input,
                     .timeout_seconds = arguments->timeout_seconds,
                     .undo = static_cast<Undo>(arguments->undo)};
  if (state_.agent.checkpoints) {
    order.checkpoint = fmt::format("after-{}", call.seq);
    order.forgotten = forgotten_with(sandbox->second.checkpoints, call.seq);
  }
  const std::string id = order.sandbox;
  auto report = co_await world_.hands.execute(std::move(order));
  if (!report) {
    // One that is gone is not the session's any more: it would count for ever.
    if (report.error().code == ErrorCode::kNotFound && state_.has_sandbox(id))
      item.events.push_back(SandboxReleased{id});
    item.events.push_back(failed(call.seq, report.error()));
    co_return item;
  }
  ToolEnded ended{.call = call.seq,
                  .sandbox = report->checkpoint.empty() ? "" : name,
                  .checkpoint = report->checkpoint,
                  .took_ms = std::clamp<std::int64_t>(report->took_ms, 0, kNumberMax)};
  if (report->end == ExecuteReport::End::kInterrupted) ended.outcome = ToolOutcome::kInterrupted;
  put_text(describe(std::move(*report)), std::move(ended), item);
  co_return item;
}

std::string Driver::machine_name(const State& state) const {
  return state.agent.machine_of.empty() ? machine_name_of(lease_.session, state.moves)
                                        : state.agent.machine_of;
}

// The session's own machine: made when it is first used, and kept. One that is gone is made again,
// and what was on it is gone with it.
ProvisionOrder Driver::machine_order() const {
  const std::string name = machine_name(state_);
  const std::string owner = name.substr(0, name.find(':'));
  std::string on_top;
  if (is_harness_inside(state_.agent))
    on_top = fmt::format("+harness-{}-packages", state_.agent.harness);
  return {.sandbox = machine_id_of(name),
          .sandbox_template = state_.agent.sandbox_template + on_top,
          .environment = state_.agent.environment,
          .network = state_.agent.network,
          .session = owner,
          .project = lease_.project};
}

// A command that a dead process had begun is only looked for: a machine that was made again has
// forgotten it, and would run it a second time.
Task<Driver::Item> Driver::use_machine(const Call& call) {
  Item item;
  auto command = read_machine_call(call.name, call.input, state_.agent.web);
  if (!command) {
    item.events.push_back(refused(call.seq, command.error()));
    co_return item;
  }
  const auto lost = [&] {
    item.events.push_back(refused(
        call.seq, make_error(ErrorCode::kUnavailable, "use machine",
                             "The machine is lost, and this thread cannot have another. Say so.")));
    return std::move(item);
  };
  if (co_await has_lost_machine()) co_return lost();
  if (!state_.agent.machine_of.empty()) use_own_shell(*command, lease_.session);
  const ProvisionOrder order = machine_order();
  const bool is_first = std::ranges::any_of(state_.sandboxes, [&](const auto& sandbox) {
    return sandbox.second.id == order.sandbox && sandbox.second.call == call.seq;
  });
  const bool was_begun = asked_before_.contains(call.seq);
  if (!was_begun) {
    const auto made = co_await world_.hands.provision(order);
    if (!made) {
      item.events.push_back(failed(call.seq, made.error()));
      co_return item;
    }
    // What is lost from here on is ended after it was made; what was lost before may have been
    // ended in vain.
    if (co_await has_lost_machine() || co_await has_been_taken(call.seq)) {
      chores_.drop_sandbox(order.sandbox);
      co_return lost();
    }
  }
  auto report = co_await world_.hands.execute({.sandbox = order.sandbox,
                                               .call = call_id(call.seq),
                                               .command = std::move(command->command),
                                               .input = std::move(command->input),
                                               .timeout_seconds = command->timeout_seconds,
                                               .was_begun = was_begun,
                                               .may_be_remade = true});
  if (!report) {
    item.events.push_back(failed(call.seq, report.error()));
    co_return item;
  }
  ToolEnded ended{.call = call.seq,
                  .took_ms = std::clamp<std::int64_t>(report->took_ms, 0, kNumberMax)};
  if (report->end == ExecuteReport::End::kInterrupted) ended.outcome = ToolOutcome::kInterrupted;
  ToolText text = describe_machine(call.name, std::move(*report));
  if (is_first && state_.moves > 0)
    text.text +=
        "\n[This is a new machine: the one before was lost, with all files that were on it.]";
  put_text(std::move(text), std::move(ended), item);
  co_return item;
}

void Driver::put_text(ToolText text, ToolEnded ended, Item& item) {
  ended.text = std::move(text.text);
  ended.is_error = text.is_error;
  if (text.full) {
    ended.full = text.full->digest;
    ended.full_bytes = static_cast<std::int64_t>(text.full->bytes.size());
    item.blobs.push_back(std::move(*text.full));
  }
  item.events.push_back(std::move(ended));
}

}  // namespace pons::session
