#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "pons/http/event_stream.h"
#include "pons/session/world.h"

namespace pons::brain {

// Puts an answer together out of the events of a stream (Messages protocol), and takes what the
// gateway says behind them about its cost. What does not belong there makes the answer a broken
// one; nothing it says is believed to be well-formed.
class AnswerReader {
 public:
  explicit AnswerReader(const session::Listener& listener) : listener_(listener) {}

  // An error: it makes no sense. Final.
  Result<void> feed(std::string_view bytes);
  bool is_whole() const { return stopped_; }
  // Once it is whole.
  session::Answer take();
  // What the stream itself says about its failure; empty: nothing.
  const std::string& error_message() const { return error_message_; }
  session::ModelFault fault() const { return fault_; }

 private:
  struct Block {
    std::string start;    // JSON, as content_block_start gave it
    std::string text;     // of text_delta or thinking_delta
    std::string partial;  // of input_json_delta
    std::string signature;
    std::vector<std::string> citations;  // JSON
    bool is_open = true;
  };

  static bool is_kept(const Block& block);
  void take_event(const http::ServerEvent& event);
  void refuse(const char* why);
  std::string keep(std::string text);  // the same, counted

  const session::Listener& listener_;
  http::EventStreamParser parser_{std::size_t{16} << 20};
  std::vector<Block> blocks_;
  std::int64_t kept_blocks_ = 0;  // of those that have ended
  std::set<std::string> call_ids_;
  std::size_t bytes_ = 0;
  std::size_t kept_ = 0;
  session::Answer answer_;
  bool begun_ = false;
  bool stopped_ = false;
  bool failed_ = false;
  std::string refusal_;
  std::string error_message_;
  session::ModelFault fault_ = session::ModelFault::kOther;
};

}  // namespace pons::brain
