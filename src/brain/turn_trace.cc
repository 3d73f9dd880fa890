#include "turn_trace.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "pons/session/tools.h"

namespace pons::brain {

namespace {

using session::EndReason;
using session::Seq;
using telemetry::Span;

constexpr std::size_t kPiecesMax = telemetry::kSpansMax - 1;  // the turn is one, too
constexpr std::size_t kTextMax = 128;

// Of what a provider or a model has written.
std::string cut(std::string_view text) {
  return std::string(text.substr(0, kTextMax));
}

// A name that the model has made up may be anything.
std::string tool_name(std::string_view name) {
  static constexpr std::array kNames = {session::kProvision, session::kExecute, session::kAskHuman,
                                        session::kSpawnAgent};
  return std::ranges::find(kNames, name) == kNames.end() ? "unknown" : std::string(name);
}

bool is_failure(EndReason reason) {
  return reason == EndReason::kBudgetReached || reason == EndReason::kCallLimit ||
         reason == EndReason::kRetriesExhausted || reason == EndReason::kModelFailed;
}

std::vector<std::pair<std::string, Span::Value>> usage_attributes(const session::Usage& usage) {
  return {{"gen_ai.usage.input_tokens", usage.input + usage.cache_read + usage.cache_write},
          {"gen_ai.usage.output_tokens", usage.output},
          {"gen_ai.usage.cache_read.input_tokens", usage.cache_read},
          {"gen_ai.usage.cache_creation.input_tokens", usage.cache_write},
          {"pons.usage.cost_nano_usd", usage.cost_nano}};
}

}  // namespace

struct TurnTrace::Noting {
  TurnTrace& turn;
  const session::StoredEvent& stored;

