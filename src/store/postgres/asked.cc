#include "asked.h"

#include <algorithm>

#include <fmt/format.h>

#include "fault.h"
#include "frontend_message.h"
#include "sql_shape.h"
#include "values.h"

namespace pons::store::postgres {

namespace {

constexpr std::size_t kHeardOutMax = 8;  // times what is allowed

Error broken() {
  return make_error(ErrorCode::kInvalid, "hear PostgreSQL",
                    "the server does not keep to its protocol: an answer to nothing");
}

}  // namespace

Result<Asked> Asked::ask(std::shared_ptr<Request> request, PreparedStatements& prepared,
                         AnswerLimits limits, std::string& out) {
  Asked asked(std::move(request), limits);
  if (!asked.request_->script.empty()) {
    write_query(asked.request_->script, out);
    return asked;
  }
  std::string closing;
  std::string saying;
  for (const Statement& statement : asked.request_->statements) {
    const auto added = asked.add(statement, prepared, closing, saying);
    if (added) continue;
    // What was to be prepared on the way is not.
    for (const Step& step : asked.steps_)
      if (step.is_new) prepared.forget(*step.prepared);
    return added.error();
  }
  out += closing;  // first: what follows an error would be skipped
  out += saying;
  write_sync(out);
  return asked;
}

Result<void> Asked::add(const Statement& statement, PreparedStatements& prepared,
                        std::string& closing, std::string& saying) {
  const SqlShape shape = TRY(read_shape(statement));
  const bool guards = statement.must_change.has_value();
  if (guards && !shape.changes)
    return make_error(ErrorCode::kInvalid, "ask store", "only what changes rows can count them");
  const std::string text = guards ? guarded(statement, shape) : statement.sql;
  auto found = prepared.find_or_add(text, statement.values, closing);
  if (found.is_new) write_parse(found.prepared->name, text, statement.values, saying);
  // One more than allowed, so that it is seen that there are more.
  write_execute(found.prepared->name, statement.values,
                static_cast<std::uint32_t>(limits_.rows + 1), saying);
  steps_.push_back({.prepared = std::move(found.prepared),
                    .is_new = found.is_new,
                    .guarded = guards,
                    .returns = shape.returns});
  return {};
}

Result<void> Asked::hear(const BackendMessage& message) {
  if (!request_->script.empty()) return {};
  if (at_ >= steps_.size() || fault_) return broken();
  Prepared& prepared = *steps_[at_].prepared;
  switch (message.type) {
    case backend::kParseComplete:
      prepared.parsed = true;
      return {};
    case backend::kParameters:
    case backend::kNoData:
      return {};
    case backend::kRowDescription:
      prepared.columns = TRY(read_row_description(message.body));
      return {};
    case backend::kBindComplete:
      if (outcomes_.size() != at_) return broken();
      outcomes_.emplace_back();
      row_bytes_ = 0;
      return {};
    case backend::kDataRow:
      return hear_row(message.body);
    case backend::kCommandComplete:
      return end_statement(TRY(read_changed(message.body)));
    case backend::kPortalSuspended:
    case backend::kEmptyQuery:
      return end_statement(0);
    default:
      return broken();
  }
}

Result<void> Asked::hear_row(std::string_view body) {
  if (outcomes_.size() != at_ + 1) return broken();
  Outcome& outcome = outcomes_.back();
  row_bytes_ += body.size();
  if (outcome.rows.size() >= limits_.rows || row_bytes_ > limits_.row_bytes) {
    failure_ = make_error(ErrorCode::kLimit, "ask store",
                          fmt::format("the answer is too large (at most {} rows and {} bytes)",
                                      limits_.rows, limits_.row_bytes));
    // To hear the rest out is cheaper than a new connection, unless it has no end.
    if (request_->may_repeat && row_bytes_ > kHeardOutMax * limits_.row_bytes) return *failure_;
    return {};
  }
  auto row = read_row(steps_[at_].prepared->columns, body);
  if (!row && row.error().code != ErrorCode::kUnsupported) return row.error();
  if (!row)
    failure_ = std::move(row.error());
  else
    outcome.rows.push_back(std::move(*row));
  return {};
}

Result<void> Asked::end_statement(std::int64_t changed) {
  if (outcomes_.size() != at_ + 1) return broken();
  const Step& step = steps_[at_++];
  Outcome& outcome = outcomes_.back();
  outcome.changed = changed;
  if (!step.guarded) return {};
  if (outcome.rows.empty()) return broken();
  outcome.changed = TRY(integer_of(outcome.rows.front(), 0));
  if (outcome.changed == 0 || !step.returns) outcome.rows.clear();
  for (Row& row : outcome.rows) row.erase(row.begin());
  return {};
}

void Asked::hear_fault(Fault fault) {
  if (!fault_) fault_ = std::move(fault);
}

Result<std::vector<Outcome>> Asked::finish(PreparedStatements& prepared) {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const bool was_skipped = step.is_new && !step.prepared->parsed;
    // The table behind it may have changed, or somebody has cleared what was prepared.
    const bool is_stale =
        fault_ && i == at_ && (fault_->state == "0A000" || fault_->state == "26000");
    if (was_skipped || is_stale) prepared.forget(*step.prepared);
  }
  if (fault_) {
    Error error = error_of(*fault_);
    const auto rows = rows_of_guard(fault_->message);
    if (error.code == ErrorCode::kConflict && rows && at_ < request_->statements.size())
      error.message = fmt::format("{} rows were to change, and {} would have",
                                  request_->statements[at_].must_change.value_or(0), *rows);
    return error;
  }
  if (failure_) return *failure_;
  if (at_ != steps_.size()) return broken();
  return std::move(outcomes_);
}

}  // namespace pons::store::postgres
