#include "egress_requests.h"

#include <poll.h>
#include <signal.h>

#include <chrono>
#include <set>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "command.h"
#include "pons/base/id.h"
#include "pons/linux/signals.h"
#include "terminal.h"

namespace pons::cli {

namespace {

struct Words {
  std::string action;
  std::string id;
  std::string message;
  bool all = false;
  bool follow = false;
};

bool is_shown(const Json& request, const Words& words) {
  return words.all || request.at("status") == "pending";
}

void print_requests(const Json& requests, const Common& common, const Words& words) {
  if (common.json) {
    Json shown = Json::array();
    for (const Json& request : requests)
      if (is_shown(request, words)) shown.push_back(request);
    fmt::print("{}\n", dump_json({{"requests", std::move(shown)}}));
    return;
  }
  std::vector<std::vector<Cell>> rows = {{{"ID", Tone::kDim},
                                          {"STATUS", Tone::kDim},
                                          {"AGE", Tone::kDim},
                                          {"SANDBOX", Tone::kDim},
                                          {"WANTS", Tone::kDim},
                                          {"METHODS", Tone::kDim},
                                          {"REASON", Tone::kDim}}};
  for (const Json& request : requests)
    if (is_shown(request, words))
      rows.push_back(
          {request.at("id").get<std::string>(), request.at("status").get<std::string>(),
           age_of(request.at("asked_unix_ms").get<std::int64_t>()),
           request.at("sandbox").get<std::string>(),
           fmt::format("{}:{}", request.at("host").get<std::string>(),
                       request.at("port").get<std::uint64_t>()),
           fmt::format("{}",
                       fmt::join(request.value("methods", std::vector<std::string>{"any"}), " ")),
           request.at("reason").get<std::string>()});
  print_table(rows);
}

void print_new_request(const Json& request, const Common& common) {
  if (common.json) {
    fmt::print("{}\n", dump_json(request));
    return;
  }
  const auto time = std::chrono::system_clock::time_point(
      std::chrono::milliseconds(request.at("asked_unix_ms").get<std::int64_t>()));
  fmt::print(
      "{:%F %T}Z {} {} wants {}:{}: {}\n", fmt::gmtime(std::chrono::system_clock::to_time_t(time)),
      printable(request.at("id").get<std::string>()),
      printable(request.at("sandbox").get<std::string>()),
      printable(request.at("host").get<std::string>()), request.at("port").get<std::uint64_t>(),
      printable(request.at("reason").get<std::string>()));
}

// Each once, those that wait already first, until Ctrl-C.
Result<int> follow_requests(const std::string& state_dir, const Common& common,
                            const Words& words) {
  const auto signals = TRY(linux::SignalFd::create({SIGINT, SIGTERM}));
  constexpr int kPauseMs = 1000;
  std::set<std::string> shown;
  for (;;) {
    const Json answer = TRY(ask(state_dir, "egress", "GET", "/access-requests"));
    for (const Json& request : answer.at("requests"))
      if (is_shown(request, words) && shown.insert(request.at("id").get<std::string>()).second)
        print_new_request(request, common);
    std::fflush(stdout);
    if (std::ferror(stdout) != 0) return 0;  // nobody reads any more
    pollfd stop{.fd = signals.fd(), .events = POLLIN};
    if (poll(&stop, 1, kPauseMs) > 0) return 0;
  }
}

Result<int> list_requests(const std::string& state_dir, const Common& common, const Words& words) {
  if (words.follow) return follow_requests(state_dir, common, words);
  const Json answer = TRY(ask(state_dir, "egress", "GET", "/access-requests"));
  print_requests(answer.at("requests"), common, words);
  return 0;
}

Result<int> close_request(const std::string& state_dir, const Common& common, const Words& words) {
  if (!is_id_text(words.id))
    return make_error(ErrorCode::kInvalid, "read id", "that is not the id of an access request");
  const Json answer =
      TRY(ask(state_dir, "egress", "POST", fmt::format("/access-requests/{}/close", words.id)));
  if (common.json)
    fmt::print("{}\n", dump_json(answer));
  else
    fmt::print("closed {}; the policy is as it was\n", words.id);
  return 0;
}

// What came of it is said, not what was wanted: somebody else may have decided before.
Result<int> decide_request(const std::string& state_dir, const Common& common, const Words& words) {
  if (!is_id_text(words.id))
    return make_error(ErrorCode::kInvalid, "read id", "that is not the id of an access request");
  const Json answer =
      TRY(ask(state_dir, "egress", "POST", fmt::format("/access-requests/{}/decision", words.id),
              dump_json({{"allow", words.action == "allow"}, {"message", words.message}})));
  const auto status = answer.at("status").get<std::string>();
  const auto note = answer.value("message", std::string());
  if (common.json)
    fmt::print("{}\n", dump_json(answer));
  else
    fmt::print("{} is {}{}\n", words.id, printable(status),
               note.empty() ? "" : printable(": " + note));
  return status == (words.action == "allow" ? "allowed" : "denied") ? 0 : 1;
}

Result<int> act(const std::string& state_dir, const Common& common, const Words& words) {
  if (words.action.empty()) return list_requests(state_dir, common, words);
  if (words.action == "close") return close_request(state_dir, common, words);
  return decide_request(state_dir, common, words);
}

}  // namespace

void add_egress_requests(CLI::App& group, Common& common, int& exit_code) {
  const auto words = std::make_shared<Words>();
  CLI::App* command = add_state_command(
      group, common, exit_code, "requests", "Show what sandboxes ask to be allowed, or answer",
      "A program in a sandbox asks with POST http://tools.pons.internal/access-requests. People of "
      "the sandbox's session are\nasked in it; whoever answers first has answered. Allowing opens "
      "that host and port to that sandbox, and nothing to\nany other; closing changes nothing. "
      "What "
      "a sandbox gives as its reason is its own words.",
      Prints::kData, [&common, words](const std::string& dir) { return act(dir, common, *words); });
  CLI::Option* action =
      command
          ->add_option("action", words->action, "allow, deny, or close: it is dealt with elsewhere")
          ->check(CLI::IsMember({"allow", "deny", "close"}));
  CLI::Option* id = command->add_option("id", words->id, "Id of the request");
  action->needs(id);
  command->add_option("--message", words->message, "What the sandbox is told")->needs(action);
  command->add_flag("--all", words->all, "Closed ones, too");
  command->add_flag("-f,--follow", words->follow, "Go on with those that come");
  command->footer(
      "EXAMPLES\n"
      "  pons egress requests\n"
      "  pons egress requests --follow --json\n"
      "  pons egress requests allow acc_7k2m…\n"
      "  pons egress requests deny acc_7k2m… --message 'use the mirror'");
}

}  // namespace pons::cli
