#include "pons/harness/installation.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/check.h"
#include "pons/base/json_place.h"
#include "pons/base/text.h"

// NOLINTBEGIN(readability-identifier-naming): symbols of the assembler
extern "C" const char pons_harness_packages_begin[];
extern "C" const char pons_harness_packages_end[];
// NOLINTEND(readability-identifier-naming)

namespace pons::harness {

namespace {

constexpr std::size_t kHarnessesMax = 64;
constexpr std::size_t kPackagesMax = 4096;
constexpr std::uint64_t kArchiveBytesMax = 4ULL << 30;
constexpr std::string_view kModules = "node_modules/";
constexpr std::string_view kFromNpm = "from npm:";

Result<PlacedPackage> read_placed_package(const JsonPlace& place) {
  TRY_VOID(place.expect_object({"name", "version", "integrity", "place", "bytes"}));
  PlacedPackage placed{.package = {.name = TRY(place.at("name").text()),
                                   .version = TRY(place.at("version").text()),
                                   .integrity = TRY(place.at("integrity").text())},
                       .place = TRY(place.at("place").text()),
                       .bytes = TRY(place.at("bytes").number(0, kArchiveBytesMax))};
  if (!placed.package.integrity.starts_with("sha512-"))
    return place.at("integrity").refuse("must begin with sha512-");
  if (!placed.place.starts_with(kModules) || placed.place.find("..") != std::string::npos)
    return place.at("place").refuse("must be a path below node_modules/");
  return placed;
}

using Locks = std::map<std::string, std::vector<PlacedPackage>>;

const Locks& known_packages() {
  static const Locks kKnown = [] {
    auto read =
        read_packages({pons_harness_packages_begin, pons_harness_packages_end}, "packages.json");
    CHECK(read.has_value());
    return std::move(*read);
  }();
  return kKnown;
}

// One of an operator may have the name of one of ours, and other packages.
bool holds_all(const std::vector<PlacedPackage>& placed, const std::vector<Package>& packages) {
  return std::ranges::all_of(packages, [&](const Package& package) {
    return std::ranges::any_of(placed, [&](const PlacedPackage& other) {
      return other.place == std::string(kModules) + package.name &&
             other.package.version == package.version &&
             other.package.integrity == package.integrity;
    });
  });
}

}  // namespace

Result<Locks> read_packages(std::string_view json, std::string_view from) {
  const auto parsed = parse_json(json);
  if (!parsed || !parsed->is_object() || parsed->size() > kHarnessesMax)
    return make_error(ErrorCode::kInvalid, "read packages of harnesses",
                      fmt::format("{} is no object of lists", from));
  Locks locks;
  const JsonPlace all{*parsed, std::string(from)};
  for (const auto& [name, value] : parsed->items()) {
    const JsonPlace list = all.at(std::string_view(name));
    TRY_VOID(list.expect_list(kPackagesMax));
    for (std::size_t i = 0; i < value.size(); ++i)
      locks[name].push_back(TRY(read_placed_package(list.at(i))));
  }
  return locks;
}

std::vector<PlacedPackage> packages_of(const Recipe& recipe) {
  std::vector<PlacedPackage> placed;
  const auto known = known_packages().find(recipe.name);
  if (known != known_packages().end() && holds_all(known->second, recipe.packages)) {
    placed = known->second;
  } else {
    for (const Package& package : recipe.packages)
      placed.push_back({.package = package, .place = std::string(kModules) + package.name});
  }
  for (PlacedPackage& one : placed)
    for (const Package& package : recipe.packages)
      if (one.place == std::string(kModules) + package.name) one.package.keep = package.keep;
  return placed;
}

std::string brain_template(const Recipe& recipe) {
  return "harness-" + recipe.name;
}

std::string packages_template(const Recipe& recipe) {
  return brain_template(recipe) + "-packages";
}

std::string describe_installation(const Recipe& recipe) {
  std::string text = fmt::format("{} {} {}", recipe.name, recipe.version(), kFromNpm);
  for (const Package& package : recipe.packages)
    text += fmt::format(" {}@{}", package.name, package.version);
  return text;
}

std::optional<std::string> find_version(std::string_view source) {
  const auto words = split(source, ' ');
  if (words.size() < 4 || source.find(kFromNpm) == std::string_view::npos) return std::nullopt;
  return std::string(words[1]);
}

}  // namespace pons::harness
