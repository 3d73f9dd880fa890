#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "pons/memory/tools.h"
#include "pons/session/tools.h"
#include "pons/session/world.h"
#include "simulated_fate.h"
#include "simulated_hands.h"

// For tests: a model that says what it says because of the conversation alone, as a script does,
// and tries everything that a model may try.

namespace pons::session {

// What questions came to, for whoever has to pay: outlives processes.
struct Bills {
  struct Bill {
    std::string session;
    Usage usage;
    bool is_open = false;
    bool is_ended = false;  // nobody waits for it
  };
  std::map<std::string, Bill> all;  // by question
  std::set<std::string> asked_twice;
};

class SimulatedModel final : public Model {
 public:
  SimulatedModel(Bills& bills, Fate& fate, int steps_max)
      : bills_(bills), fate_(fate), steps_max_(steps_max) {}

  Task<std::variant<Answer, NoAnswer>> ask(Question question, const Listener& listener) override {
    const auto [place, is_new] = bills_.all.try_emplace(question.id);
    Bills::Bill& bill = place->second;
    if (bill.is_ended) co_return NoAnswer{.trouble = Trouble::kLasting, .message = "over"};
    if (!is_new) bills_.asked_twice.insert(question.id);
    struct Open {
      Bills::Bill& bill;
      ~Open() { bill.is_open = false; }
    } const open{bill};
    bill = {.session = question.session, .is_open = true};
    // Whoever leaves has been heard all the same.
    bill.usage.input = static_cast<std::int64_t>(question.request.size() / 16);
    const Script script = answer_to(question.session, question.request);
    for (std::size_t i = 0; i < script.tools.size(); ++i)
      if (!script.tools[i].empty()) listener.on_tool(static_cast<std::int64_t>(i), script.tools[i]);
    listener.on_text("…");
    switch (co_await fate_.wait()) {
      case Fate::Turn::kFailsBefore:
        bill.usage = {};
        co_return NoAnswer{.trouble = Trouble::kPassing, .message = "overloaded \xFF"};
      case Fate::Turn::kFailsAfter: {
        bill.usage.output = 3;
        const bool is_told = fate_.pick(2) == 0;
        co_return NoAnswer{.trouble = fate_.pick(4) == 0 ? Trouble::kTooLong : Trouble::kPassing,
                           .message = "cut off",
                           .wait_ms = 1'000,
                           .usage = is_told ? bill.usage : Usage{},
                           .unpaid = !is_told};
      }
      case Fate::Turn::kWell:
        break;
    }
    bill.usage.output = 10;
    co_await fate_.afterwards();
    if (script.is_in_vain) co_return NoAnswer{.message = "overloaded", .usage = bill.usage};
    co_return Answer{.content = script.content(),
                     .stop_reason = script.stop,
                     .model = "simulated",
                     .usage = bill.usage};
  }

