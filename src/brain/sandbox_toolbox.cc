#include "sandbox_toolbox.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/id.h"
#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/base/text.h"

namespace pons::brain {

namespace {

using session::ToolText;

constexpr std::size_t kSandboxesPerSession = 20;
constexpr std::size_t kKeptPerProject = 50;
constexpr Duration kPatience = std::chrono::seconds(30);
constexpr Duration kLongestPause = std::chrono::seconds(30);
constexpr int kTriesMax = 40;

// No session of an agent has a name with a colon in it.
constexpr std::string_view kLabelPrefix = "mcp:";
constexpr std::string_view kKeptLabel = "mcp:kept";
constexpr const char* kSessionLabel = "pons.session";
constexpr const char* kProjectLabel = "pons.project";

std::string label_of(const std::string& session) {
  return std::string(kLabelPrefix) + session;
}

std::string label(const sandbox::SandboxInfo& info, const char* name) {
  const auto found = info.labels.find(name);
  return found == info.labels.end() ? std::string() : found->second;
}

bool is_kept_by(const sandbox::SandboxInfo& info, const std::string& project) {
  return label(info, kSessionLabel) == kKeptLabel && label(info, kProjectLabel) == project;
}

ToolText refusal(const Error& error) {
  return session::describe(error.message.empty() ? error.describe() : error.message, true);
}

// What a failed request to the hands means to the caller.
ToolText failure(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalid:
    case ErrorCode::kLimit:
    case ErrorCode::kUnsupported:
    case ErrorCode::kDenied:
      return refusal(error);
    default:
      return session::describe(
          fmt::format("interrupted: {}. It may have run; look before you run it again",
                      error.message.empty() ? error.describe() : error.message),
          true);
  }
}

Error no_sandbox(const std::string& name) {
  return make_error(
      ErrorCode::kInvalid, "execute",
      name.empty()
          ? "There is no sandbox yet. Call sandbox_provision first."
          : fmt::format("There is no sandbox {}. sandbox_provision gives you a new one.", name));
}

// An agent's sandboxes end with its turn; here a session is what comes nearest to one.
void say_session(Json& tool) {
  if (tool.at("name") != session::kProvision) return;
  tool["description"] =
      "Takes a fresh, isolated Linux sandbox for a task and returns its id and what is in it. "
      "Cheap: about a millisecond. It ends with this MCP session unless keep is true.";
  tool["inputSchema"]["properties"]["keep"]["description"] =
      "True: it outlives this session, and is found by its id in others of the same project until "
      "nobody has used it for hours.";
}

}  // namespace

bool SandboxToolbox::offers(std::string_view tool) const {
  return (tool == session::kProvision || tool == session::kExecute) &&
         session::is_allowed(agent_, tool);
}

std::string SandboxToolbox::instructions() const {
  return "Sandboxes: fresh, isolated Linux machines for one task each. Take one with "
         "sandbox_provision, run commands in it with sandbox_execute. They end with this session "
         "unless they are kept.";
}

std::string SandboxToolbox::list(const std::string&) const {
  Json offered = Json::array();
  const auto all = parse_json(session::write_tools(agent_));
  for (const Json& tool : all.value_or(Json::array())) {
    if (!offers(tool.at("name").get<std::string>())) continue;
    offered.push_back({{"name", tool.at("name")},
                       {"description", tool.at("description")},
                       {"inputSchema", tool.at("input_schema")}});
    say_session(offered.back());
  }
  return dump_json(offered);
}

Task<Result<mcp::ToolResult>> SandboxToolbox::call(mcp::ToolCall call) {
  if (!offers(call.name))
    co_return make_error(ErrorCode::kNotFound, "call tool", "there is no such tool");
  sessions_[call.session];
  ToolText text =
      call.name == session::kProvision ? co_await provision(call) : co_await execute(call);
  const auto session = sessions_.find(call.session);
  if (session == sessions_.end())
    co_return make_error(ErrorCode::kUnavailable, "call tool", "the session is over");
  std::vector<std::string> sandboxes(session->second.sandboxes.begin(),
                                     session->second.sandboxes.end());
  std::ranges::copy(session->second.kept, std::back_inserter(sandboxes));
  const bool is_error = text.is_error;
  CO_TRY(auto shown, co_await clean(std::move(text), std::move(sandboxes)));
  co_return mcp::ToolResult{.text = std::move(shown), .is_error = is_error};
}

