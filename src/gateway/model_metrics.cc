#include "model_metrics.h"

namespace pons::gateway {

namespace {

constexpr double kNano = 1e9;

std::uint64_t amount(std::int64_t number) {
  return number > 0 ? static_cast<std::uint64_t>(number) : 0;
}

std::string_view reason_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kLimit:
      return "budget";
    case ErrorCode::kDenied:
      return "key";
    case ErrorCode::kNotFound:
      return "no_price";
    case ErrorCode::kInvalid:
      return "invalid";
    default:
      return "ledger";
  }
}

}  // namespace

ModelMetrics::Calls& ModelMetrics::of(std::string_view provider, std::string_view model) {
  return calls_.at({provider, shown(model)});
}

void ModelMetrics::count(const budget::Charged& call) {
  Calls& calls = of(call.provider, call.model);
  calls.by_outcome[static_cast<std::size_t>(call.outcome)].add();
  calls.input.add(amount(call.usage.input));
  calls.cache_read.add(amount(call.usage.cache_read));
  calls.cache_write.add(amount(call.usage.cache_write) + amount(call.usage.cache_write_hour));
  calls.output.add(amount(call.usage.output));
  calls.reasoning.add(amount(call.usage.reasoning.value_or(0)));
  calls.cost_nano.add(amount(call.cost_nano));
}

void ModelMetrics::count_first_byte(const Deployment& deployment, Duration after) {
  of(deployment.provider, deployment.model).first_byte.observe(after);
}

void ModelMetrics::count_refusal(ErrorCode code) {
  refusals_.at({reason_of(code)}).add();
}

void ModelMetrics::write(telemetry::Page& page) const {
  using enum telemetry::Page::Type;
  for (const auto& [names, calls] : calls_.all()) {
    const telemetry::Page::Label provider{"provider", names[0]};
    const telemetry::Page::Label model{"model", names[1]};
    page.begin("pons_model_calls_total", kCounter,
               "Calls to providers that ended, tries that failed included.");
    for (std::size_t i = 0; i < calls.by_outcome.size(); ++i)
      if (calls.by_outcome[i].value() > 0)
        page.add({provider, model, {"outcome", name_of(static_cast<budget::Outcome>(i))}},
                 calls.by_outcome[i].value());
    page.begin("pons_model_tokens_total", kCounter,
               "Tokens that were charged; reasoning is a part of output.");
    page.add({provider, model, {"kind", "input"}}, calls.input.value());
    page.add({provider, model, {"kind", "cache_read"}}, calls.cache_read.value());
    page.add({provider, model, {"kind", "cache_write"}}, calls.cache_write.value());
    page.add({provider, model, {"kind", "output"}}, calls.output.value());
    page.add({provider, model, {"kind", "reasoning"}}, calls.reasoning.value());
    page.begin("pons_model_cost_dollars_total", kCounter, "What they cost.");
    page.add({provider, model}, static_cast<double>(calls.cost_nano.value()) / kNano);
    page.begin("pons_model_first_byte_seconds", kHistogram,
               "From the request until the first event of a stream.");
    page.add({provider, model}, calls.first_byte);
  }
  page.begin("pons_model_refusals_total", kCounter, "Calls for which nobody was asked.");
  for (const auto& [reason, count] : refusals_.all())
    page.add({{"reason", reason.front()}}, count.value());
  page.begin("pons_model_retries_total", kCounter, "Tries of the same deployment after a failure.");
  page.add({}, retries.value());
  page.begin("pons_model_fallbacks_total", kCounter, "Tries of another deployment instead.");
  page.add({}, fallbacks.value());
  page.begin("pons_model_budget_warnings_total", kCounter,
             "Limits that came to be nearly used up, each once in its window.");
  page.add({}, warnings.value());
}

void write_health(telemetry::Page& page, const Routing& routing, TimePoint now) {
  using enum telemetry::Page::Type;
  // A route may name the same deployment twice.
  struct Now {
    bool may_try = false;
    std::size_t active = 0;
  };
  telemetry::Series<Now> all(500);
  routing.for_each([&](const std::string& route, const Candidate& candidate) {
    Now& here = all.at({route, candidate.deployment.provider, candidate.deployment.model});
    here.may_try |= candidate.health.may_try(now);
    here.active += candidate.active;
  });
  for (const auto& [names, here] : all.all()) {
    const telemetry::Page::Label route{"route", names[0]};
    const telemetry::Page::Label provider{"provider", names[1]};
    const telemetry::Page::Label model{"model", names[2]};
    page.begin("pons_model_available", kGauge, "0 while a deployment is left alone for failing.");
    page.add({route, provider, model}, here.may_try ? 1 : 0);
    page.begin("pons_model_calls_active", kGauge, "Calls under way.");
    page.add({route, provider, model}, here.active);
  }
}

}  // namespace pons::gateway
