#include "pons/harness/conversation.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons::harness {

namespace {

constexpr std::size_t kGarbageShown = 20;
constexpr std::size_t kGarbageBytesShown = 500;
constexpr std::size_t kIdBytesMax = 512;
constexpr std::size_t kNameBytesMax = 256;
constexpr std::size_t kMessageShown = 4'096;
constexpr std::int64_t kTokensMax = 1'000'000'000;

bool is_id(const std::string& text) {
  return !text.empty() && text.size() <= kIdBytesMax;
}

std::int64_t bounded(std::int64_t count) {
  return std::clamp(count, std::int64_t{0}, kTokensMax);
}

}  // namespace

// Whether an event may be passed on as it is, or in another form.
struct Conversation::Judge {
  Conversation& of;
  Output& out;

  void operator()(Ready& event) const {
    if (of.is_ready_) return;
    if (!is_id(event.session)) return of.give_up("it names no conversation", out);
    of.is_ready_ = true;
    of.session_ = event.session;
    out.events.emplace_back(std::move(event));
  }
  void operator()(ToolsOffered& event) const {
    std::erase_if(event.names, [](const auto& name) { return name.size() > kNameBytesMax; });
    if (event.names.size() > kOpenMax) event.names.resize(kOpenMax);
    out.events.emplace_back(std::move(event));
  }
  void operator()(TextDelta& event) const { words(std::move(event)); }
  void operator()(ThinkingDelta& event) const { words(std::move(event)); }
  void operator()(Text& event) const { words(std::move(event)); }

  void operator()(ToolCall& event) const {
    if (!of.in_turn_ || !is_id(event.id) || event.name.size() > kNameBytesMax) return;
    if (of.open_calls_.size() >= kOpenMax)
      return of.give_up("it has more calls of tools under way than it may have", out);
    if (of.open_calls_.insert(event.id).second) out.events.emplace_back(std::move(event));
  }
  void operator()(ToolResult& event) const {
    if (of.open_calls_.erase(event.id) != 0) out.events.emplace_back(std::move(event));
  }
  void operator()(ToolRequest& event) const { ask(std::move(event), of.open_requests_); }
  void operator()(PermissionRequest& event) const { ask(std::move(event), of.open_questions_); }

  void operator()(Usage& event) const {
    if (!of.in_turn_) return;
    out.events.emplace_back(Usage{.input = bounded(event.input),
                                  .cache_read = bounded(event.cache_read),
                                  .cache_write = bounded(event.cache_write),
                                  .output = bounded(event.output)});
  }
  void operator()(Failure& event) const {
    if (!of.in_turn_) return;
    event.message.resize(std::min(event.message.size(), kMessageShown));
    of.has_told_why_ |= !event.retries;
    out.events.emplace_back(std::move(event));
  }
  void operator()(Idle& event) const {
    // Whoever fails before it was ready never will be.
    if (!of.is_ready_ && event.ending == Ending::kFailed)
      return of.give_up("it could not take up the conversation", out);
    // What it calls an end of its own accord is still what was asked for.
    const bool is_ours = of.is_interrupted_ && event.ending != Ending::kDone;
    of.end_turn(is_ours ? Ending::kInterrupted : event.ending, out);
  }

 private:
  template <class Words>
  void words(Words event) const {
    if (of.in_turn_ && !event.text.empty()) out.events.emplace_back(std::move(event));
  }
  template <class Question>
  void ask(Question event, std::set<std::string>& open) const {
    if (!of.in_turn_ || !is_id(event.id)) return;
    if (open.size() >= kOpenMax) return of.give_up("it asks more than it may ask at a time", out);
    if (open.insert(event.id).second) out.events.emplace_back(std::move(event));
  }
};

Conversation::Conversation(std::unique_ptr<Adapter> adapter) : adapter_(std::move(adapter)) {}

Output Conversation::start() {
  Output out;
  adapter_->greet(out);
  return out;
}

