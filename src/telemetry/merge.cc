#include "pons/telemetry/merge.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons::telemetry {

namespace {

constexpr std::size_t kLinesMax = 20'000;
constexpr std::size_t kHelpBytesMax = 300;

bool is_name(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  const auto goes_on = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); };
  return !text.empty() && is_letter(text.front()) && std::ranges::all_of(text, goes_on);
}

// The piece up to `end`, which is taken away with it; nothing when there is no such end.
std::optional<std::string_view> take_until(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view piece = text.substr(0, at);
  text.remove_prefix(at + 1);
  return piece;
}

// Behind the opening quote; false when the value does not end well.
bool skip_quoted(std::string_view& text) {
  while (!text.empty()) {
    const char c = text.front();
    text.remove_prefix(1);
    if (c == '"') return true;
    if (c != '\\') continue;
    if (text.empty() || (text.front() != '\\' && text.front() != '"' && text.front() != 'n'))
      return false;
    text.remove_prefix(1);
  }
  return false;
}

// `name="value",…}`, behind the opening brace.
bool skip_labels(std::string_view& text) {
  for (;;) {
    const auto name = take_until(text, '=');
    if (!name || !is_name(*name) || *name == "role" || !text.starts_with('"')) return false;
    text.remove_prefix(1);
    if (!skip_quoted(text) || text.empty()) return false;
    const char next = text.front();
    text.remove_prefix(1);
    if (next == '}') return true;
    if (next != ',') return false;
  }
}

bool is_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

struct Sample {
  std::string_view suffix;
  std::string_view labels;  // without braces
  std::string_view value;
};

struct Metric {
  std::string_view name;
  Page::Type type;
  std::string_view help;
  std::vector<Sample> samples;
};

std::optional<Page::Type> type_of(std::string_view word) {
  if (word == "counter") return Page::Type::kCounter;
  if (word == "gauge") return Page::Type::kGauge;
  if (word == "histogram") return Page::Type::kHistogram;
  return std::nullopt;
}

bool is_suffix_of(Page::Type type, std::string_view suffix) {
  if (type != Page::Type::kHistogram) return suffix.empty();
  return suffix == "_bucket" || suffix == "_sum" || suffix == "_count";
}

std::optional<Sample> read_sample(std::string_view line, const Metric& metric) {
  if (!line.starts_with(metric.name)) return std::nullopt;
  line.remove_prefix(metric.name.size());
  const std::size_t named = line.find_first_of("{ ");
  if (named == std::string_view::npos) return std::nullopt;
  Sample sample{.suffix = line.substr(0, named)};
  if (!is_suffix_of(metric.type, sample.suffix)) return std::nullopt;
  const bool has_labels = line[named] == '{';
  line.remove_prefix(named + 1);
  if (has_labels) {
    const std::string_view before = line;
    if (!skip_labels(line) || !line.starts_with(' ')) return std::nullopt;
    sample.labels = before.substr(0, before.size() - line.size() - 1);
    line.remove_prefix(1);
  }
  if (!is_number(line)) return std::nullopt;
  sample.value = line;
  return sample;
}

// A HELP line and the TYPE line behind it.
std::optional<Metric> read_head(std::string_view help, std::string_view type) {
  constexpr std::string_view kHelp = "# HELP ";
  constexpr std::string_view kType = "# TYPE ";
  if (!help.starts_with(kHelp) || !type.starts_with(kType)) return std::nullopt;
  help.remove_prefix(kHelp.size());
  type.remove_prefix(kType.size());
  const auto name = take_until(help, ' ');
  const auto same_name = take_until(type, ' ');
  const auto kind = type_of(type);
  if (!name || !is_name(*name) || name != same_name || !kind || help.size() > kHelpBytesMax)
    return std::nullopt;
  return Metric{.name = *name, .type = *kind, .help = help, .samples = {}};
}

std::optional<std::vector<Metric>> read_page(std::string_view text) {
  std::vector<Metric> metrics;
  const auto lines = split(text.substr(0, text.size() - 1), '\n');
  if (lines.size() > kLinesMax) return std::nullopt;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].starts_with('#')) {
      auto head = i + 1 < lines.size() ? read_head(lines[i], lines[i + 1]) : std::nullopt;
      if (!head || std::ranges::find(metrics, head->name, &Metric::name) != metrics.end())
        return std::nullopt;
      metrics.push_back(std::move(*head));
      ++i;
      continue;
    }
    if (metrics.empty()) return std::nullopt;
    const auto sample = read_sample(lines[i], metrics.back());
    if (!sample) return std::nullopt;
    metrics.back().samples.push_back(*sample);
  }
  return metrics;
}

}  // namespace

Result<void> merge_page(Page& all, std::string_view role, std::string_view text) {
  const bool may_be_page =
      text.size() <= kPageBytesMax && text.ends_with('\n') && is_valid_utf8(text);
  const auto metrics = may_be_page ? read_page(text) : std::nullopt;
  if (!metrics)
    return make_error(ErrorCode::kInvalid, "read metrics",
                      fmt::format("what {} says is not in the shape it should have", role));
  for (const Metric& metric : *metrics) {
    all.begin(metric.name, metric.type, metric.help);
    for (const Sample& sample : metric.samples)
      all.add_line(sample.suffix,
                   fmt::format("{{role=\"{}\"{}{}}} {}", role, sample.labels.empty() ? "" : ",",
                               sample.labels, sample.value));
  }
  return {};
}

}  // namespace pons::telemetry
