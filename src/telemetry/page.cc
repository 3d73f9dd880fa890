#include "pons/telemetry/page.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "pons/base/check.h"
#include "pons/base/text.h"

namespace pons::telemetry {

namespace {

constexpr std::size_t kLabelBytesMax = 128;

std::string_view name_of(Page::Type type) {
  switch (type) {
    case Page::Type::kCounter:
      return "counter";
    case Page::Type::kGauge:
      return "gauge";
    case Page::Type::kHistogram:
      break;
  }
  return "histogram";
}

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

void append_value(std::string& out, std::string_view value) {
  if (!is_valid_utf8(value)) value = "other";
  if (value.size() > kLabelBytesMax) value = "other";
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
}

}  // namespace

void Page::begin(std::string_view name, Type type, std::string_view help) {
  const auto found = std::ranges::find(metrics_, name, &Metric::name);
  at_ = static_cast<std::size_t>(found - metrics_.begin());
  if (found != metrics_.end()) return;
  metrics_.push_back(
      {.name = std::string(name),
       .head = fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, name_of(type), help),
       .samples = {}});
}

void Page::add(Labels labels, double value) {
  add_text(labels, fmt::format("{}", value));
}

void Page::add(Labels labels, const Histogram& histogram) {
  std::uint64_t so_far = 0;
  for (std::size_t i = 0; i < histogram.bounds().size(); ++i) {
    so_far += histogram.in_bucket(i);
    add_text(labels, std::to_string(so_far), "_bucket",
             fmt::format("{}", seconds(histogram.bounds()[i])));
  }
  add_text(labels, std::to_string(histogram.count()), "_bucket", "+Inf");
  add_text(labels, fmt::format("{}", seconds(histogram.sum())), "_sum");
  add_text(labels, std::to_string(histogram.count()), "_count");
}

void Page::gauge(std::string_view name, std::string_view help, double value) {
  begin(name, Type::kGauge, help);
  add({}, value);
}

void Page::counter(std::string_view name, std::string_view help, double value) {
  begin(name, Type::kCounter, help);
  add({}, value);
}

void Page::add_line(std::string_view suffix, std::string_view rest) {
  CHECK(at_ < metrics_.size());
  Metric& metric = metrics_[at_];
  metric.samples.append(metric.name).append(suffix).append(rest).append("\n");
}

void Page::add_text(Labels labels, std::string_view value, std::string_view suffix,
                    std::string_view le) {
  std::string rest;
  const auto append = [&](std::string_view name, std::string_view of) {
    rest += rest.empty() ? '{' : ',';
    rest.append(name).append("=\"");
    append_value(rest, of);
    rest += '"';
  };
  for (const auto& [name, of] : labels) append(name, of);
  if (!le.empty()) append("le", le);
  if (!rest.empty()) rest += '}';
  rest.append(" ").append(value);
  add_line(suffix, rest);
}

std::string Page::text() const {
  std::string all;
  for (const Metric& metric : metrics_) all.append(metric.head).append(metric.samples);
  return all;
}

}  // namespace pons::telemetry
