#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <concepts>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/session/event.h"

namespace pons::session {

namespace {

template <class T>
concept PartOfEvent =
    std::same_as<T, Usage> || std::same_as<T, AgentSpec> || std::same_as<T, CustomTool> ||
    std::same_as<T, MemoryGrant> || std::same_as<T, ServerGrant> || std::same_as<T, ServerTool> ||
    std::same_as<T, WebRules>;

// ---- one list of fields per event; `field` either writes or reads it

template <class Field>
void each_field(Field& field, Usage& usage) {
  field("input", usage.input);
  field("cache_read", usage.cache_read);
  field("cache_write", usage.cache_write);
  field("output", usage.output);
  field("cost_nano", usage.cost_nano);
}

template <class Field>
void each_field(Field& field, CustomTool& tool) {
  field("name", tool.name);
  field.json("definition", tool.definition);
}

template <class Field>
void each_field(Field& field, MemoryGrant& grant) {
  field("store", grant.store);
  field("name", grant.name);
  field("description", grant.description);
  field("instructions", grant.instructions);
  field("read_only", grant.read_only);
}

template <class Field>
void each_field(Field& field, ServerGrant& grant) {
  field("name", grant.name);
  field("url", grant.url);
  field.json("toolset", grant.toolset);
  field("credential", grant.credential);
}

template <class Field>
void each_field(Field& field, WebRules& rules) {
  field("allowed", rules.allowed);
  field("blocked", rules.blocked);
  field("tokens_max", rules.tokens_max);
}

template <class Field>
void each_field(Field& field, AgentSpec& agent) {
  field("name", agent.name);
  field("model", agent.model);
  field("system", agent.system);
  field("template", agent.sandbox_template);
  field("environment", agent.environment);
  field.json("network", agent.network);
  field("tools", agent.tools);
  field("asks", agent.asks);
  field("judged", agent.judged);
  field.each("custom", agent.custom);
  field.each("memory", agent.memory);
  field.each("servers", agent.servers);
  field("web", agent.web);
  field("outside", agent.outside);
  field("answer_tokens", agent.answer_tokens);
  field("context_tokens", agent.context_tokens);
  field("calls_per_turn", agent.calls_per_turn);
  field("budget_nano", agent.budget_nano);
  field("budget_tokens", agent.budget_tokens);
  field("checkpoints", agent.checkpoints);
  field("depth", agent.depth);
  field("has_threads", agent.has_threads);
  field("makes_members", agent.makes_members);
  std::vector<AgentSpec> members = agent.members.all();
  field.each("members", members);
  agent.members = Members(std::move(members));
  field("description", agent.description);
  field("machine_of", agent.machine_of);
  field("harness", agent.harness);
  field("harness_in_machine", agent.harness_in_machine);
}

template <class Field>
void each_field(Field& field, Created& event) {
  field("agent", event.agent);
  field("parent", event.parent);
  field("parent_call", event.parent_call);
  field("untrusted", event.untrusted);
  field("node", event.node);
}

template <class Field>
void each_field(Field& field, UserMessage& event) {
  field.blocks("content", event.content);
  field("dedupe", event.dedupe);
  field("of_system", event.of_system);
}

template <class Field>
void each_field(Field& field, UserDecision& event) {
  field("call", event.call);
  field("allowed", event.allowed);
  field("message", event.message);
}

template <class Field>
void each_field(Field& field, UserToolResult& event) {
  field("call", event.call);
  field.blocks("content", event.content);
  field("is_error", event.is_error);
}

template <class Field>
void each_field(Field& field, AgentChanged& event) {
  field("agent", event.agent);
}

template <class Field>
void each_field(Field& field, Updated& event) {
  field("number", event.number);
  field.json("changes", event.changes);
}

template <class Field>
void each_field(Field& field, ThreadArchived& event) {
  field("call", event.call);
}

template <class Field>
void each_field(Field&, Archived&) {}

template <class Field>
void each_field(Field& field, UserAnswer& event) {
  field("call", event.call);
  field("text", event.text);
}

template <class Field>
void each_field(Field&, Interrupted&) {}
template <class Field>
void each_field(Field&, TimerFired&) {}

template <class Field>
void each_field(Field& field, Resumed& event) {
  field("epoch", event.epoch);
  field("node", event.node);
  field("unpaid", event.unpaid);
}

template <class Field>
void each_field(Field& field, ModelAsked& event) {
  field.word("purpose", event.purpose,
             std::array<std::string_view, 3>{"reply", "summary", "grade"});
  field("attempt", event.attempt);
  field("digest", event.digest);
}

template <class Field>
void each_field(Field& field, ToolCalled& event) {
  field("asked", event.asked);
  field("block", event.block);
  field("tool_use_id", event.tool_use_id);
  field("name", event.name);
  field.json("input", event.input);
  field.json("shown", event.shown);
  field("asks", event.asks);
}

template <class Field>
void each_field(Field& field, Said& event) {
  field("text", event.text);
  field("redacted", event.redacted);
}

template <class Field>
void each_field(Field& field, SandboxReleased& event) {
  field("sandbox", event.sandbox);
}

constexpr std::array<std::string_view, 8> kEndReasons = {
    "end_turn",       "interrupted", "budget_reached",    "call_limit",
    "answer_cut_off", "refusal",     "retries_exhausted", "model_failed"};
constexpr std::array<std::string_view, 5> kTroubles = {"passing", "lasting", "budget", "too_long",
                                                       "interrupted"};
constexpr std::array<std::string_view, 3> kModelFaults = {"other", "rate_limited", "overloaded"};
constexpr std::array<std::string_view, 3> kToolOutcomes = {"done", "refused", "interrupted"};
constexpr std::array<std::string_view, 3> kServerFaults = {"connection", "authentication", "tools"};

template <class Field>
void each_field(Field&, Equipping&) {}

template <class Field>
void each_field(Field& field, ServerTool& tool) {
  field("server", tool.server);
  field("name", tool.name);
  field("alias", tool.alias);
  field.json("definition", tool.definition);
  field("asks", tool.asks);
}

template <class Field>
void each_field(Field& field, ServerTrouble& trouble) {
  field("server", trouble.server);
  field.word("fault", trouble.fault, kServerFaults);
  field("message", trouble.message);
  field("redacted", trouble.redacted);
}

template <class Field>
void each_field(Field& field, Equipped& event) {
  field("asked", event.asked);
  field("notes", event.notes);
  field.each("tools", event.tools);
  field("same_tools", event.same_tools);
}

template <class Field>
void each_field(Field& field, TurnEnded& event) {
  field.word("reason", event.reason, kEndReasons);
  field("message", event.message);
  field("active_ms", event.active_ms);
}

constexpr std::array<std::string_view, 3> kVerdicts = {"satisfied", "needs_revision", "failed"};
constexpr std::array<std::string_view, 4> kThreadStatuses = {"running", "waits", "rescheduled",
                                                             "ended"};

template <class Field>
void each_field(Field& field, ThreadChanged& event) {
  field("call", event.call);
  field("seen", event.seen);
  field.word("status", event.status, kThreadStatuses);
  field.word("ended", event.ended, kEndReasons);
  field("waits", event.waits);
  field.blocks("posted", event.posted);
}

template <class Field>
void each_field(Field& field, OutcomeDefined& event) {
  field("id", event.id);
  field("description", event.description);
  field("rubric", event.rubric);
  field("iterations_max", event.iterations_max);
}

template <class Field>
void each_field(Field& field, AgentCharged& event) {
  field("agent", event.agent);
  field("usage", event.usage);
}

template <class Field>
void each_field(Field& field, ModelCharged& event) {
  field("question", event.question);
  field("usage", event.usage);
}

template <class Field>
void each_field(Field& field, AccessAsked& event) {
  field("request", event.request);
  field("host", event.host);
  field("port", event.port);
  field.json("wish", event.wish);
  field("node", event.node);
}

constexpr std::array<std::string_view, 4> kAccessOutcomes = {"allowed", "denied", "withdrawn",
                                                             "failed"};

template <class Field>
void each_field(Field& field, AccessEnded& event) {
  field("request", event.request);
  field.word("outcome", event.outcome, kAccessOutcomes);
  field("message", event.message);
}

template <class Field>
void each_field(Field& field, OutcomeGraded& event) {
  field("asked", event.asked);
  field.word("verdict", event.verdict, kVerdicts);
  field("explanation", event.explanation);
  field("shown", event.shown);
  field("redacted", event.redacted);
  field("usage", event.usage);
  field("took_ms", event.took_ms);
}

template <class Field>
void each_field(Field& field, ModelAnswered& event) {
  field("asked", event.asked);
  field.json("content", event.content);
  field.json("shown", event.shown);
  field("redacted", event.redacted);
  field("stop_reason", event.stop_reason);
  field("model", event.model);
  field("usage", event.usage);
  field("first_ms", event.first_ms);
  field("took_ms", event.took_ms);
}

template <class Field>
void each_field(Field& field, ContextSummarised& event) {
  field("asked", event.asked);
  field("summary", event.summary);
  field("shown", event.shown);
  field("redacted", event.redacted);
  field("usage", event.usage);
  field("took_ms", event.took_ms);
}

template <class Field>
void each_field(Field& field, ModelFailed& event) {
  field("asked", event.asked);
  field.word("trouble", event.trouble, kTroubles);
  field.word_or_first("fault", event.fault, kModelFaults);
  field("message", event.message);
  field("wait_ms", event.wait_ms);
  field("usage", event.usage);
  field("redacted", event.redacted);
  field("unpaid", event.unpaid);
}

template <class Field>
void each_field(Field& field, SandboxBound& event) {
  field("call", event.call);
  field("sandbox", event.sandbox);
  field("template", event.sandbox_template);
  field("kept", event.kept);
  field("known_as", event.known_as);
  field("node", event.node);
}

template <class Field>
void each_field(Field& field, ToolEnded& event) {
  field("call", event.call);
  field.word("outcome", event.outcome, kToolOutcomes);
  field("is_error", event.is_error);
  field("text", event.text);
  field("shown", event.shown);
  field("redacted", event.redacted);
  field("full", event.full);
  field("full_bytes", event.full_bytes);
  field("sandbox", event.sandbox);
  field("checkpoint", event.checkpoint);
  field("usage", event.usage);
  field("untrusted", event.untrusted);
  field("took_ms", event.took_ms);
}

template <class Field>
void each_field(Field& field, Forked& event) {
  field("from", event.from);
  field("at", event.at);
}

constexpr std::array<std::string_view, std::variant_size_v<Event>> kTypes = {
    "session.created",    "user.message",     "user.answer",      "user.interrupt",
    "timer.fired",        "session.resumed",  "model.asked",      "tool.called",
    "agent.message",      "sandbox.released", "turn.ended",       "model.answered",
    "context.summarised", "model.failed",     "sandbox.bound",    "tool.ended",
    "session.forked",     "user.decision",    "user.tool_result", "agent.changed",
    "session.equipping",  "session.equipped", "server.trouble",   "thread.changed",
    "outcome.defined",    "outcome.graded",   "agent.charged",    "access.asked",
    "access.ended",       "model.charged",    "session.updated",  "thread.archived",
    "session.archived"};

// Of a stored event: more than anything in it may have.
constexpr JsonLimits kLimits{.depth = 128, .bytes = std::size_t{64} << 20};

// ---- writing

struct Writer {
  Json out = Json::object();

