#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "pons/http/client.h"
#include "pons/linux/loop.h"
#include "pons/session/sessions.h"
#include "pons/telemetry/page.h"
#include "turn_trace.h"

namespace pons::brain {

// Follows all sessions and hands the trace of each turn that ends to the gateway, which may speak
// to a collector. No session ever waits for it.
class TraceSender {
 public:
  // All must outlive it.
  TraceSender(linux::Loop& loop, session::Sessions& sessions, http::Client& gateway);

  void observe(const std::string& session, const std::vector<session::StoredEvent>& events);
  Task<> run();  // never ends

  void write_metrics(telemetry::Page& page) const;

 private:
  struct Ended {
    std::string session;
    TurnTrace turn;
  };
  Task<> send(Ended ended);
  // Fills in what this process has not seen itself.
  Task<Result<void>> complete(Ended& ended);
  Task<bool> post(const std::string& body);

  linux::Loop& loop_;
  session::Sessions& sessions_;
  http::Client& gateway_;
  std::map<std::string, TurnTrace> turns_;  // that are open
  std::deque<Ended> ended_;
  linux::Event more_;
  telemetry::Counter handed_over_;
  telemetry::Counter dropped_;
};

}  // namespace pons::brain