Task<ToolText> SandboxToolbox::provision(mcp::ToolCall call) {
  const auto arguments = session::read_provision(call.arguments);
  if (!arguments) co_return refusal(arguments.error());
  const Belongings& has = sessions_[call.session];
  if (has.sandboxes.size() + has.kept.size() >= kSandboxesPerSession)
    co_return session::describe(fmt::format("This session has {} sandboxes already; go on in one "
                                            "of them.",
                                            kSandboxesPerSession),
                                true);
  if (arguments->keep)
    if (const auto may = co_await check_kept(call); !may) co_return refusal(may.error());
  constexpr std::size_t kDigits = 24;
  const std::string sandbox = "sx-" + sha256_hex(call.id).substr(0, kDigits);
  // Counted from now on: calls of one session run side by side.
  if (const auto own = sessions_.find(call.session); own != sessions_.end())
    (arguments->keep ? own->second.kept : own->second.sandboxes).insert(sandbox);
  const auto report = co_await hands_.provision(
      {.sandbox = sandbox,
       .sandbox_template = arguments->sandbox_template.empty() ? agent_.sandbox_template
                                                               : arguments->sandbox_template,
       .environment = agent_.environment,
       .session = arguments->keep ? std::string(kKeptLabel) : label_of(call.session),
       .project = call.project});
  const auto session = sessions_.find(call.session);
  if (!report || session == sessions_.end()) {
    work_.spawn(destroy(sandbox));  // it may be there all the same, and nobody wants it
    if (session != sessions_.end()) {
      session->second.sandboxes.erase(sandbox);
      session->second.kept.erase(sandbox);
    }
    if (report) co_return ToolText{};
    co_return report.error().code == ErrorCode::kNotFound ? refusal(report.error())
                                                          : failure(report.error());
  }
  session->second.last = sandbox;
  co_return session::describe(fmt::format("sandbox_id: {}\n{}", sandbox, report->contents), false);
}

// Those that are kept belong to nobody who could end; there must not be too many of them.
Task<Result<void>> SandboxToolbox::check_kept(const mcp::ToolCall& call) {
  CO_TRY(const auto all, co_await sandboxes_.list());
  const auto kept = static_cast<std::size_t>(std::ranges::count_if(
      all, [&](const sandbox::SandboxInfo& info) { return is_kept_by(info, call.project); }));
  if (kept < kKeptPerProject) co_return {};
  co_return make_error(ErrorCode::kLimit, "provision",
                       fmt::format("This project keeps {} sandboxes already; take one without "
                                   "keep.",
                                   kept));
}

Task<Result<std::string>> SandboxToolbox::find_sandbox(const mcp::ToolCall& call,
                                                       std::string named) {
  const Belongings& own = sessions_[call.session];
  if (named.empty()) named = own.last;
  if (own.sandboxes.contains(named) || own.kept.contains(named)) co_return named;
  if (!is_id_text(named)) co_return no_sandbox(named);
  const auto found = co_await sandboxes_.inspect(named);
  if (!found && found.error().code != ErrorCode::kNotFound) co_return found.error();
  if (!found || !is_kept_by(*found, call.project)) co_return no_sandbox(named);
  if (const auto session = sessions_.find(call.session); session != sessions_.end())
    session->second.kept.insert(named);
  co_return named;
}

Task<ToolText> SandboxToolbox::execute(mcp::ToolCall call) {
  const auto arguments = session::read_execute(call.arguments);
  if (!arguments) co_return refusal(arguments.error());
  const auto sandbox = co_await find_sandbox(call, arguments->sandbox);
  if (!sandbox) co_return refusal(sandbox.error());
  const auto session = sessions_.find(call.session);
  if (session == sessions_.end()) co_return ToolText{};
  session->second.running[call.id] = *sandbox;
  auto report =
      co_await hands_.execute({.sandbox = *sandbox,
                               .call = call.id,
                               .command = arguments->command,
                               .input = arguments->input,
                               .timeout_seconds = arguments->timeout_seconds,
                               .undo = static_cast<session::ExecuteOrder::Undo>(arguments->undo)});
  if (const auto still = sessions_.find(call.session); still != sessions_.end()) {
    still->second.running.erase(call.id);
    // One that is gone makes room for another.
    if (!report && report.error().code == ErrorCode::kNotFound) {
      still->second.sandboxes.erase(*sandbox);
      still->second.kept.erase(*sandbox);
    }
  }
  if (!report) co_return failure(report.error());
  co_return session::describe(std::move(*report));
}