  Task<Result<Usage>> end_question(std::string id) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore) co_return away();
    Bills::Bill& bill = bills_.all[id];
    bill.is_ended = true;
    if (bill.is_open) co_return make_error(ErrorCode::kConflict, "end question", "under way");
    co_await fate_.afterwards();
    if (turn == Fate::Turn::kFailsAfter) co_return away();
    co_return bill.usage;
  }

 private:
  static Error away() { return make_error(ErrorCode::kUnavailable, "gateway", "went away"); }

  struct Script {
    std::vector<std::string> blocks;
    std::vector<std::string> tools;  // beside the blocks; empty: no tool
    std::string stop = "end_turn";
    bool is_in_vain = false;

    void text(std::string_view words) {
      blocks.push_back(fmt::format(R"({{"type":"text","text":"{}"}})", words));
      tools.emplace_back();
    }
    void call(const std::string& id, std::string_view name, std::string_view input) {
      blocks.push_back(fmt::format(R"({{"type":"tool_use","id":"{}-{}","name":"{}","input":{}}})",
                                   id, blocks.size(), name, input));
      tools.emplace_back(name);
      stop = "tool_use";
    }
    std::string content() const { return fmt::format("[{}]", fmt::join(blocks, ",")); }
  };

  // Where a conversation stands, found without reading all of it as JSON: that would take most of
  // the simulation's time.
  struct Place {
    std::string last;      // what people said last
    std::size_t step = 0;  // answers since
    bool lacks_sandbox = true;
  };
  static Place place_in(std::string_view request) {
    constexpr std::string_view kText = R"("type":"text","text":")";
    Place place;
    std::size_t at = request.size();
    do {
      at = request.rfind(kText, at - 1);
      const std::size_t begin = at + kText.size();
      place.last = request.substr(begin, request.find('"', begin) - begin);
    } while (place.last.starts_with("done") || place.last.starts_with("thinking"));
    for (std::size_t i = at; (i = request.find(R"("role":"assistant")", i)) != std::string::npos;
         ++i)
      ++place.step;
    // Names of calls are made of it, and nobody looks for credentials in those.
    if (place.last.starts_with("Your work was judged"))
      place.last = fmt::format("judged {:x}", std::hash<std::string>{}(place.last));
    const auto last_of = [&](std::string_view words) {
      const std::size_t found = request.rfind(words);
      return found == std::string::npos || found < at ? 0 : found;
    };
    place.lacks_sandbox = last_of("sandbox_id: ") <=
                          std::max(last_of("There is no sandbox"), last_of("interrupted: "));
    return place;
  }

  // Nobody can tell whether work is good that nobody does; but the same work is always as good.
  void judge(std::string_view request, Script& script) {
    if (!fate_.is_calm() && fate_.pick(5) == 0) return script.text("who knows");
    constexpr std::array<std::string_view, 4> kVerdicts = {"needs_revision", "satisfied",
                                                           "needs_revision", "failed"};
    script.text(fmt::format(R"({{\"result\":\"{}\",\"explanation\":\"of {}\"}})",
                            kVerdicts[std::hash<std::string_view>{}(request) % kVerdicts.size()],
                            SimulatedBoundary::kSecret));
  }

  Script answer_to(const std::string& session, std::string_view request) {
    const Place place = place_in(request);
    const std::string here = fmt::format("{}/{}/{}", session, place.last, place.step);
    const std::size_t chance = std::hash<std::string>{}(here);
    Script script;
    if (place.last.starts_with("The conversation is about to")) {
      constexpr std::array<const char*, 4> kNoSummary = {"max_tokens", "refusal", "tool_use", ""};
      if (!fate_.is_calm() && fate_.pick(5) == 0) script.stop = kNoSummary[fate_.pick(4)];
      if (fate_.is_calm() || fate_.pick(5) > 0)
        script.text(fmt::format("after {:x}", std::hash<std::string_view>{}(request)));
      return script;
    }
    if (place.last.starts_with("What was to be brought about")) {
      judge(request, script);
      return script;
    }
    const std::size_t steps =
        1 + std::hash<std::string>{}(session + place.last) % static_cast<std::size_t>(steps_max_);
    script.is_in_vain = place.last.starts_with("in vain");
    const bool loops = place.last.starts_with("for ever");
    if (place.step > steps && !loops) {
      script.text("done " + place.last);
      if (chance % 7 == 0) script.stop = "refusal";
    } else if (const Hands hands = hands_of(request);
               hands.shell == kExecute && place.lacks_sandbox) {
      take_sandbox(here, chance % 8, script);
    } else {
      work(here, chance % (hands.has_helper ? 16 : 24), hands, script);
    }
    return script;
  }

  static void take_sandbox(const std::string& here, std::size_t chance, Script& script) {
    constexpr std::string_view kTask = R"({"task_description":"work"})";
    script.call(here, kProvision,
                chance == 1   ? R"({"task_description":"work","template":"other"})"
                : chance == 2 ? R"({"task_description":"work","keep":true})"
                              : kTask);
    if (chance == 0) {  // all at once, where one waits for the other
      script.call(here, kExecute, fmt::format(R"({{"command":"{}-a"}})", here));
      script.call(here, kProvision, kTask);
      script.call(here, kExecute, fmt::format(R"({{"command":"{}-b"}})", here));
    }
  }

  struct Hands {
    bool has_helper = false;
    std::string_view shell = kExecute;  // what runs commands
  };
  static Hands hands_of(std::string_view request) {
    Hands hands{.has_helper = request.find(R"("enum":["helper"])") != std::string_view::npos};
    if (request.find(R"({"name":"bash")") != std::string_view::npos) hands.shell = "bash";
    return hands;
  }

  static void work(const std::string& here, std::size_t chance, const Hands& hands,
                   Script& script) {
    const bool has_helper = hands.has_helper;
    const std::string run = fmt::format(R"({{"command":"{}"}})", here);
    switch (chance) {
      case 0:
        return script.call(here, kAskHuman, R"({"question":"which?"})");
      case 1:
        script.call(
            here, kSpawnAgent,
            fmt::format(R"({{"task":"{}"{}}})", here, has_helper ? R"(,"agent":"helper")" : ""));
        return script.call(here, kSpawnAgent,
                           fmt::format(R"({{"task":"{} again"{}}})", here,
                                       has_helper ? R"(,"agent":"helper")" : ""));
      case 8:
        return script.call(here, "fetch", "{}");  // somebody's own tool; most have none
      case 2:
        return script.call(here, kExecute, R"({"command":7})");
      case 3:
        return script.call(here, "rm_rf", "{}");
      case 4:
        script.call(here, hands.shell, run);
        script.stop = "max_tokens";
        return;
      case 5:
        script.text(fmt::format("thinking of {}", SimulatedBoundary::kSecret));
        return script.call(here, hands.shell, run);
      case 6:
        script.text("thinking");
        script.stop = "pause_turn";
        return;
      case 7:
        return script.call(here, kAskHuman, R"({"question":""})");
      case 9:
        script.call(here, memory::kWriteTool, R"({"path":"/a","content":"b"})");
        return script.call(here, memory::kWriteTool, R"({"path":"/b","content":"b"})");
      case 10:
        script.call(here, "far_do", "{}");
        return script.call(here, memory::kWriteTool, R"({"path":"/a","content":"c"})");
      case 11:
        script.call(here, "far_ask", "{}");
        return script.call(here, "far_do", "{}");
      default:
        for (std::size_t i = 0; i <= chance % 3; ++i) script.call(here, hands.shell, run);
    }
  }

  Bills& bills_;
  Fate& fate_;
  int steps_max_;
};

}  // namespace pons::session
