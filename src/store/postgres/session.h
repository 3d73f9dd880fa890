#pragma once

#include <span>
#include <string_view>

#include "link.h"
#include "migrations.h"
#include "pons/store/limits.h"

namespace pons::store::postgres {

enum class Use : std::uint8_t {
  kWrite,
  kRead,
  kHold,  // says by locks that the database is in use, and by whom; rings and hears the bell
};

// On which processes that share a database tell each other of news.
inline constexpr std::string_view kChannel = "pons";

// Asks a connection that somebody runs, and waits for the answer.
Task<Result<std::vector<Outcome>>> ask(linux::Loop& loop, Link& link, Transaction statements,
                                       TimePoint deadline);

// Makes a connection ready for its use. An error when the server does not keep what it
// acknowledges, only reads, or is too old.
Task<Result<void>> set_up(linux::Loop& loop, Link& link, Use use, const StoreLimits& limits,
                          TimePoint deadline);

// Keeps everybody else out who comes with the same name, until the connection ends, and listens.
// kConflict: somebody has it.
Task<Result<void>> hold(linux::Loop& loop, Link& link, std::string_view name, TimePoint deadline);
// Keeps everybody else out, whatever their name. kConflict: somebody is there.
Task<Result<void>> hold_alone(linux::Loop& loop, Link& link, TimePoint deadline);

// Brings the tables up to date. Of several connections that do so at once, one does it and the
// others wait. `shown` is the database's name in messages.
Task<Result<void>> migrate(linux::Loop& loop, Link& link, std::span<const Migration> known,
                           std::string_view shown, TimePoint deadline);

}  // namespace pons::store::postgres
