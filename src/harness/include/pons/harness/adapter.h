#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/harness/event.h"

// How one harness is spoken to: lines of JSON to its standard input, lines of JSON from its
// standard output. An adapter knows the words of one protocol and nothing else: no process, no
// clock. What holds for all of them, whatever they say, is Conversation's.

namespace pons::harness {

enum class Protocol : std::uint8_t { kClaude, kCodex, kPi, kAcp };
Result<Protocol> read_protocol(std::string_view word);
std::string_view name_of(Protocol protocol);

struct Capabilities {
  bool deltas = false;         // text comes in pieces
  bool thinking = false;       // so does what it thinks
  bool permissions = false;    // it asks before it uses a tool
  bool tool_requests = false;  // it lets us run tools over its standard streams
  bool usage = false;
  bool resume = false;  // a new process can go on with a conversation
  bool operator==(const Capabilities&) const = default;
};

// A tool that the harness is to ask us for (where it can).
struct OfferedTool {
  std::string name;
  std::string description;
  std::string input_schema;  // JSON
};

struct HttpServer {
  std::string name;
  std::string url;
  std::string bearer;  // may be empty
};

// What the conversation is to be. All of it is ours, nothing a stranger's.
struct Wish {
  std::string model;
  std::string directory = "/";  // that it works in
  std::string session = {};     // of an earlier process, to go on with; empty: a new one
  std::vector<OfferedTool> tools = {};
  std::vector<HttpServer> servers = {};  // of tools, for those that are told over standard streams
  bool only_these_tools = true;          // its own are to be off
};

struct Decision {
  bool allowed = false;
  std::string message = {};  // why not
};
struct ToolAnswer {
  std::string text;
  bool is_error = false;
};

// Lines to be written, and what was heard.
struct Output {
  std::vector<std::string> lines;  // without the line's end
  std::vector<Event> events;
};

class Adapter {
 public:
  virtual ~Adapter() = default;
  virtual Capabilities capabilities() const = 0;

  // The process runs: what it is told first.
  virtual void greet(Output& out) = 0;
  // One line of it; hostile text. An error: it is none of the protocol.
  virtual Result<void> take(std::string_view line, Output& out) = 0;
  virtual void send(std::string_view text, Output& out) = 0;
  virtual void interrupt(Output& out) = 0;
  // To what was asked and is not answered yet; others are passed over.
  virtual void decide(const std::string& id, const Decision& decision, Output& out) = 0;
  virtual void answer(const std::string& id, const ToolAnswer& answer, Output& out) = 0;
};

std::unique_ptr<Adapter> create_adapter(Protocol protocol, Wish wish);

}  // namespace pons::harness
