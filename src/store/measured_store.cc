#include "pons/store/measured_store.h"

namespace pons::store {

Task<Result<std::vector<Outcome>>> MeasuredStore::write(Transaction transaction) {
  const TimePoint begun = clock_.now();
  auto outcomes = co_await store_.write(std::move(transaction));
  if (outcomes)
    writes_.observe(clock_.now() - begun);
  else
    failures_.add();
  co_return outcomes;
}

void MeasuredStore::write_metrics(telemetry::Page& page) const {
  using enum telemetry::Page::Type;
  page.begin("pons_store_write_seconds", kHistogram,
             "From a transaction until it lies on the disk.");
  page.add({}, writes_);
  page.begin("pons_store_write_failures_total", kCounter, "Transactions that were not stored.");
  page.add({}, failures_.value());
}

}  // namespace pons::store
