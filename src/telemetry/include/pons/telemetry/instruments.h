#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/clock.h"

// What a process counts. Whoever counts and whoever reads stand on the same loop, so these are
// plain numbers: no lock, no atomic, and no memory taken when one goes up.

namespace pons::telemetry {

class Counter {
 public:
  void add(std::uint64_t more = 1) { value_ += more; }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

// How long something took, in a fixed number of buckets.
class Histogram {
 public:
  static constexpr std::size_t kBoundsMax = 16;
  // The bounds rise, are at most kBoundsMax, and outlive it.
  explicit Histogram(std::span<const Duration> bounds);

  void observe(Duration took);

  std::span<const Duration> bounds() const { return bounds_; }
  // How many there were up to that bound and past the one before it; the last place is past all.
  std::uint64_t in_bucket(std::size_t place) const { return counts_[place]; }
  std::uint64_t count() const;
  Duration sum() const { return sum_; }

 private:
  std::span<const Duration> bounds_;
  std::array<std::uint64_t, kBoundsMax + 1> counts_{};
  Duration sum_{};
};

// From 0.1 ms to 10 s: what this host does by itself.
std::span<const Duration> short_bounds();
// From 10 ms to 10 min: what a model does.
std::span<const Duration> long_bounds();

// Things of one kind, one for each combination of values of some labels. Of combinations there are
// at most `series_max`: all that come later share one in which every value is "other".
template <class Thing>
class Series {
 public:
  explicit Series(std::size_t series_max = 200) : series_max_(series_max) {}

  // Takes memory for a combination that is new. What it returns stays where it is.
  template <class... Arguments>
  Thing& at(std::initializer_list<std::string_view> values, const Arguments&... arguments) {
    const std::span<const std::string_view> asked(values.begin(), values.size());
    if (const auto found = all_.find(asked); found != all_.end()) return found->second;
    std::vector<std::string> owned(values.begin(), values.end());
    if (all_.size() >= series_max_) owned.assign(values.size(), "other");
    return all_.try_emplace(std::move(owned), arguments...).first->second;
  }

  const auto& all() const { return all_; }  // by values, in their order

 private:
  struct Less {
    using is_transparent = void;
    bool operator()(const auto& a, const auto& b) const {
      return std::lexicographical_compare(
          a.begin(), a.end(), b.begin(), b.end(),
          [](std::string_view x, std::string_view y) { return x < y; });
    }
  };
  std::size_t series_max_;
  std::map<std::vector<std::string>, Thing, Less> all_;
};

}  // namespace pons::telemetry