  // Fields that hold nothing are left out: most are empty most of the time.
  void operator()(const char* name, const std::string& text) {
    if (!text.empty()) out[name] = text;
  }
  void operator()(const char* name, std::int64_t number) {
    if (number != 0) out[name] = number;
  }
  void operator()(const char* name, bool flag) {
    if (flag) out[name] = true;
  }
  void operator()(const char* name, const std::vector<std::string>& texts) {
    if (!texts.empty()) out[name] = texts;
  }
  void operator()(const char* name, const std::vector<Seq>& numbers) {
    if (!numbers.empty()) out[name] = numbers;
  }
  template <PartOfEvent Part>
  void operator()(const char* name, Part& part) {
    Writer inner;
    each_field(inner, part);
    // An agent that is left out is the usual one, which is not an empty one.
    if (!inner.out.empty() || std::same_as<Part, AgentSpec>) out[name] = std::move(inner.out);
  }
  template <PartOfEvent Part>
  void each(const char* name, std::vector<Part>& parts) {
    for (Part& part : parts) {
      Writer inner;
      each_field(inner, part);
      out[name].push_back(std::move(inner.out));
    }
  }
  void json(const char* name, const std::string& text) {
    if (text.empty()) return;
    auto parsed = parse_json(text, kLimits);
    out[name] = parsed ? std::move(*parsed) : Json(text);
  }
  void blocks(const char* name, const std::string& text) { json(name, text); }
  template <class Word, std::size_t N>
  void word(const char* name, Word value, const std::array<std::string_view, N>& words) {
    out[name] = words[static_cast<std::size_t>(value)];
  }
  // Events of older programs have no such field.
  template <class Word, std::size_t N>
  void word_or_first(const char* name, Word value, const std::array<std::string_view, N>& words) {
    if (value != Word{}) word(name, value, words);
  }
};

// ---- reading: the first thing that is wrong stays

struct Reader {
  const Json& in;
  std::string wrong;

