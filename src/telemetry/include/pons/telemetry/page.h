#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pons/telemetry/instruments.h"

namespace pons::telemetry {

inline constexpr std::string_view kPageType = "text/plain; version=0.0.4; charset=utf-8";

// What programs that watch read: Prometheus' text format, version 0.0.4.
class Page {
 public:
  enum class Type : std::uint8_t { kCounter, kGauge, kHistogram };
  using Label = std::pair<std::string_view, std::string_view>;  // name and value
  using Labels = std::initializer_list<Label>;

  // The samples that follow are of this metric. One that was begun before goes on: the format wants
  // all samples of a metric in one place, whoever writes them. Names and help are text of ours.
  void begin(std::string_view name, Type type, std::string_view help);

  // Values of labels may be any text: they are escaped, and cut where they are long.
  void add(Labels labels, double value);
  void add(Labels labels, std::integral auto value) { add_text(labels, std::to_string(value)); }
  void add(Labels labels, const Histogram& histogram);

  // A metric with one sample.
  void gauge(std::string_view name, std::string_view help, double value);
  void counter(std::string_view name, std::string_view help, double value);

  // A whole sample behind what names it: `{labels} value`, or ` value`. For what was checked.
  void add_line(std::string_view suffix, std::string_view rest);

  std::string text() const;

 private:
  struct Metric {
    std::string name;
    std::string head;
    std::string samples;
  };
  void add_text(Labels labels, std::string_view value, std::string_view suffix = {},
                std::string_view le = {});

  std::vector<Metric> metrics_;  // in the order in which they were begun
  std::size_t at_ = 0;
};

// What all parts of a process have to say; each adds its own.
class Registry {
 public:
  using Source = std::function<void(Page&)>;
  // The source is asked whenever somebody reads, and must live as long as this.
  void add(Source source) { sources_.push_back(std::move(source)); }
  void write(Page& page) const {
    for (const Source& source : sources_) source(page);
  }
  std::string text() const {
    Page page;
    write(page);
    return page.text();
  }

 private:
  std::vector<Source> sources_;
};

}  // namespace pons::telemetry
