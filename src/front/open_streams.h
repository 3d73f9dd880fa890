#pragma once

#include <map>
#include <string>
#include <utility>

#include "pons/base/result.h"

namespace pons::front {

// How many streams of events each key has open: one that forgets to close them must not take all
// places.
class OpenStreams {
 public:
  explicit OpenStreams(std::size_t of_key_max) : of_key_max_(of_key_max) {}

  // Given back when it is gone. Must be gone before the streams are.
  class Place {
   public:
    Place(OpenStreams& all, std::string key) : all_(&all), key_(std::move(key)) {}
    Place(Place&& other) noexcept
        : all_(std::exchange(other.all_, nullptr)), key_(std::move(other.key_)) {}
    Place& operator=(Place&&) = delete;
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() {
      if (all_ != nullptr && --all_->open_[key_] == 0) all_->open_.erase(key_);
    }

   private:
    OpenStreams* all_;
    std::string key_;
  };

  // kLimit when the key has too many.
  Result<Place> enter(const std::string& key) {
    std::size_t& open = open_[key];
    if (open >= of_key_max_)
      return make_error(ErrorCode::kLimit, "open stream",
                        "this API key has too many streams open; close some");
    ++open;
    return Place(*this, key);
  }

 private:
  std::size_t of_key_max_;
  std::map<std::string, std::size_t> open_;
};

}  // namespace pons::front
