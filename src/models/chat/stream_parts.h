#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/models/protocol.h"

namespace pons::models::chat {

// Sees where a JSON object ends, without a look at what is in it.
class ObjectEnd {
 public:
  void feed(std::string_view text);
  bool is_reached() const { return began_ && depth_ == 0; }

 private:
  std::int64_t depth_ = 0;
  bool began_ = false;
  bool in_string_ = false;
  bool escaped_ = false;
};

// The parts of an answer in the order in which they appear. Chunks may mix them; the events that
// leave here never overlap. The first part that is not over passes on at once, others wait until it
// is: text when something else comes, a tool call when its arguments are a whole object.
class StreamParts {
 public:
  enum class Kind : std::uint8_t { kText, kRefusal, kThinking, kTool };

  struct ToolDelta {
    std::optional<std::int64_t> index;
    std::string_view id;
    std::string_view name;
    std::string_view input;
    bool free_form = false;
  };

  Result<void> grow(Kind kind, std::string_view text, const AnswerSink& sink);
  Result<void> grow_tool(const ToolDelta& delta, const AnswerSink& sink);
  // A citation of the text or a proof of the thinking, as JSON: told at the part's end.
  Result<void> note(Kind kind, std::string json, const AnswerSink& sink);
  Result<void> end(const AnswerSink& sink);

  bool has(Kind kind) const;

 private:
  struct Slot {
    Kind kind = Kind::kText;
    Part part = {.content = TextPart{}};
    std::optional<std::int64_t> index;  // of a tool, as its server counts
    std::string held = {};              // waits for its turn
    std::vector<std::string> notes = {};
    ObjectEnd arguments;
    bool began = false;
  };

  Result<std::size_t> last_of(Kind kind);
  Result<std::size_t> find_tool(const ToolDelta& delta);
  Result<std::size_t> add(Slot slot);
  Result<void> append(std::size_t at, std::string_view text, const AnswerSink& sink);
  void pump(const AnswerSink& sink);
  static bool is_over(const Slot& slot);
  static void close(const Slot& slot, const AnswerSink& sink);

  std::vector<Slot> slots_;
  std::size_t open_ = 0;  // those before are over
  std::size_t held_bytes_ = 0;
};

}  // namespace pons::models::chat
