#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "egress_requests.h"
#include "help.h"
#include "pons/base/text.h"
#include "pons/linux/fd.h"
#include "state_commands.h"
#include "terminal.h"

namespace pons::cli {

namespace {

struct Words {
  std::string sandbox;
  std::string url;
  std::string method = "GET";
  std::string network;
  std::string step;
};

Result<int> list(const std::string& state_dir, const Common& common, const Words&) {
  const Json answer = TRY(ask(state_dir, "egress", "GET", "/sandboxes"));
  if (common.json) {
    fmt::print("{}\n", dump_json(answer));
    return 0;
  }
  std::vector<std::vector<Cell>> rows = {{{"SANDBOX", Tone::kDim},
                                          {"CONNECTIONS", Tone::kDim},
                                          {"REQUESTS", Tone::kDim},
                                          {"REFUSED", Tone::kDim},
                                          {"SENT", Tone::kDim},
                                          {"CREDENTIALS", Tone::kDim}}};
  const auto number = [](const Json& json, const char* key) {
    return fmt::format("{}", json.at(key).get<std::uint64_t>());
  };
  for (const Json& sandbox : answer.at("sandboxes"))
    rows.push_back(
        {sandbox.at("id").get<std::string>(), number(sandbox, "connections"),
         number(sandbox, "requests"), number(sandbox, "refused"),
         human_bytes(sandbox.at("bytes_out").get<std::uint64_t>()),
         fmt::format("{}",
                     fmt::join(sandbox.at("credentials").get<std::vector<std::string>>(), " "))});
  print_table(rows);
  return 0;
}

Result<int> explain_url(const std::string& state_dir, const Common& common, const Words& words) {
  const Json answer = TRY(
      ask(state_dir, "egress", "POST", "/explain",
          dump_json({{"sandbox", words.sandbox}, {"url", words.url}, {"method", words.method}})));
  const bool blocked = answer.at("verdict") == "block";
  if (common.json) {
    fmt::print("{}\n", dump_json(answer));
    return blocked ? 1 : 0;
  }
  const auto text = [&](const char* key) { return printable(answer.value(key, "")); };
  if (blocked) {
    fmt::print("blocked: {} ({})\n", text("reason"), text("code"));
    fmt::print("hint:    {}\n", text("hint"));
  } else {
    const auto credentials = answer.at("credentials").get<std::vector<std::string>>();
    fmt::print("allowed: TLS {}\n", text("tls"));
    if (!credentials.empty())
      fmt::print("swapped: {}\n", printable(fmt::format("{}", fmt::join(credentials, " "))));
    if (answer.contains("note")) fmt::print("note:    {}\n", text("note"));
  }
  if (!text("rule").empty()) fmt::print("rule:    {}\n", text("rule"));
  return blocked ? 1 : 0;
}

Result<int> set_policy(const std::string& state_dir, const Common& common, const Words& words) {
  constexpr std::size_t kPolicyBytesMax = 256 << 10;
  Json request = Json::object();
  if (words.network.starts_with('@')) {
    const std::string text = TRY(linux::read_file(words.network.substr(1), kPolicyBytesMax));
    request["policy"] = TRY(parse_json(text));
  } else {
    request["environment"] = words.network;
  }
  const Json answer =
      TRY(ask(state_dir, "egress", "PUT", fmt::format("/sandboxes/{}/policy", words.sandbox),
              dump_json(request)));
  if (common.json)
    fmt::print("{}\n", dump_json(answer));
  else
    fmt::print("{} is under its new policy; what was open is closed\n", printable(words.sandbox));
  return 0;
}

Result<int> reload(const std::string& state_dir, const Common& common, const Words&) {
  const auto loaded = load_config(common);
  if (!loaded)
    return make_error(ErrorCode::kInvalid, "reload environments", "the old ones stay in force");
  Json environments = Json::object();
  for (const auto& [name, document] : loaded->config.environments) environments[name] = document;
  const Json answer =
      TRY(ask(state_dir, "egress", "PUT", "/environments", dump_json(environments)));
  if (common.json)
    fmt::print("{}\n", dump_json(answer));
  else
    fmt::print("{} environments are in force\n", loaded->config.environments.size());
  return 0;
}

Result<int> rotate_authority(const std::string& state_dir, const Common& common,
                             const Words& words) {
  const Json answer = TRY(ask(state_dir, "egress", words.step.empty() ? "GET" : "POST",
                              words.step.empty() ? "/authority" : "/authority/" + words.step));
  if (common.json) {
    fmt::print("{}\n", dump_json(answer));
    return 0;
  }
  fmt::print("signs: {}\n", answer.at("current").at("sha256").get<std::string>());
  if (!answer.contains("next")) return 0;
  const Json& next = answer.at("next");
  fmt::print("next:  {} ({})\n", next.at("sha256").get<std::string>(),
             next.at("trusted").get<bool>() ? "sandboxes trust it: rotate when you like"
                                            : "restart Pons, then rotate");
  return 0;
}

Result<int> print_metrics(const std::string& state_dir, const Common&, const Words&) {
  fmt::print("{}",
             printable(TRY(ask_text(state_dir, "egress", "GET", "/metrics")), LineFeeds::kKept));
  return 0;
}

}  // namespace

void add_egress(CLI::App& app, Common& common, int& exit_code) {
  StateCommands<Words> commands(app, common, exit_code, "egress",
                                "See and change what sandboxes may reach");
  Words& words = commands.words();

  commands.add("ls", "List the sandboxes that have a network",
               "Shows what they have sent and asked for.", list);

  CLI::App* why =
      commands.add("explain", "Say what would happen to a request, and which rule decides",
                   "Nothing is sent to the host; only its name is looked up.", explain_url);
  why->add_option("sandbox", words.sandbox, "Id of the sandbox")->required();
  why->add_option("url", words.url, "Such as https://api.github.com/user")->required();
  why->add_option("--method", words.method, "Method of the request (default: GET)");
  why->footer(
      "EXAMPLES\n"
      "  pons egress explain work https://api.github.com/user\n"
      "  pons egress explain work https://api.github.com/gists --method POST\n"
      "\n"
      "EXIT STATUS\n  0 when it would be allowed, 1 when not.");

  CLI::App* policy = commands.add(
      "policy", "Put a sandbox under another policy",
      "Takes effect at once: connections that were judged by the old one end.", set_policy);
  policy->add_option("sandbox", words.sandbox, "Id of the sandbox")->required();
  policy->add_option("network", words.network, "An environment, or @FILE with a policy as JSON")
      ->required();

  commands.add(
      "reload", "Read the environments of pons.yaml again",
      "Sandboxes of an environment that has changed are under the new one at once. If one of them "
      "cannot be used,\nall stay as they were.",
      reload);

  CLI::App* authority =
      commands.add("authority", "See or rotate the authority that sandboxes trust",
                   "It signs for the hosts that are looked into, and nobody outside sandboxes "
                   "trusts it. Its key "
                   "is replaced in\ntwo steps, with a restart of Pons between them: `prepare` "
                   "makes the next one, "
                   "and sandboxes that begin after\nthe restart trust both; `rotate` signs with it "
                   "from then on.",
                   rotate_authority);
  authority->add_option("step", words.step, "prepare or rotate; without it, what there is")
      ->check(CLI::IsMember({"prepare", "rotate"}));

  add_egress_requests(commands.group(), common, exit_code);
  commands.add(
      "metrics", "Print counters for programs that watch",
      "In the text format of Prometheus: how often what was decided, since egress was started.",
      print_metrics, Prints::kText);
}

}  // namespace pons::cli
