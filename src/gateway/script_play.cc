#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "script.h"
#include "situation.h"

namespace pons::gateway {

namespace {

using models::Failing;

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// What was heard last takes the place of its names.
void fill_in(std::string& text, std::string_view user, std::string_view tool_result) {
  replace_all(text, "{user}", user);
  replace_all(text, "{tool_result}", tool_result);
}

// Within JSON text.
std::string escaped(const std::string& text) {
  const std::string quoted = dump_json(text);
  return quoted.substr(1, quoted.size() - 2);
}

// What is said this time: with ids, usage and what was heard in it.
models::Answer said_now(const ScriptedAnswer& scripted, const models::Request& request,
                        std::string_view model, std::size_t request_bytes) {
  models::Answer answer = scripted.answer;
  const Situation now = Situation::of(request);
  answer.id = fmt::format("msg_scripted_{}", now.turn);
  answer.model = model;
  std::size_t bytes = 0;
  std::size_t number = 0;
  for (models::Part& part : answer.parts) {
    if (auto* text = std::get_if<models::TextPart>(&part.content)) {
      fill_in(text->text, now.user, now.tool_result);
      bytes += text->text.size();
    } else if (auto* call = std::get_if<models::ToolCallPart>(&part.content)) {
      if (call->id.empty()) call->id = fmt::format("toolu_scripted_{}_{}", now.turn, number++);
      fill_in(call->input, escaped(now.user), escaped(now.tool_result));
      bytes += call->input.size();
    } else if (auto* thinking = std::get_if<models::ThinkingPart>(&part.content)) {
      bytes += thinking->text.size();
    }
  }
  if (!scripted.has_usage)
    answer.usage = {.input = models::estimate_tokens(request_bytes),
                    .output = models::estimate_tokens(bytes)};
  return answer;
}

// The same events with its texts in pieces.
std::vector<models::AnswerEvent> in_pieces(const models::Answer& answer, std::size_t chunk_bytes) {
  std::vector<models::AnswerEvent> events;
  for (models::AnswerEvent& event : models::events_of(answer)) {
    const auto* grows = std::get_if<models::PartGrows>(&event);
    if (grows == nullptr || chunk_bytes == 0) {
      events.push_back(std::move(event));
      continue;
    }
    std::string_view rest = grows->text;
    while (!rest.empty()) {
      std::size_t size = std::min(chunk_bytes, rest.size());
      // Never within a character.
      while (size < rest.size() && (static_cast<unsigned char>(rest[size]) & 0xC0U) == 0x80U)
        ++size;
      events.emplace_back(models::PartGrows{.text = rest.substr(0, size)});
      rest.remove_prefix(size);
    }
  }
  return events;
}

// True: the client is still there.
Task<bool> pause(linux::Loop& loop, ClientSide& client, Duration duration) {
  if (duration <= Duration::zero()) co_return true;
  co_return !co_await client.exchange().wait_for_hang_up(loop.now() + duration);
}

class Play {
 public:
  Play(linux::Loop& loop, const ScriptedAnswer& scripted, std::string_view model,
       ModelRequest& request, ClientSide& client, const ProgressSink& progress)
      : loop_(loop),
        scripted_(scripted),
        asked_(*request.read),
        client_(client),
        progress_(progress),
        answer_(said_now(scripted, asked_, model, request.body_bytes)) {
    client_.set_fields({{"x-pons-provider", "scripted"}, {"x-pons-model", std::string(model)}});
  }

  Task<Outcome> run() {
    if (!co_await pause(loop_, client_, scripted_.delay)) co_return leave();
    if (scripted_.failure && (scripted_.failure_after == 0 || !asked_.stream)) {
      outcome_.failure = *scripted_.failure;
      co_return std::move(outcome_);
    }
    if (asked_.stream) co_return co_await say_in_pieces();
    note_usage();
    client_.answer(models::protocol_text(client_.protocol()).write_answer(answer_, asked_));
    outcome_.ending = Ending::kAnswered;
    co_return std::move(outcome_);
  }

 private:
  Task<Outcome> say_in_pieces() {
    const auto writer = models::protocol_text(client_.protocol()).stream_writer(asked_);
    std::size_t pieces = 0;
    for (const models::AnswerEvent& event : in_pieces(answer_, scripted_.chunk_bytes)) {
      if (const auto* grows = std::get_if<models::PartGrows>(&event)) {
        outcome_.output_bytes += grows->text.size();
        if (pieces++ > 0 && !co_await pause(loop_, client_, scripted_.chunk_delay))
          co_return leave();
        if (scripted_.failure && pieces > scripted_.failure_after) co_return co_await fail(*writer);
      }
      if (std::holds_alternative<models::AnswerEnds>(event)) {
        if (scripted_.end != ScriptedAnswer::End::kWhole) co_return co_await break_off();
        note_usage();
      }
      std::string out;
      writer->take(event, out);
      if (!out.empty() && !co_await client_.send(out)) co_return leave();
      progress_(outcome_.usage, outcome_.output_bytes);
    }
    co_await client_.finish();
    outcome_.ending = Ending::kAnswered;
    co_return std::move(outcome_);
  }

  void note_usage() {
    outcome_.usage = answer_.usage;
    outcome_.is_usage_known = true;
  }

  Outcome leave() {
    outcome_.ending = Ending::kClientGone;
    return std::move(outcome_);
  }

  Task<Outcome> fail(models::AnswerWriter& writer) {
    outcome_.failure = *scripted_.failure;
    outcome_.ending = Ending::kBroken;
    std::string out;
    writer.take(*scripted_.failure, out);
    co_await client_.end_with(std::move(out));
    co_return std::move(outcome_);
  }

  Task<Outcome> break_off() {
    constexpr Duration kHangTime = std::chrono::hours(1);
    if (scripted_.end == ScriptedAnswer::End::kHang)
      co_await client_.exchange().wait_for_hang_up(loop_.now() + kHangTime);
    client_.exchange().abort();
    outcome_.ending = Ending::kBroken;
    co_return std::move(outcome_);
  }

  linux::Loop& loop_;
  const ScriptedAnswer& scripted_;
  const models::Request& asked_;
  ClientSide& client_;
  const ProgressSink& progress_;
  models::Answer answer_;
  Outcome outcome_;
};

}  // namespace

Task<Outcome> play_script(linux::Loop& loop, const Script& script, std::string_view model,
                          ModelRequest& request, ClientSide& client, const ProgressSink& progress) {
  const auto whole = request.whole();
  if (!whole)
    co_return Outcome{
        .failure = {.kind = Failing::kInvalidRequest, .message = whole.error().message}};
  const ScriptedAnswer* const scripted = script.find(**whole, model);
  if (scripted == nullptr)
    co_return Outcome{.failure = {.kind = Failing::kInvalidRequest,
                                  .message = "no answer of the script fits this conversation"}};
  Play play(loop, *scripted, model, request, client, progress);
  co_return co_await play.run();
}

}  // namespace pons::gateway
