#pragma once

#include "pons/base/clock.h"
#include "pons/store/store.h"
#include "pons/telemetry/page.h"

namespace pons::store {

// Another store, and how long it takes until what is written lies on the disk.
class MeasuredStore final : public Store {
 public:
  // Both must outlive it.
  MeasuredStore(Store& store, const Clock& clock) : store_(store), clock_(clock) {}

  Dialect dialect() const override { return store_.dialect(); }
  Task<Result<std::vector<Outcome>>> write(Transaction transaction) override;
  Task<Result<std::vector<Row>>> read(Statement statement) override {
    return store_.read(std::move(statement));
  }

  void write_metrics(telemetry::Page& page) const;

 private:
  Store& store_;
  const Clock& clock_;
  telemetry::Histogram writes_{telemetry::short_bounds()};
  telemetry::Counter failures_;
};

}  // namespace pons::store
