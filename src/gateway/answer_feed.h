#pragma once

#include <memory>
#include <optional>
#include <string>

#include "pons/base/result.h"
#include "pons/http/upstream.h"
#include "pons/linux/loop.h"
#include "provider.h"

namespace pons::gateway {

// A provider's answer as it arrives, read by a task of its own so that who relays it can also watch
// the clock and the client. Dropping it gives the call up: the provider's connection or stream
// ends.
class AnswerFeed {
 public:
  // `news` is set at every change. All must outlive the feed.
  AnswerFeed(linux::Loop& loop, Provider& provider, http::ClientRequest request,
             linux::Event& news);

  const http::ResponseHead* head() const { return sent_ ? &sent_->answer->head() : nullptr; }
  std::optional<std::string_view> find(std::string_view field) const;
  // What has arrived since the last call.
  std::string take();
  bool is_over() const { return over_; }  // all has arrived, or an error stands for the rest
  const std::optional<Error>& error() const { return error_; }

 private:
  Task<> read(http::ClientRequest request);

  // Read ahead of who takes it; a slow client holds the provider back.
  static constexpr std::size_t kAheadMax = 256 * 1024;

  Provider& provider_;
  linux::Event& news_;
  linux::Event taken_;
  std::optional<Provider::Sent> sent_;
  std::string bytes_;
  std::optional<Error> error_;
  bool over_ = false;
  linux::TaskGroup reader_;  // last: its task uses all of the above
};

}  // namespace pons::gateway
