// What a guest is found again by: how far it has heard, in a file beside its own notes.

#include <algorithm>

#include <fmt/format.h>

#include "arrival.h"
#include "guest.h"
#include "pons/base/id.h"
#include "pons/base/json_place.h"
#include "pons/base/log.h"
#include "pons/guest/guests.h"

namespace pons::guest {

namespace {

constexpr std::string_view kHeardFile = "/home/user/.pons-heard";
constexpr std::size_t kHeardBytesMax = 4'096;
// In the place of notes, while one with tools of its own is at work.
constexpr const char* kInTurn = "in_turn";

// It goes into arguments and files.
bool is_plain(std::string_view session) {
  return !session.starts_with('-') && std::ranges::all_of(session, [](char c) {
    return is_id_text(std::string_view(&c, 1)) || std::string_view("._:/@+").contains(c);
  });
}

}  // namespace

// As far as it has heard, its own notes of the conversation can be trusted.
Task<> Guests::remember(Guest& guest) {
  if (!guest.process) co_return;
  if (!guest.process->capabilities().resume) {
    guest.has_notes = true;  // that it is at work, the next time
    co_return co_await drop_notes(guest);
  }
  guest.notes = dump_json({{"session", guest.process->session()},
                           {"blocks", guest.heard.blocks},
                           {"digest", guest.heard.digest},
                           {"offer", guest.terms.offer},
                           {"system", guest.terms.system}});
  const auto written = co_await write_notes(guest);
  if (!written)
    LOG_INFO("a harness will begin anew", {"session", guest.session}, {"error", written.error()});
}

Task<Result<void>> Guests::write_notes(Guest& guest) {
  guest.has_notes = true;
  return write_file(guest, std::string(kHeardFile), guest.notes);
}

// From here on they say more than is known to have been heard, until the turn is over. Whoever
// comes after one with tools of its own is to know that it may have begun more than was heard of.
Task<> Guests::note_turn(Guest& guest) {
  if (!std::exchange(guest.has_notes, false)) co_return;
  if (guest.placement == harness::Placement::kSandbox &&
      co_await write_file(guest, std::string(kHeardFile), dump_json({{kInTurn, true}})))
    co_return;
  co_await drop_notes(guest);
}

Task<> Guests::drop_notes(Guest& guest) {
  (void)co_await cells_.remove_file(guest.sandbox, std::string(kHeardFile),
                                    std::string(kGuestUser));
}

// Which of its conversations goes on, and from where. What it says of itself is checked against the
// conversation by who reads it.
Task<std::string> Guests::recall(Guest& guest) {
  auto file = co_await cells_.read_file(guest.sandbox, std::string(kHeardFile),
                                        std::string(kGuestUser), 0, kHeardBytesMax);
  if (!file) co_return "";
  std::string text;
  for (;;) {
    auto piece = co_await (*file)->next();
    if (!piece || text.size() > kHeardBytesMax) co_return "";
    if (piece->empty()) break;
    text += *piece;
  }
  const auto json = parse_json(text);
  if (!json || !json->is_object()) co_return "";
  if (json->contains(kInTurn)) {
    guest.last_time = LastTime::kCutOff;
    co_return "";
  }
  const JsonPlace place{.value = *json, .pointer = {}};
  for (const char* key : {"session", "blocks", "digest", "offer", "system"})
    if (!place.has(key)) co_return "";
  const auto blocks = place.at("blocks").number(1, 1'000'000);
  const auto digest = place.at("digest").text();
  const auto session = place.at("session").text();
  const auto offer = place.at("offer").text();
  const auto system = place.at("system").text();
  if (!blocks || !digest || !session || !offer || !system || !is_plain(*session)) co_return "";
  guest.heard = {.blocks = *blocks, .digest = *digest};
  guest.terms = {.offer = *offer, .system = *system};
  co_return *session;
}

}  // namespace pons::guest
