#include "scene.h"

#include <algorithm>
#include <csignal>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "pons/http/event_stream.h"

namespace pons::trial {

namespace {

constexpr Duration kLook = std::chrono::milliseconds(25);
constexpr std::string_view kHarnessCell = "hx-";
constexpr std::string_view kHarnessJob = "harness-";
constexpr std::size_t kEventBytesMax = 64 << 20;

class Bytes final : public sandbox::ByteSource {
 public:
  explicit Bytes(std::string bytes) : bytes_(std::move(bytes)) {}
  Task<Result<std::string>> next() override { co_return std::exchange(bytes_, {}); }

 private:
  std::string bytes_;
};

std::string target(const std::string& session, std::string_view rest) {
  return fmt::format("/sessions/{}{}{}project=default", session, rest,
                     rest.contains('?') ? '&' : '?');
}

// The end of a log, for people.
std::string tail_of(const std::vector<Json>& events) {
  constexpr std::size_t kShown = 5;
  constexpr std::size_t kBytes = 300;
  std::string text;
  for (std::size_t i = events.size() - std::min(kShown, events.size()); i < events.size(); ++i)
    text += fmt::format("\n    {}", dump_json(events[i]).substr(0, kBytes));
  return text;
}

}  // namespace

std::string_view word_of(Place place) {
  return place == Place::kNative ? "native" : place == Place::kBrain ? "brain" : "sandbox";
}

std::string name_of(Place place, std::string_view story) {
  return fmt::format("{}-{}", story, word_of(place));
}

Scene::Scene(linux::Loop& loop, ThrowawayPons& pons, ScriptedModel& model, std::string harness,
             Place place)
    : loop_(loop), pons_(pons), model_(model), harness_(std::move(harness)), place_(place) {}

// ---- sessions

Task<Result<std::string>> Scene::open(std::string story) {
  CO_TRY(const Json made, co_await pons_.ask("brain", "POST", "/sessions?project=default",
                                             {{"agent", name_of(story)}}));
  co_return made.at("id").get<std::string>();
}

Task<Result<void>> Scene::say(std::string session, std::string words) {
  CO_TRY_VOID(co_await pons_.ask(
      "brain", "POST", target(session, "/events"),
      {{"events", Json::array({{{"type", "user.message"}, {"text", std::move(words)}}})}}));
  co_return {};
}

Task<Result<void>> Scene::interrupt(std::string session) {
  CO_TRY_VOID(co_await pons_.ask("brain", "POST", target(session, "/events"),
                                 {{"events", Json::array({{{"type", "user.interrupt"}}})}}));
  co_return {};
}

Task<Result<Json>> Scene::show(std::string session) {
  co_return co_await pons_.ask("brain", "GET", target(session, ""));
}

Task<Result<std::vector<Json>>> Scene::events(std::string session) {
  std::vector<Json> all;
  for (std::int64_t after = 0;;) {
    CO_TRY(const Json page,
           co_await pons_.ask("brain", "GET",
                              target(session, fmt::format("/events?after={}&limit=1000", after))));
    for (const Json& event : page.at("events")) all.push_back(event);
    if (!page.value("more", false) || page.at("events").empty()) co_return all;
    after = all.back().at("seq").get<std::int64_t>();
  }
}

Task<Result<Json>> Scene::wait_until_idle(std::string session, Duration patience) {
  const TimePoint deadline = loop_.now() + patience;
  for (;;) {
    const auto shown = co_await show(session);
    if (shown && shown->value("status", "") == "idle") co_return *shown;
    if (loop_.now() > deadline) {
      const auto log = co_await events(session);
      co_return make_error(
          ErrorCode::kTimeout, "wait for the end of the turn",
          fmt::format("it does not end{}", tail_of(log ? *log : std::vector<Json>())));
    }
    co_await loop_.sleep_for(kLook);
  }
}

Task<Result<std::vector<Json>>> Scene::finish(std::string session, std::string reason) {
  CO_TRY(const Json shown, co_await wait_until_idle(session));
  CO_TRY(auto log, co_await events(session));
  if (const std::string ended = shown.value("ended", ""); ended != reason)
    co_return make_error(
        ErrorCode::kInvalid, "tell a story",
        fmt::format("the turn ended with {}, not with {}{}", ended, reason, tail_of(log)));
  CO_TRY_VOID(check_log(log));
  co_return std::move(log);
}

Task<Result<std::vector<Json>>> Scene::tell(std::string session, std::string words,
                                            std::string reason) {
  CO_TRY_VOID(co_await say(session, std::move(words)));
  co_return co_await finish(std::move(session), std::move(reason));
}

Task<Result<Json>> Scene::wait_for_event(std::string session, std::string type, std::string with) {
  const TimePoint deadline = loop_.now() + kPatience;
  for (;;) {
    const auto log = co_await events(session);
    if (log)
      for (const Json& event : of_type(*log, type))
        if (dump_json(event).contains(with)) co_return event;
    if (loop_.now() > deadline)
      co_return make_error(ErrorCode::kTimeout, "tell a story",
                           fmt::format("there is no {} {}", type, with));
    co_await loop_.sleep_for(kLook);
  }
}

Task<Result<std::vector<std::pair<std::string, Json>>>> Scene::follow(std::string session) {
  std::vector<std::pair<std::string, Json>> heard;
  CO_TRY(auto response,
         co_await pons_.client_of("brain").send({.target = target(session, "/stream?after=0")}));
  if (response.status() != 200)
    co_return make_error(ErrorCode::kUnavailable, "follow session",
                         fmt::format("Pons answered {}", response.status()));
  http::EventStreamParser parser(kEventBytesMax);
  for (bool is_over = false; !is_over;) {
    CO_TRY(const auto piece, co_await response.read_body());
    if (piece.empty()) break;
    CO_TRY_VOID(parser.feed(piece, [&](const http::ServerEvent& event) {
      auto json = parse_json(event.data, {.depth = 128, .bytes = kEventBytesMax});
      if (!json) return;
      heard.emplace_back(event.event, std::move(*json));
      is_over = is_over || event.event == "turn.ended";
    }));
  }
  co_return heard;
}

Task<bool> Scene::wait_until(std::function<bool()> condition, Duration patience) {
  const TimePoint deadline = loop_.now() + patience;
  while (!condition()) {
    if (loop_.now() > deadline) co_return false;
    co_await loop_.sleep_for(kLook);
  }
  co_return true;
}

// ---- sandboxes

Task<Result<std::vector<sandbox::SandboxInfo>>> Scene::sandboxes_of(std::string session) {
  CO_TRY(auto all, co_await pons_.sandboxes().list());
  std::erase_if(all, [&](const sandbox::SandboxInfo& info) {
    const auto label = info.labels.find("pons.session");
    return info.state == sandbox::State::kEnded || label == info.labels.end() ||
           label->second != session;
  });
  co_return std::move(all);
}

Task<Result<std::string>> Scene::find_machine(std::string session) {
  CO_TRY(const auto all, co_await sandboxes_of(session));
  for (const auto& info : all)
    if (!info.id.starts_with(kHarnessCell)) co_return info.id;
  co_return make_error(ErrorCode::kNotFound, "tell a story", "the session has no sandbox");
}

Task<Result<std::string>> Scene::find_cell(std::string session) {
  if (place_ == Place::kSandbox) co_return co_await find_machine(std::move(session));
  CO_TRY(const auto all, co_await sandboxes_of(session));
  for (const auto& info : all)
    if (info.id.starts_with(kHarnessCell)) {
      // One that is idle is frozen.
      if (info.state == sandbox::State::kPaused) (void)co_await pons_.sandboxes().resume(info.id);
      co_return info.id;
    }
  co_return make_error(ErrorCode::kNotFound, "tell a story", "the harness has no sandbox");
}

Task<Result<std::vector<std::string>>> Scene::harness_jobs(std::string session) {
  CO_TRY(const std::string cell, co_await find_cell(std::move(session)));
  CO_TRY(const auto jobs, co_await pons_.sandboxes().list_jobs(cell));
  std::vector<std::string> running;
  for (const sandbox::JobInfo& job : jobs)
    if (job.id.starts_with(kHarnessJob) && job.outcome == sandbox::Outcome::kRunning)
      running.push_back(job.id);
  co_return running;
}

Task<Result<void>> Scene::kill_harness(std::string session) {
  if (place_ == Place::kNative) co_return co_await pons_.restart_role("brain");
  CO_TRY(const std::string cell, co_await find_cell(session));
  CO_TRY(const auto jobs, co_await harness_jobs(session));
  if (jobs.empty())
    co_return make_error(ErrorCode::kNotFound, "tell a story", "no process of the harness runs");
  for (const std::string& job : jobs)
    CO_TRY_VOID(co_await pons_.sandboxes().signal(cell, job, SIGKILL));
  co_return {};
}

Task<Result<std::string>> Scene::read_file(std::string sandbox, std::string path) {
  CO_TRY(const auto file, co_await pons_.sandboxes().read_file(sandbox, path, "user", 0, 1 << 20));
  std::string text;
  for (;;) {
    CO_TRY(const std::string piece, co_await file->next());
    if (piece.empty()) co_return text;
    text += piece;
  }
}

Task<Result<void>> Scene::write_file(std::string sandbox, std::string path, std::string text) {
  CO_TRY_VOID(co_await pons_.sandboxes().write_file(sandbox, path, {.user = "user"},
                                                    std::make_unique<Bytes>(std::move(text))));
  co_return {};
}

Task<Result<Scene::Ran>> Scene::run(std::string sandbox, std::vector<std::string> argv) {
  CO_TRY(const auto stream,
         co_await pons_.sandboxes().execute(
             sandbox, {.argv = std::move(argv), .timeout = std::chrono::seconds(30)}));
  Ran ran;
  for (;;) {
    CO_TRY(const auto event, co_await stream->next(loop_.now() + kPatience));
    if (!event) co_return ran;
    if (const auto* piece = std::get_if<sandbox::Output>(&*event)) ran.output += piece->bytes;
    if (const auto* end = std::get_if<sandbox::JobInfo>(&*event))
      ran.code = end->outcome == sandbox::Outcome::kExit ? end->code : -1;
  }
}

// ---- logs

std::vector<Json> of_type(const std::vector<Json>& events, std::string_view type) {
  std::vector<Json> found;
  for (const Json& event : events)
    if (event.value("type", "") == type) found.push_back(event);
  return found;
}

std::string text_of(const Json& event, const char* key) {
  const auto value = event.find(key);
  if (value == event.end()) return {};
  return value->is_string() ? value->get<std::string>() : dump_json(*value);
}

std::string last_said(const std::vector<Json>& events) {
  const auto said = of_type(events, "agent.message");
  return said.empty() ? std::string() : text_of(said.back(), "text");
}

Result<void> check_log(const std::vector<Json>& events) {
  std::map<std::int64_t, int> ends;  // by call
  std::int64_t seq = 0;
  for (const Json& event : events) {
    if (event.value("seq", std::int64_t{0}) != ++seq)
      return expect(false, fmt::format("event {} has another number{}", seq, tail_of(events)));
    const std::string type = event.value("type", "");
    if (type == "tool.called") ends.emplace(seq, 0);
    if (type != "tool.ended") continue;
    const auto call = ends.find(event.value("call", std::int64_t{0}));
    TRY_VOID(expect(call != ends.end(), "a tool ended that nobody called" + tail_of(events)));
    ++call->second;
  }
  for (const auto& [call, count] : ends)
    TRY_VOID(
        expect(count == 1, fmt::format("call {} has {} ends{}", call, count, tail_of(events))));
  const std::size_t messages = of_type(events, "user.message").size();
  const std::size_t turns = of_type(events, "turn.ended").size();
  return expect(turns == messages,
                fmt::format("{} turns ended for {} messages{}", turns, messages, tail_of(events)));
}

Result<void> expect(bool condition, std::string otherwise) {
  if (condition) return {};
  return make_error(ErrorCode::kInvalid, "tell a story", std::move(otherwise));
}

}  // namespace pons::trial
