#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace pons::store {

// The word from one process to all others that share a store: there is something new about this.
// What it is stands in the store. Words may be lost: whoever waits for one also looks now and then,
// and often while is_open() says that nobody hears anything.
class Bell {
 public:
  virtual ~Bell() = default;

  // Rung after the commit, and never in it: several at the same time become one.
  virtual void ring(std::string topic) = 0;

  // Topics of others, not of this process. kAnything: there may be news about each.
  static constexpr std::string_view kAnything = "*";
  using Listener = std::function<void(std::string_view topic)>;
  virtual void listen(Listener listener) = 0;

  virtual bool is_open() const = 0;
};

}  // namespace pons::store
