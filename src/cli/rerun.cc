#include "rerun.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/id.h"
#include "pons/base/text.h"
#include "pons/session/machine_tools.h"
#include "pons/session/tool_text.h"
#include "text_diff.h"

namespace pons::cli {

namespace {

constexpr Duration kDestroyTime = std::chrono::seconds(30);

std::string words_of(const Error& error) {
  return error.message.empty() ? error.describe() : error.message;
}

}  // namespace

Rerun::Rerun(linux::Loop& loop, session::Hands& hands, const Commands& commands, Place place,
             FetchOutput fetch)
    : loop_(loop),
      hands_(hands),
      commands_(commands),
      place_(std::move(place)),
      fetch_(std::move(fetch)),
      prefix_("replay-" + random_text(10)) {
  for (char& c : prefix_) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

Task<> Rerun::run() {
  for (const Then& then : commands_.all) {
    Comparison comparison = co_await compare(then);
    if (then.incomparable.empty() || !comparison.error.empty())
      comparisons_.push_back(std::move(comparison));
    ++done_;
  }
}

// Made once; where that failed, it is not tried again for each command.
Task<Result<std::string>> Rerun::sandbox_for(const Then& then) {
  const auto [entry, is_new] =
      made_.try_emplace(then.sandbox, Made{.id = fmt::format("{}-{}", prefix_, made_.size())});
  Made& made = entry->second;
  if (is_new) {
    const auto own = commands_.templates.find(then.sandbox);
    std::string start = place_.template_name;
    if (start.empty()) start = own == commands_.templates.end() ? "host" : own->second;
    const auto provided = co_await hands_.provision({.sandbox = made.id,
                                                     .sandbox_template = std::move(start),
                                                     .environment = {},
                                                     .session = {},
                                                     .project = place_.project});
    if (!provided) made.error = provided.error();
  }
  if (made.error) co_return *made.error;
  co_return made.id;
}

Task<Comparison> Rerun::compare(const Then& then) {
  Comparison comparison{.then = &then};
  const auto sandbox = co_await sandbox_for(then);
  if (!sandbox) {
    comparison.error = "its sandbox could not be made: " + words_of(sandbox.error());
    co_return comparison;
  }
  session::ExecuteOrder order = then.order;
  order.sandbox = *sandbox;
  auto report = co_await hands_.execute(std::move(order));
  if (!report) {
    comparison.error = words_of(report.error());
    co_return comparison;
  }
  comparison.took_ms = report->took_ms;
  if (report->end == session::ExecuteReport::End::kExit) comparison.exit_code = report->code;
  session::ToolText now = session::is_machine_tool(then.tool)
                              ? session::describe_machine(then.tool, std::move(*report))
                              : session::describe(std::move(*report));
  comparison.now = std::move(now.text);
  if (now.full) comparison.full = now.full->digest;
  const Told before = read_result(then.result);
  Told after = read_result(comparison.now);
  // Of a long output the text shows only the beginning and the end.
  comparison.is_same =
      before == after && then.full == comparison.full && then.is_error == now.is_error;
  const bool is_compared = then.incomparable.empty();
  if (is_compared && (before.output != after.output || then.full != comparison.full))
    co_await diff(comparison, before.output,
                  now.full ? std::move(now.full->bytes) : std::move(after.output));
  co_return comparison;
}

Task<> Rerun::diff(Comparison& comparison, const std::string& before, std::string now) {
  const std::string& digest = comparison.then->full;
  Result<std::string> full = before;
  if (!digest.empty()) full = co_await fetch_(digest);
  if (!full) {  // only what the model was shown is left of it
    full = before;
    now = read_result(comparison.now).output;
  }
  comparison.diff = unified_diff(*full, now);
}

Task<std::vector<std::string>> Rerun::clean_up() {
  std::vector<std::string> left;
  const TimePoint deadline = loop_.now() + kDestroyTime;
  for (const auto& [name, made] : made_) {
    const auto destroyed = co_await linux::within(loop_, deadline, hands_.destroy(made.id));
    const bool is_gone =
        destroyed && (*destroyed || destroyed->error().code == ErrorCode::kNotFound);
    if (!is_gone) left.push_back(made.id);
  }
  co_return left;
}

std::vector<Skipped> Rerun::skipped() const {
  std::vector<Skipped> all = commands_.skipped;
  for (std::size_t i = 0; i < commands_.all.size(); ++i) {
    const Then& then = commands_.all[i];
    if (i >= done_)
      all.push_back({then.seq, then.tool, "the comparison was interrupted before it had ended"});
    else if (!then.incomparable.empty() &&
             std::ranges::find(comparisons_, &then, &Comparison::then) == comparisons_.end())
      all.push_back({then.seq, then.tool, then.incomparable});
  }
  return all;
}

}  // namespace pons::cli