  const Json* find(const char* name) const {
    const auto found = in.find(name);
    return found == in.end() ? nullptr : &*found;
  }
  void refuse(const char* name) {
    if (wrong.empty()) wrong = name;
  }
  void operator()(const char* name, std::string& text) {
    if (const Json* value = find(name)) {
      if (!value->is_string()) return refuse(name);
      text = value->get<std::string>();
    } else {
      text.clear();
    }
  }
  void operator()(const char* name, std::int64_t& number) {
    number = 0;
    if (const Json* value = find(name)) {
      if (!is_number(*value)) return refuse(name);
      number = value->get<std::int64_t>();
    }
  }
  void operator()(const char* name, bool& flag) {
    flag = false;
    if (const Json* value = find(name)) {
      if (!value->is_boolean()) return refuse(name);
      flag = value->get<bool>();
    }
  }
  void operator()(const char* name, std::vector<std::string>& texts) {
    texts.clear();
    const Json* value = find(name);
    if (value == nullptr) return;
    if (!value->is_array()) return refuse(name);
    for (const Json& text : *value) {
      if (!text.is_string()) return refuse(name);
      texts.push_back(text.get<std::string>());
    }
  }
  void operator()(const char* name, std::vector<Seq>& numbers) {
    numbers.clear();
    const Json* value = find(name);
    if (value == nullptr) return;
    if (!value->is_array()) return refuse(name);
    for (const Json& number : *value) {
      if (!is_number(number)) return refuse(name);
      numbers.push_back(number.get<Seq>());
    }
  }
  template <PartOfEvent Part>
  void operator()(const char* name, Part& part) {
    part = {};
    const Json* value = find(name);
    if (value == nullptr) return;
    if (!value->is_object()) return refuse(name);
    Reader inner{.in = *value, .wrong = {}};
    each_field(inner, part);
    if (!inner.wrong.empty()) refuse(name);
  }
  template <PartOfEvent Part>
  void each(const char* name, std::vector<Part>& parts) {
    parts.clear();
    const Json* value = find(name);
    if (value == nullptr) return;
    if (!value->is_array()) return refuse(name);
    for (const Json& part : *value) {
      if (!part.is_object()) return refuse(name);
      Reader inner{.in = part, .wrong = {}};
      each_field(inner, parts.emplace_back());
      if (!inner.wrong.empty()) refuse(name);
    }
  }
  static bool is_number(const Json& value) {
    if (value.is_number_unsigned())
      return value.get<std::uint64_t>() <= static_cast<std::uint64_t>(kNumberMax);
    return value.is_number_integer() && value.get<std::int64_t>() >= -kNumberMax;
  }
  void json(const char* name, std::string& text) {
    const Json* value = find(name);
    text = value == nullptr ? std::string() : dump_json(*value);
  }
  void blocks(const char* name, std::string& text) {
    json(name, text);
    if (const Json* value = find(name); value != nullptr && !value->is_array()) refuse(name);
  }
  template <class Word, std::size_t N>
  void word(const char* name, Word& value, const std::array<std::string_view, N>& words) {
    const Json* text = find(name);
    if (text != nullptr && text->is_string())
      for (std::size_t i = 0; i < N; ++i)
        if (text->get_ref<const std::string&>() == words[i]) {
          value = static_cast<Word>(i);
          return;
        }
    refuse(name);
  }
  template <class Word, std::size_t N>
  void word_or_first(const char* name, Word& value, const std::array<std::string_view, N>& words) {
    value = {};
    if (find(name) != nullptr) word(name, value, words);
  }
};

template <std::size_t I = 0>
Result<Event> read_as(std::string_view type, const Json& json) {
  if constexpr (I == std::variant_size_v<Event>) {
    return make_error(ErrorCode::kIo, "read event", fmt::format("unknown type \"{}\"", type));
  } else {
    if (type != kTypes[I]) return read_as<I + 1>(type, json);
    std::variant_alternative_t<I, Event> event;
    Reader reader{.in = json, .wrong = {}};
    each_field(reader, event);
    if (!reader.wrong.empty())
      return make_error(ErrorCode::kIo, "read event",
                        fmt::format("{}: \"{}\" is not what it should be", type, reader.wrong));
    return Event(std::move(event));
  }
}

Json to_json(Event event) {
  Writer writer;
  std::visit([&](auto& alternative) { each_field(writer, alternative); }, event);
  return std::move(writer.out);
}

// What others may see takes the place of the original.
void show_less(Json& json, const char* original) {
  if (const auto shown = json.find("shown"); shown != json.end()) {
    json[original] = *shown;
    json.erase("shown");
  }
}

}  // namespace

Members::Members(std::vector<AgentSpec> agents) {
  if (!agents.empty()) agents_ = std::make_shared<const std::vector<AgentSpec>>(std::move(agents));
}

const std::vector<AgentSpec>& Members::all() const {
  static const std::vector<AgentSpec> kNone;
  return agents_ ? *agents_ : kNone;
}

const AgentSpec* Members::find(std::string_view name) const {
  const auto found = std::ranges::find(all(), name, &AgentSpec::name);
  return found == all().end() ? nullptr : &*found;
}

bool Members::operator==(const Members& other) const {
  return agents_ == other.agents_ || all() == other.all();
}

Usage& Usage::operator+=(const Usage& other) {
  const auto add = [](std::int64_t& sum, std::int64_t more) {
    sum = std::clamp(sum + more, -kNumberMax, kNumberMax);
  };
  add(input, other.input);
  add(cache_read, other.cache_read);
  add(cache_write, other.cache_write);
  add(output, other.output);
  add(cost_nano, other.cost_nano);
  return *this;
}

std::string_view name_of(EndReason reason) {
  return kEndReasons[static_cast<std::size_t>(reason)];
}
std::string_view name_of(Trouble trouble) {
  return kTroubles[static_cast<std::size_t>(trouble)];
}
std::string_view name_of(ServerFault fault) {
  return kServerFaults[static_cast<std::size_t>(fault)];
}
std::string_view name_of(Verdict verdict) {
  return kVerdicts[static_cast<std::size_t>(verdict)];
}
std::string_view name_of(AccessOutcome outcome) {
  return kAccessOutcomes[static_cast<std::size_t>(outcome)];
}
std::string_view name_of(ToolOutcome outcome) {
  return kToolOutcomes[static_cast<std::size_t>(outcome)];
}

std::string_view type_of(const Event& event) {
  return kTypes[event.index()];
}

std::string write_body(const Event& event) {
  return dump_json(to_json(event));
}

Result<Event> read_event(std::string_view type, std::string_view body) {
  const auto json = parse_json(body, kLimits);
  if (!json || !json->is_object())
    return make_error(ErrorCode::kIo, "read event", "its body is no JSON object");
  return read_as(type, *json);
}

std::string write_public(const StoredEvent& stored) {
  Json json = {{"seq", stored.seq}, {"at_unix_ms", stored.at_ms}, {"type", type_of(stored.event)}};
  Json fields = to_json(stored.event);
  show_less(fields, std::holds_alternative<ModelAnswered>(stored.event)       ? "content"
                    : std::holds_alternative<ToolCalled>(stored.event)        ? "input"
                    : std::holds_alternative<ContextSummarised>(stored.event) ? "summary"
                    : std::holds_alternative<OutcomeGraded>(stored.event)     ? "explanation"
                                                                              : "text");
  fields.erase("digest");
  // Notes are in their stores, for those who may read them.
  fields.erase("notes");
  json.update(fields);
  return dump_json(json);
}

}  // namespace pons::session
