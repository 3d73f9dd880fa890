#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>

#include "pons/base/result.h"

struct hs_database;

namespace pons::scan {

// Vectorscan searching for short strings: which of them occur, and where. The memory it keeps is
// wiped when freed and, where it is large, left out of core dumps.
class Database {
 public:
  struct Anchor {
    // Up to 8 bytes, as longer ones cost far more memory and time to compile. The first is not
    // zero: Vectorscan takes that for an empty text.
    std::string_view text;
    bool caseless = false;
  };

  static Result<Database> compile(std::span<const Anchor> anchors);
  Database(Database&& other) noexcept;
  Database& operator=(Database&& other) noexcept;
  ~Database();

  // Calls on_match(anchor index, offset after the anchor) for every occurrence.
  template <class OnMatch>
  void search(std::string_view text, OnMatch&& on_match) const {
    search(text, &call<std::remove_reference_t<OnMatch>>, &on_match);
  }
  std::size_t memory_bytes() const;

 private:
  using Callback = int (*)(unsigned anchor, unsigned long long from, unsigned long long end,
                           unsigned flags, void* context);

  explicit Database(hs_database* compiled) : compiled_(compiled) {}
  void search(std::string_view text, Callback callback, void* context) const;
  template <class OnMatch>
  static int call(unsigned anchor, unsigned long long /*from*/, unsigned long long end,
                  unsigned /*flags*/, void* context) {
    (*static_cast<OnMatch*>(context))(anchor, static_cast<std::size_t>(end));
    return 0;
  }

  hs_database* compiled_ = nullptr;
};

}  // namespace pons::scan