// Cut before it is looked through, a long output could show a piece of something at the cut.
Task<Result<std::string>> SandboxToolbox::clean(ToolText text, std::vector<std::string> sandboxes) {
  if (text.full) {
    const std::string part = session::shorten(text.full->bytes, session::kResultBytesMax);
    CO_TRY(const auto whole, co_await redact(std::move(text.full->bytes), sandboxes));
    if (const std::size_t at = text.text.find(part); at != std::string::npos)
      text.text.replace(at, part.size(), session::shorten(whole, session::kResultBytesMax));
  }
  co_return co_await redact(std::move(text.text), std::move(sandboxes));
}

Task<Result<std::string>> SandboxToolbox::redact(std::string text,
                                                 std::vector<std::string> sandboxes) {
  const TimePoint deadline = loop_.now() + kPatience;
  for (Duration pause = std::chrono::milliseconds(50);;
       pause = std::min(2 * pause, kPatience / 6)) {
    auto clean = co_await boundary_.redact({text, sandboxes});
    if (clean) {
      const bool is_withheld = clean->text.empty() && !clean->redacted.empty();
      co_return is_withheld ? std::string("withheld") : std::move(clean->text);
    }
    if (clean.error().code == ErrorCode::kInvalid || loop_.now() >= deadline)
      co_return make_error(ErrorCode::kUnavailable, "check for secrets",
                           "what the tool said cannot be checked for secrets at this moment, and "
                           "is not shown");
    co_await loop_.sleep_for(pause);
  }
}

void SandboxToolbox::cancel(const std::string& session, const std::string& call) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  const auto running = found->second.running.find(call);
  if (running != found->second.running.end()) work_.spawn(stop(running->second, call));
}

Task<> SandboxToolbox::stop(std::string sandbox, std::string call) {
  if (const auto stopped = co_await hands_.stop(sandbox, std::move(call)); !stopped)
    LOG_WARN("a cancelled command goes on until its time is over", {"sandbox", sandbox},
             {"error", stopped.error()});
}

void SandboxToolbox::end(const std::string& session) {
  auto ended = sessions_.extract(session);
  if (ended.empty()) return;
  for (const std::string& sandbox : ended.mapped().sandboxes) work_.spawn(destroy(sandbox));
}

// What cannot be ended for so long is ended by its idle limit.
Task<> SandboxToolbox::destroy(std::string sandbox) {
  Duration pause = std::chrono::milliseconds(100);
  for (int tries = 0; tries < kTriesMax; ++tries, pause = std::min(2 * pause, kLongestPause)) {
    const auto destroyed = co_await hands_.destroy(sandbox);
    if (destroyed || destroyed.error().code == ErrorCode::kNotFound) co_return;
    co_await loop_.sleep_for(pause);
  }
  LOG_WARN("a sandbox of an MCP session could not be ended", {"sandbox", sandbox});
}

Task<> SandboxToolbox::end_orphans() {
  Duration pause = std::chrono::milliseconds(100);
  for (int tries = 0; tries < kTriesMax; ++tries, pause = std::min(2 * pause, kLongestPause)) {
    const auto all = co_await sandboxes_.list();
    if (!all) {
      co_await loop_.sleep_for(pause);
      continue;
    }
    for (const sandbox::SandboxInfo& info : *all) {
      const std::string session = label(info, kSessionLabel);
      if (!session.starts_with(kLabelPrefix) || session == kKeptLabel) continue;
      if (!sessions_.contains(session.substr(kLabelPrefix.size()))) work_.spawn(destroy(info.id));
    }
    co_return;
  }
}

}  // namespace pons::brain