  void operator()(const session::Created& event) const { turn.created_ = event; }
  void operator()(const session::UserMessage&) const {
    // In a turn that was taken up again, a further message is not the first.
    if (turn.is_idle() || turn.is_over()) turn.begin(stored.seq, stored.at_ms);
  }
  void operator()(const session::Resumed&) const { turn.resumed_ = true; }
  void operator()(const session::Forked&) const {
    turn.begin(0, 0);  // what is before it is another session's
  }
  void operator()(const session::ModelAsked& event) const {
    Piece piece{.seq = stored.seq, .is_model = true, .begun_ms = stored.at_ms};
    if (event.purpose == session::Purpose::kSummary)
      piece.attributes.emplace_back("pons.purpose", "summary");
    if (event.attempt > 1) piece.attributes.emplace_back("pons.attempt", event.attempt);
    turn.open(std::move(piece));
  }
  void operator()(const session::ModelAnswered& event) const {
    Piece* piece = turn.close(event.asked, stored.at_ms);
    if (piece == nullptr) return;
    piece->attributes.emplace_back("gen_ai.response.model", cut(event.model));
    piece->attributes.emplace_back("gen_ai.response.finish_reasons",
                                   std::vector<std::string>{cut(event.stop_reason)});
    piece->attributes.emplace_back("gen_ai.response.time_to_first_chunk",
                                   static_cast<double>(event.first_ms) / 1'000);
    turn.add_usage(*piece, event.usage);
  }
  void operator()(const session::ContextSummarised& event) const {
    if (Piece* piece = turn.close(event.asked, stored.at_ms)) turn.add_usage(*piece, event.usage);
  }
  void operator()(const session::ModelFailed& event) const {
    if (Piece* piece = turn.close(event.asked, stored.at_ms)) piece->error = name_of(event.trouble);
  }
  void operator()(const session::ToolCalled& event) const {
    Piece piece{.seq = stored.seq, .name = tool_name(event.name), .begun_ms = stored.at_ms};
    piece.attributes.emplace_back("gen_ai.tool.call.id", cut(event.tool_use_id));
    turn.open(std::move(piece));
  }
  void operator()(const session::ToolEnded& event) const {
    Piece* piece = turn.close(event.call, stored.at_ms);
    if (piece == nullptr) return;
    turn.usage_ += event.usage;
    if (event.outcome != session::ToolOutcome::kDone)
      piece->error = name_of(event.outcome);
    else if (event.is_error)
      piece->error = "tool_error";
  }
  void operator()(const session::UserAnswer& event) const { turn.close(event.call, stored.at_ms); }
  void operator()(const session::TurnEnded& event) const {
    if (turn.is_over()) return;
    turn.end_ = event.reason;
    turn.ended_ms_ = stored.at_ms;
    turn.last_ = stored.seq;
  }
  void operator()(const auto&) const {}
};

void TurnTrace::add(const session::StoredEvent& stored) {
  std::visit(Noting{*this, stored}, stored.event);
}

void TurnTrace::begin(Seq seq, std::int64_t at_ms) {
  std::optional<session::Created> created = std::move(created_);
  *this = TurnTrace(std::move(session_));
  created_ = std::move(created);
  first_ = seq;
  begun_ms_ = at_ms;
}

void TurnTrace::open(Piece piece) {
  if (is_over()) return;
  if (pieces_.size() >= kPiecesMax) {
    ++left_out_;
    return;
  }
  open_[piece.seq] = pieces_.size();
  pieces_.push_back(std::move(piece));
}

TurnTrace::Piece* TurnTrace::close(Seq seq, std::int64_t at_ms) {
  const auto found = open_.find(seq);
  if (found == open_.end() || is_over()) return nullptr;
  Piece& piece = pieces_[found->second];
  piece.ended_ms = at_ms;
  open_.erase(found);
  return &piece;
}

void TurnTrace::add_usage(Piece& piece, const session::Usage& usage) {
  usage_ += usage;
  std::ranges::move(usage_attributes(usage), std::back_inserter(piece.attributes));
}

std::string TurnTrace::words(Seq seq) const {
  return fmt::format("{}:{}", session_, seq);
}

std::vector<Span> TurnTrace::spans() const {
  if (!is_over() || first_ == 0) return {};
  const std::string trace = telemetry::trace_id_of(words(first_));
  std::vector<Span> spans = {turn_span(trace)};
  for (const Piece& piece : pieces_) spans.push_back(span_of(piece, trace));
  return spans;
}

Span TurnTrace::turn_span(const std::string& trace) const {
  const session::Created created = created_.value_or(session::Created{});
  Span span{.trace_id = trace,
            .span_id = telemetry::span_id_of(words(first_)),
            .name = "invoke_agent " + created.agent.name,
            .begun_ms = begun_ms_,
            .ended_ms = ended_ms_,
            .attributes = {{"gen_ai.operation.name", "invoke_agent"},
                           {"gen_ai.agent.name", created.agent.name},
                           {"gen_ai.conversation.id", session_},
                           {"gen_ai.request.model", created.agent.model},
                           {"pons.turn.ended", std::string(name_of(*end_))}},
            .failed = is_failure(*end_)};
  std::ranges::move(usage_attributes(usage_), std::back_inserter(span.attributes));
  if (!created.parent.empty())
    span.attributes.emplace_back("pons.parent.conversation.id", created.parent);
  if (left_out_ > 0) span.attributes.emplace_back("pons.spans.left_out", left_out_);
  if (span.failed) span.attributes.emplace_back("error.type", std::string(name_of(*end_)));
  return span;
}

Span TurnTrace::span_of(const Piece& piece, const std::string& trace) const {
  const std::string model = created_ ? created_->agent.model : std::string();
  Span span{.trace_id = trace,
            .span_id = telemetry::span_id_of(words(piece.seq)),
            .parent_id = telemetry::span_id_of(words(first_)),
            .name = piece.is_model ? "chat " + model : "execute_tool " + piece.name,
            .kind = piece.is_model ? Span::Kind::kClient : Span::Kind::kInternal,
            .begun_ms = piece.begun_ms,
            .ended_ms = piece.ended_ms.value_or(ended_ms_)};
  if (piece.is_model) {
    span.attributes = {{"gen_ai.operation.name", "chat"},
                       {"gen_ai.conversation.id", session_},
                       {"gen_ai.request.model", model}};
  } else {
    span.attributes = {{"gen_ai.operation.name", "execute_tool"},
                       {"gen_ai.conversation.id", session_},
                       {"gen_ai.tool.name", piece.name},
                       {"gen_ai.tool.type", "function"}};
  }
  std::ranges::copy(piece.attributes, std::back_inserter(span.attributes));
  // What nobody has ended is ended with the turn.
  const std::string error = piece.ended_ms ? piece.error : "interrupted";
  span.failed = !error.empty();
  if (span.failed) span.attributes.emplace_back("error.type", error);
  return span;
}

}  // namespace pons::brain
