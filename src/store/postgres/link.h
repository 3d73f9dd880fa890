#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "asked.h"
#include "pons/http/transport.h"
#include "pons/linux/loop.h"

namespace pons::store::postgres {

struct LinkLimits {
  AnswerLimits answer;
  Duration silence_max;  // without a word of the server while something is under way
};

// Whom a connection tells.
class LinkOwner {
 public:
  virtual ~LinkOwner() = default;
  // It has its answer.
  virtual void on_answered(const Request& request) = 0;
  // Nothing of it was done: it can be asked elsewhere.
  virtual void on_returned(std::shared_ptr<Request> request) = 0;
  virtual void on_notification(Notification notification) = 0;
};

// One connection to the server. Whatever is given to it is said at once, behind what was said
// before, and the answers come in the same order.
class Link {
 public:
  // `owner` must outlive it.
  Link(linux::Loop& loop, std::unique_ptr<http::Transport> transport, LinkLimits limits,
       LinkOwner& owner);
  // What is under way and was to change something is answered with kTimeout.
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void send(std::shared_ptr<Request> request);
  std::size_t under_way() const { return asked_.size(); }
  bool is_open() const { return !ended_; }
  // Ends the connection, soon.
  void hang_up(Error why);

  // Talks until the connection has ended, and tells why.
  Task<Error> run();

 private:
  struct UnderWay {
    Asked asked;
    std::uint64_t end;  // of its words in all that is said on this connection
  };
  Task<> say();
  Task<> watch();
  Task<Error> hear();
  Result<void> handle(const BackendMessage& message);
  Result<void> finish_first();
  void end(const Error& why);

  linux::Loop& loop_;
  std::unique_ptr<http::Transport> transport_;
  const LinkLimits limits_;
  LinkOwner& owner_;
  BackendReader reader_;
  PreparedStatements prepared_;
  std::deque<UnderWay> asked_;
  std::string unsaid_;
  std::uint64_t said_ = 0;    // bytes that the kernel has taken
  std::uint64_t queued_ = 0;  // and all that were to be said
  TimePoint heard_{};
  std::optional<Error> why_;  // once it was hung up
  bool ended_ = false;
  linux::Event has_words_;
  linux::Event is_busy_;
};

}  // namespace pons::store::postgres
