#include "timeline.h"

#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/text.h"
#include "terminal.h"

namespace pons::cli {

namespace {

constexpr std::size_t kLineBytes = 100;

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::int64_t number_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

// One line, and not a long one.
std::string short_line(std::string_view text) {
  std::string line(trim(text).substr(0, kLineBytes));
  if (const std::size_t end = line.find('\n'); end != line.npos) line.resize(end);
  while (!line.empty() && !is_valid_utf8(line)) line.pop_back();
  if (line.size() < trim(text).size()) line += " …";
  return line;
}

std::string text_of_blocks(const Json& blocks) {
  std::string text;
  if (!blocks.is_array()) return text;
  for (const Json& block : blocks) {
    if (!text.empty()) text += ' ';
    text += text_at(block, "type") == "text" ? text_at(block, "text")
                                             : fmt::format("[{}]", text_at(block, "type"));
  }
  return text;
}

// What a call is about, in one line.
std::string gist_of(const Json& event) {
  const auto input = event.find("input");
  if (input == event.end() || !input->is_object()) return {};
  for (const char* key : {"command", "task_description", "question", "task"})
    if (input->contains(key)) return short_line(text_at(*input, key));
  return {};
}

// The last line of a result says how it ended.
std::string_view last_line(std::string_view text) {
  const std::size_t begin = text.find_last_of('\n');
  return begin == text.npos ? text : text.substr(begin + 1);
}

}  // namespace

void Timeline::say(std::string_view who, const std::string& text) {
  if (shows_ == Shows::kNothing) return;
  if (std::exchange(in_delta_, false)) fmt::print("\n");
  fmt::print("{:>9}  {}\n", paint(who, Tone::kStrong), printable(text, LineFeeds::kKept));
  std::fflush(stdout);
}

void Timeline::step(std::int64_t took_ms, const std::string& text) {
  if (shows_ == Shows::kNothing) return;
  if (std::exchange(in_delta_, false)) fmt::print("\n");
  fmt::print("{}  {}\n", paint(fmt::format("{:>6} ms", took_ms), Tone::kDim), printable(text));
  std::fflush(stdout);
}

void Timeline::take_delta(std::string_view text) {
  if (shows_ == Shows::kNothing) return;
  if (!std::exchange(in_delta_, true)) fmt::print("{:>9}  ", paint("…", Tone::kDim));
  fmt::print("{}", paint(printable(text, LineFeeds::kKept), Tone::kDim));
  std::fflush(stdout);
}

void Timeline::take_call(const Json& event) {
  const std::int64_t seq = number_at(event, "seq");
  const std::string name = text_at(event, "name");
  Called& called = calls_[seq];
  called.what = fmt::format("{}  {}", name, gist_of(event));
  const auto input = event.find("input");
  if (name == "ask_human" && input != event.end() && input->is_object())
    called.question = text_at(*input, "question");
  const auto asks = event.find("asks");
  if (asks != event.end() && *asks == true) {
    open_[seq] = {.kind = Question::Kind::kDecision,
                  .text = fmt::format("{} {}", name,
                                      input == event.end() ? "{}" : short_line(dump_json(*input)))};
    say("asks", fmt::format("may it call {}", open_[seq].text));
  } else if (name == "ask_human") {
    open_[seq] = {.kind = Question::Kind::kAnswer, .text = called.question};
    say("asks", called.question);
  }
}

void Timeline::take_decision(const Json& event) {
  const std::int64_t call = number_at(event, "call");
  const bool is_allowed = event.value("allowed", false);
  open_.erase(call);
  say("you", is_allowed ? "(allowed)" : "(not allowed)");
  // A question that somebody had to allow is asked now.
  const auto called = calls_.find(call);
  if (!is_allowed || called == calls_.end() || called->second.question.empty()) return;
  open_[call] = {.kind = Question::Kind::kAnswer, .text = called->second.question};
  say("asks", called->second.question);
}

void Timeline::take_tool_end(const Json& event) {
  const std::string text = text_at(event, "text");
  const auto called = calls_.find(number_at(event, "call"));
  const std::string what = called == calls_.end() ? "tool" : called->second.what;
  open_.erase(number_at(event, "call"));
  const bool is_command = last_line(text).starts_with('[');
  ++tool_calls_;
  step(number_at(event, "took_ms"),
       fmt::format("{}  {}", what, is_command ? last_line(text) : short_line(text)));
  if (const auto names = event.find("redacted"); names != event.end())
    say("note", fmt::format("credentials are crossed out: {}", dump_json(*names)));
}

// Answered as a call is that a person allows.
void Timeline::take_wish(const Json& event) {
  const std::int64_t seq = number_at(event, "seq");
  wishes_[text_at(event, "request")] = seq;
  open_[seq] = {.kind = Question::Kind::kDecision,
                .text = fmt::format("request_network_access {}",
                                    short_line(dump_json(event.value("wish", Json::object()))))};
  ended_.clear();
  say("asks", fmt::format("may its sandbox reach {}:{}: {}", text_at(event, "host"),
                          number_at(event, "port"),
                          short_line(text_at(event.value("wish", Json::object()), "reason"))));
}

void Timeline::take(const Json& event) {
  const std::string type = text_at(event, "type");
  if (type == "user.message") {
    if (is_over() || begun_ms_ == 0) {
      begun_ms_ = number_at(event, "at_unix_ms");
      model_calls_ = tool_calls_ = tokens_ = 0;
    }
    ended_.clear();
    say("you", text_of_blocks(event.value("content", Json::array())));
  } else if (type == "user.answer") {
    open_.erase(number_at(event, "call"));
    say("you", text_at(event, "text"));
  } else if (type == "user.decision") {
    take_decision(event);
  } else if (type == "user.interrupt") {
    say("you", "(interrupt)");
  } else if (type == "model.answered") {
    const Json usage = event.value("usage", Json::object());
    ++model_calls_;
    tokens_ += number_at(usage, "input") + number_at(usage, "cache_read") +
               number_at(usage, "cache_write") + number_at(usage, "output");
    step(number_at(event, "took_ms"),
         fmt::format("model {}  {} tokens read, {} written", text_at(event, "model"),
                     number_at(usage, "input") + number_at(usage, "cache_read") +
                         number_at(usage, "cache_write"),
                     number_at(usage, "output")));
  } else if (type == "model.failed") {
    step(0, fmt::format("model failed ({}): {}", text_at(event, "trouble"),
                        short_line(text_at(event, "message"))));
  } else if (type == "context.summarised") {
    step(number_at(event, "took_ms"), "the conversation was summarised");
  } else if (type == "tool.called") {
    take_call(event);
  } else if (type == "tool.ended") {
    take_tool_end(event);
  } else if (type == "access.asked") {
    take_wish(event);
  } else if (type == "access.ended") {
    open_.erase(wishes_[text_at(event, "request")]);
    step(0, fmt::format("access {}  {}", text_at(event, "outcome"),
                        short_line(text_at(event, "message"))));
  } else if (type == "agent.message") {
    answer_ = text_at(event, "text");
    say("agent", answer_);
  } else if (type == "turn.ended") {
    ended_ = text_at(event, "reason");
    open_.clear();
    ended_ms_ = number_at(event, "at_unix_ms");
    if (const std::string why = text_at(event, "message"); !why.empty() && ended_ != "end_turn")
      say("note", why);
  } else {
    // Calls that were open there are not this session's to answer.
    if (type == "session.forked") open_.clear();
    if (shows_ == Shows::kAll) step(0, fmt::format("{} {}", type, dump_json(event)));
  }
}

std::string Timeline::sum() const {
  return fmt::format(
      "{} after {}: {} model calls, {} tool calls, {} tokens", ended_,
      human_duration(static_cast<std::uint64_t>(std::max<std::int64_t>(0, ended_ms_ - begun_ms_))),
      model_calls_, tool_calls_, tokens_);
}

}  // namespace pons::cli
