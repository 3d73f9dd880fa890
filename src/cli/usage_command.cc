#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "command.h"
#include "model_amounts.h"
#include "pages.h"
#include "pons/http/query.h"
#include "terminal.h"

namespace pons::cli {

namespace {

struct Words {
  std::string project = "default";
  std::string key;
  std::string agent;
  std::string model;
  std::string by;
  std::string from;
  std::string to;
};

std::string target_of(const Words& words) {
  std::string target = "/model-usage?project=" + http::percent_encode(words.project);
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) target += fmt::format("&{}={}", name, http::percent_encode(value));
  };
  add("key", words.key);
  add("agent", words.agent);
  add("model", words.model);
  add("by", words.by);
  add("from", words.from);
  add("to", words.to);
  return target;
}

Result<int> tell_usage(const std::string& state_dir, const Common& common, const Words& words) {
  const Json answer = TRY(ask_whole(state_dir, "gateway", target_of(words), "usage"));
  if (common.json) {
    fmt::print("{}\n", dump_json(answer));
    return 0;
  }
  std::vector<std::vector<Cell>> rows = {{{"DAY", Tone::kDim},
                                          {"KEY", Tone::kDim},
                                          {"AGENT", Tone::kDim},
                                          {"MODEL", Tone::kDim},
                                          {"REQUESTS", Tone::kDim},
                                          {"PROMPT", Tone::kDim},
                                          {"CACHED", Tone::kDim},
                                          {"OUTPUT", Tone::kDim},
                                          {"SANDBOX S", Tone::kDim},
                                          {"COST", Tone::kDim}}};
  const auto count = [](const Json& row, const char* name) {
    return row.at(name).get<std::int64_t>();
  };
  for (const Json& row : answer.at("usage"))
    rows.push_back({row.at("day").get<std::string>(), row.at("key").get<std::string>(),
                    row.at("agent").is_null() ? "-" : row.at("agent").get<std::string>(),
                    row.at("model").get<std::string>(), fmt::format("{}", count(row, "requests")),
                    fmt::format("{}", count(row, "input_tokens") + count(row, "cache_read_tokens") +
                                          count(row, "cache_write_tokens") +
                                          count(row, "cache_write_hour_tokens")),
                    fmt::format("{}", count(row, "cache_read_tokens")),
                    fmt::format("{}", count(row, "output_tokens")),
                    fmt::format("{}", count(row, "sandbox_seconds")),
                    dollars(count(row, "cost_nano_usd"))});
  print_table(rows);
  for (const Json& limit : answer.at("warnings")) {
    const auto what = limit.at("what").get<std::string>();
    print_warning(fmt::format("{}: {} of {}/{} used", limit.at("key").get<std::string>(),
                              amount_text(what, count(limit, "used")),
                              amount_text(what, count(limit, "amount")),
                              limit.at("window").get<std::string>()));
  }
  return 0;
}

Cell price_of(const Json& entry, const char* name) {
  if (!entry.contains(name) || entry.at(name).is_null()) return {"-", Tone::kDim};
  return dollars(entry.at(name).get<std::int64_t>());
}

Result<int> list_models(const std::string& state_dir, const Common& common) {
  const Json answer = TRY(ask(state_dir, "gateway", "GET", "/models"));
  if (common.json) {
    fmt::print("{}\n", dump_json(answer));
    return 0;
  }
  std::vector<std::vector<Cell>> rows = {{{"NAME", Tone::kDim},
                                          {"PROVIDER", Tone::kDim},
                                          {"MODEL", Tone::kDim},
                                          {"INPUT/M", Tone::kDim},
                                          {"OUTPUT/M", Tone::kDim}}};
  for (const Json& entry : answer.at("models"))
    rows.push_back({entry.at("name").get<std::string>(), entry.at("provider").get<std::string>(),
                    entry.at("model").get<std::string>(),
                    price_of(entry, "input_nano_usd_per_million"),
                    price_of(entry, "output_nano_usd_per_million")});
  print_table(rows);
  return 0;
}

}  // namespace

void add_usage(CLI::App& app, Common& common, int& exit_code) {
  const auto words = std::make_shared<Words>();
  CLI::App* usage = add_state_command(
      app, common, exit_code, "usage", "Tell what calls to models have used",
      "One line for each key, model and day; the line of a key holds everything below it.",
      Prints::kData,
      [&common, words](const std::string& dir) { return tell_usage(dir, common, *words); });
  usage->add_option("--project", words->project, "Id of the project (default: default)");
  usage->add_option("--key", words->key, "Id of one key: mk_…");
  usage->add_option("--agent", words->agent, "Name of one agent");
  usage->add_option("--model", words->model, "One model");
  usage->add_option("--by", words->by, "key (default), or agent: only the lines of agents");
  usage->add_option("--from", words->from, "First day, YYYY-MM-DD (default: 30 days ago)");
  usage->add_option("--to", words->to, "Last day (default: today)");
}

void add_models(CLI::App& app, Common& common, int& exit_code) {
  add_state_command(app, common, exit_code, "models", "List the models that clients may call",
                    "Shows who answers to each name, and at which price for a million tokens.",
                    Prints::kData,
                    [&common](const std::string& dir) { return list_models(dir, common); });
}

}  // namespace pons::cli
