#pragma once

#include "pons/managed/caller.h"
#include "pons/session/sessions.h"
#include "translator.h"

namespace pons::managed {

// A log, and how it is shown: as a session's, or as a thread's of one.
struct EventView {
  std::string session;  // whose log it is
  std::optional<Translator::Thread> thread = std::nullopt;

  Translator translator() const {
    return thread ? Translator(session, *thread) : Translator(session);
  }
};

// A page of the events. The caller may see them: whoever calls these has looked.
Task<Reply<Json>> list_events(session::Sessions& sessions, Call& call, EventView view);

// Server-sent events, until the client leaves or the session ends: those behind Last-Event-ID, or
// what is new.
Task<> stream_events(session::Sessions& sessions, Call& call, EventView view);

}  // namespace pons::managed
