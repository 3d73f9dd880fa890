#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/http/server.h"
#include "pons/linux/loop.h"
#include "pons/models/answer.h"
#include "pons/models/message.h"

namespace pons::trial {

// What a model is asked, as a script reads it. What people say holds "[[word]]": the last such word
// says which step the conversation is at, whoever tells it and in whatever form.
struct Asked {
  explicit Asked(models::Request request);

  models::Request request;
  std::string step;        // the word
  std::string since;       // all that was said behind it, results of tools among it
  std::string whole;       // all that was ever said
  std::size_t number = 0;  // of the calls of this model, from 0

  // Nobody talks like that to a model that is to work: a harness wants a title, say.
  bool is_aside() const { return request.tools.empty(); }
  std::vector<std::string> tool_names() const;
  // The tool of ours with that name, whatever its harness puts before it. Empty: not offered.
  std::string find_tool(std::string_view name) const;
  // A shell of the harness' own.
  const models::Tool* find_shell() const;
};

// One answer.
struct Reply {
  std::string text = {};
  std::vector<models::ToolCallPart> calls = {};
  std::size_t pieces = 1;  // of the text
  Duration pause{};        // before each of them but the first
  std::int64_t dear = 0;   // tokens that it is said to have read beside the usual ones
  // Instead of an answer:
  int refusal = 0;         // the status
  bool is_silent = false;  // until the client leaves
  bool is_garbled = false;
};
Reply say(std::string text);
// Has the command run by what this conversation has for that: a sandbox, which is taken first, or
// the harness' own shell.
Reply run_command(const Asked& asked, const std::string& command);

using Script = std::function<Reply(const Asked&)>;

// Models on loopback that speak Chat Completions, each with a script by its name.
class ScriptedModel {
 public:
  struct Record {
    std::size_t calls = 0;
    std::size_t pieces = 0;                      // of texts, sent
    std::size_t hang_ups = 0;                    // of clients in the middle of an answer
    models::Usage usage;                         // told with whole answers
    std::vector<std::set<std::string>> offered;  // names of tools, where there were any
    std::vector<std::string> unreadable;         // why
  };

  static Result<std::unique_ptr<ScriptedModel>> open(linux::Loop& loop);

  std::uint16_t port() const { return port_; }
  void play(const std::string& model, Script script) { scripts_[model] = std::move(script); }
  const Record& record(const std::string& model) { return records_[model]; }

 private:
  explicit ScriptedModel(linux::Loop& loop);
  Task<> serve(http::Exchange& exchange);
  Task<> answer(http::Exchange& exchange, const models::Request& request, const Reply& reply,
                Record& record);
  Task<> stream(http::Exchange& exchange, const models::Request& request,
                const models::Answer& answer, const Reply& reply, Record& record);

  linux::Loop& loop_;
  std::uint16_t port_ = 0;
  std::map<std::string, Script> scripts_;
  std::map<std::string, Record> records_;
  http::Server server_;
};

}  // namespace pons::trial
