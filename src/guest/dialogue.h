#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/harness/adapter.h"
#include "pons/harness/recipe.h"

// A question to a model, as what is to be told to somebody who remembers what was said before.

namespace pons::guest {

// How much of a conversation a guest has heard, or said itself: that many blocks, and what they
// were.
struct Heard {
  std::size_t blocks = 0;
  std::string digest = {};
  bool operator==(const Heard&) const = default;
};

// What a guest was told before anything was said, as digests.
struct Terms {
  std::string offer =
      {};  // its tools, and the model: a process knows one offer as long as it lives
  std::string system = {};  // its instructions, which may be told anew
  bool operator==(const Terms&) const = default;
};

// Of a call that the guest asked for.
struct ResultNews {
  std::string call;  // its id in the conversation
  std::string name;
  std::string input;
  std::string text;
  bool is_error = false;
};

struct News {
  std::vector<ResultNews> results;
  std::string text;  // what people say
};

// How it ended for a guest with tools of its own that was in this conversation before.
enum class LastTime : std::uint8_t {
  kEnded,
  kCutOff,  // what it had begun by then may be in no log
};

class Dialogue {
 public:
  // Of the Messages protocol.
  static Result<Dialogue> read(std::string_view request);

  const std::string& model() const { return model_; }
  const std::string& system() const { return system_; }
  const std::vector<harness::OfferedTool>& tools() const { return tools_; }
  // In the machine it has a shell and files of its own.
  std::vector<harness::OfferedTool> tools_for(harness::Placement placement) const;
  bool offers(std::string_view tool) const;
  Terms terms(harness::Placement placement) const;

  // All of it.
  Heard heard() const;
  // What came after that, and after what the guest said then. Nothing when this is not how the
  // conversation went on.
  std::optional<News> news_since(const Heard& heard) const;
  // For a guest that was not there: the instructions, and the conversation from its beginning. Of a
  // long one the first message and the end.
  std::string as_told(LastTime last_time = LastTime::kEnded) const;
  // For one that was told other instructions.
  std::string as_new_instructions() const;

 private:
  struct Block {
    enum class Kind : std::uint8_t { kSaid, kCall, kResult } kind = Kind::kSaid;
    bool is_ours = false;  // of the user's side
    std::string call;      // id of a call
    std::string name;      // of its tool
    std::string text;      // said, asked for as JSON, or what came of it
    bool is_error = false;
    std::string digest;
  };
  std::string digest_of(std::size_t blocks) const;
  const Block* find_call(std::string_view id) const;
  std::string told(const Block& block) const;

  std::string model_;
  std::string system_;
  std::vector<harness::OfferedTool> tools_;
  std::vector<Block> blocks_;
};

// Of a result that nobody waits for any more.
std::string told_result(const ResultNews& result);

}  // namespace pons::guest
