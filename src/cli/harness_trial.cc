// `pons harness test`: each promise of a harness, tried for real.

#include <unistd.h>

#include <algorithm>
#include <csignal>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness_recipes.h"
#include "pons/base/id.h"
#include "pons/linux/signals.h"
#include "pons/trial/trial.h"
#include "template_work.h"
#include "terminal.h"

namespace pons::cli {

namespace {

constexpr const char* kNative = "native";

Result<trial::Order> order_for(const std::string& state_dir, const Common& common,
                               const HarnessWords& words) {
  // Beside the layers, so that they need not be copied.
  trial::Order order{.program = "/proc/self/exe",
                     .directory = fmt::format("{}/trial-{}", state_dir, random_text(8)),
                     .layers = state_dir + "/spawner/layers",
                     .harness = words.name,
                     .only = words.story,
                     .with_long = words.with_long};
  const auto known = TRY(list_templates(state_dir));
  if (words.name == kNative) return order;
  order.recipe = TRY(find_recipe(common, words));
  order.own_recipe = TRY(find_own_recipe(common, words));
  const InstalledHarness installed = find_installed(*order.recipe, known);
  if (!installed.is_whole())
    return make_error(
        ErrorCode::kNotFound, "test harness",
        fmt::format("the harness {0} is not installed: run `pons harness install {0}`",
                    words.name));
  if (!installed.is_as_tested(*order.recipe))
    print_warning(fmt::format("{} is installed as \"{}\" and was tested as \"{}\"", words.name,
                              installed.version().value_or("?"), order.recipe->version()));
  order.templates = {*installed.brain, *installed.packages};
  return order;
}

void print_finding(const trial::Finding& finding) {
  fmt::print(
      "{} {:7}  {}  {}\n",
      paint(finding.is_kept ? "kept  " : "BROKEN", finding.is_kept ? Tone::kGood : Tone::kBad),
      finding.place, finding.promise,
      paint(fmt::format("{} ms", finding.took.count()), Tone::kDim));
  if (!finding.is_kept) fmt::print("        {}\n", printable(finding.why, LineFeeds::kKept));
  std::fflush(stdout);
}

Json to_json(const trial::Finding& finding) {
  return {{"place", finding.place},  {"story", finding.story}, {"promise", finding.promise},
          {"kept", finding.is_kept}, {"why", finding.why},     {"took_ms", finding.took.count()}};
}

}  // namespace

Result<int> test_harness(const std::string& state_dir, const Common& common,
                         const HarnessWords& words) {
  const auto signals = TRY(linux::SignalFd::create({SIGINT, SIGTERM}));
  const trial::Order order = TRY(order_for(state_dir, common, words));
  const auto findings =
      TRY(trial::try_harness(order, signals.fd(), [&](const trial::Finding& finding) {
        if (!common.json) print_finding(finding);
      }));
  if (findings.empty())
    return make_error(ErrorCode::kNotFound, "test harness",
                      fmt::format("there is no story \"{}\" for {}", words.story, words.name));
  const auto broken = std::ranges::count(findings, false, &trial::Finding::is_kept);
  if (common.json) {
    Json all = Json::array();
    for (const trial::Finding& finding : findings) all.push_back(to_json(finding));
    fmt::print("{}\n",
               dump_json({{"harness", words.name},
                          {"version", order.recipe ? Json(order.recipe->version()) : Json()},
                          {"kept", broken == 0},
                          {"promises", std::move(all)}}));
  } else {
    fmt::print("{}: {} of {} promises kept\n", words.name,
               findings.size() - static_cast<std::size_t>(broken), findings.size());
  }
  return broken == 0 ? 0 : 1;
}

}  // namespace pons::cli
