#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "pons/base/check.h"
#include "pons/base/text.h"
#include "pons/session/outcome.h"
#include "pons/session/tool_text.h"
#include "pons/session/tools.h"

using namespace pons;
using namespace pons::session;

// What a model passes to its tools, and what a command prints: read or refused with a sentence;
// what is read holds no NUL, and what is shown is text that ends where a character does.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto whole = [](const std::string& text) { return text.find('\0') == std::string::npos; };
  if (const auto read = read_execute(input))
    CHECK(!read->command.empty() && whole(read->command) && whole(read->input) &&
          whole(read->sandbox) && read->timeout_seconds >= 0 && read->timeout_seconds <= 86'400);
  else
    CHECK(!read.error().message.empty());
  if (const auto read = read_provision(input))
    CHECK(!read->task_description.empty() && whole(read->sandbox_template));
  else
    CHECK(!read.error().message.empty());
  if (const auto read = read_spawn(input))
    CHECK(!read->task.empty() && read->budget_percent >= 0 && read->budget_percent <= 100);
  else
    CHECK(!read.error().message.empty());
  static const AgentSpec kLead{
      .has_threads = true, .makes_members = true, .members = Members({{.name = "a"}})};
  if (const auto read = read_task(kLead, input))
    CHECK(read->agent.empty() != read->system.empty());
  else
    CHECK(!read.error().message.empty());
  if (const auto grade = read_grade(input)) CHECK(is_valid_utf8(grade->explanation));
  (void)read_question(input);
  CHECK(!takes_last_sandbox(kExecute, input) || read_execute(input));

  const std::string shown = printable(std::string(input));
  CHECK(is_valid_utf8(shown) && whole(shown));
  CHECK(!is_valid_utf8(input) || !whole(std::string(input)) || shown == input);
  for (const std::size_t bytes : {0, 1, 7, 100}) CHECK(is_valid_utf8(shorten(shown, bytes)));
  CHECK(is_valid_utf8(describe({.output = std::string(input), .lost_bytes = size}).text));
  return 0;
}