Output Conversation::feed(std::string_view bytes) {
  Output out;
  while (!bytes.empty() && !is_broken_) {
    const std::size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (line_.size() + piece.size() > kLineBytesMax) {
      give_up(fmt::format("it wrote a line of more than {} bytes", kLineBytesMax), out);
      break;
    }
    if (end == std::string_view::npos) {
      line_ += piece;
      break;
    }
    if (line_.empty()) {
      take_line(piece, out);
    } else {
      const std::string whole = std::exchange(line_, {}).append(piece);
      take_line(whole, out);
    }
    bytes.remove_prefix(end + 1);
  }
  return out;
}

void Conversation::take_line(std::string_view line, Output& out) {
  line = trim(line);
  if (line.empty()) return;
  Output heard;
  const auto taken = adapter_->take(line, heard);
  std::ranges::move(heard.lines, std::back_inserter(out.lines));
  pass_on(std::move(heard.events), out);
  if (!taken) note_garbage(line, out);
}

// Programs print warnings where only the protocol belongs.
void Conversation::note_garbage(std::string_view line, Output& out) {
  garbage_.emplace_back(line.substr(0, kGarbageBytesShown));
  if (garbage_.size() > kGarbageShown) garbage_.pop_front();
  if (++garbage_lines_ > kGarbageLinesMax)
    give_up("most of what it writes is not of its protocol", out);
}

void Conversation::give_up(std::string message, Output& out) {
  if (is_broken_) return;
  is_broken_ = true;
  line_.clear();
  if (!in_turn_) return;
  // What it said itself says more.
  if (!has_told_why_)
    out.events.emplace_back(Failure{.fault = Fault::kHarness, .message = std::move(message)});
  end_turn(Ending::kFailed, out);
}

void Conversation::pass_on(std::vector<Event> events, Output& out) {
  for (Event& event : events) {
    std::visit(Judge{*this, out}, event);
    if (is_broken_) return;
  }
  if (!is_ready_ || !has_waiting_) return;
  has_waiting_ = false;
  adapter_->send(std::exchange(waiting_, {}), out);
}

void Conversation::end_turn(Ending ending, Output& out) {
  if (!in_turn_) return;
  in_turn_ = false;
  is_interrupted_ = false;
  has_told_why_ = false;
  has_waiting_ = false;
  waiting_.clear();
  for (const std::string& id : std::exchange(open_calls_, {}))
    out.events.emplace_back(ToolResult{
        .id = id, .text = "interrupted: nobody knows how far it came", .is_error = true});
  open_questions_.clear();
  open_requests_.clear();
  out.events.emplace_back(Idle{ending});
}

Result<Output> Conversation::send(std::string text) {
  if (is_broken_)
    return make_error(ErrorCode::kUnavailable, "send to harness", "the harness is broken or ended");
  if (in_turn_) return make_error(ErrorCode::kConflict, "send to harness", "a turn is under way");
  if (text.empty() || text.size() > kMessageBytesMax || !is_valid_utf8(text))
    return make_error(ErrorCode::kInvalid, "send to harness",
                      fmt::format("a message is text of 1 to {} bytes", kMessageBytesMax));
  Output out;
  in_turn_ = true;
  if (is_ready_) {
    adapter_->send(text, out);
  } else {
    waiting_ = std::move(text);
    has_waiting_ = true;
  }
  return out;
}

Output Conversation::interrupt() {
  Output out;
  if (!in_turn_) return out;
  is_interrupted_ = true;
  if (has_waiting_)
    end_turn(Ending::kInterrupted, out);
  else
    adapter_->interrupt(out);
  return out;
}

Output Conversation::decide(const std::string& id, const Decision& decision) {
  Output out;
  if (open_questions_.erase(id) != 0) adapter_->decide(id, decision, out);
  return out;
}

Output Conversation::answer(const std::string& id, const ToolAnswer& answer) {
  Output out;
  if (open_requests_.erase(id) != 0) adapter_->answer(id, answer, out);
  return out;
}

Output Conversation::ended(std::string_view why) {
  Output out;
  is_broken_ = true;
  if (!in_turn_) return out;
  if (is_interrupted_) {
    end_turn(Ending::kInterrupted, out);
    return out;
  }
  if (!has_told_why_)
    out.events.emplace_back(Failure{.fault = Fault::kHarness, .message = std::string(why)});
  end_turn(Ending::kFailed, out);
  return out;
}

}  // namespace pons::harness
