#pragma once

#include <array>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "pons/budget/book.h"
#include "pons/telemetry/page.h"
#include "routing.h"

namespace pons::gateway {

// What calls to models came to. Names are those that the operator or the price table has: what a
// client makes up is counted as "other".
class ModelMetrics {
 public:
  void know_model(std::string name) { known_.insert(std::move(name)); }
  bool knows(std::string_view model) const { return known_.contains(model); }
  // As it may be shown to whoever watches.
  std::string_view shown(std::string_view model) const { return knows(model) ? model : "other"; }

  void count(const budget::Charged& call);
  void count_first_byte(const Deployment& deployment, Duration after);
  void count_refusal(ErrorCode code);  // before anybody was asked
  telemetry::Counter retries;          // the same deployment once more
  telemetry::Counter fallbacks;        // another one in its place
  telemetry::Counter warnings;         // limits that are nearly used up

  void write(telemetry::Page& page) const;

 private:
  struct Calls {
    std::array<telemetry::Counter, budget::kOutcomes> by_outcome;
    telemetry::Counter input;
    telemetry::Counter cache_read;
    telemetry::Counter cache_write;
    telemetry::Counter output;
    telemetry::Counter reasoning;  // part of output
    telemetry::Counter cost_nano;
    telemetry::Histogram first_byte{telemetry::long_bounds()};
  };
  Calls& of(std::string_view provider, std::string_view model);

  std::set<std::string, std::less<>> known_;
  telemetry::Series<Calls> calls_{100};
  telemetry::Series<telemetry::Counter> refusals_{8};
};

// Of the deployments that the configuration names.
void write_health(telemetry::Page& page, const Routing& routing, TimePoint now);

}  // namespace pons::gateway
