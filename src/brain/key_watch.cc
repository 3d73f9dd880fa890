#include "key_watch.h"

#include "pons/base/log.h"

namespace pons::brain {

namespace {

// So long a key that was revoked elsewhere may still be good when a word of others is lost, and
// when none is heard.
constexpr Duration kBetweenLooks = std::chrono::seconds(5);
constexpr Duration kBetweenManyLooks = std::chrono::milliseconds(500);

}  // namespace

Task<> KeyWatch::keep_looking() {
  for (;;) {
    co_await woken_.wait(loop_.now() + (bell_.is_open() ? kBetweenLooks : kBetweenManyLooks));
    woken_.reset();
    if (const auto looked = co_await look_once(); !looked)
      LOG_WARN("cannot look for keys that others have made or revoked", {"error", looked.error()});
  }
}

Task<Result<void>> KeyWatch::look_once() {
  const std::string before = feed_.generation();
  CO_TRY(const auto active, co_await keys_.active());
  CO_TRY(const auto projects, co_await projects_.list());
  // Something was changed here meanwhile: what was read may be older than that.
  if (feed_.generation() != before) {
    woken_.set();
    co_return {};
  }
  feed_.replace(active);
  for (const Project& project : projects)
    feed_.limit(project.id, project.limits.requests_per_second);
  co_return co_await look_at_workers_();
}

}  // namespace pons::brain
