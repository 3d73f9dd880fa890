#include "notes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/base/text.h"

namespace pons::sandbox {

namespace {

constexpr std::size_t kPlaceBytes = 1 << 20;
constexpr std::size_t kFreeMax = 64;

struct PlaceHeader {
  std::uint64_t number;  // the higher one is newer
  std::uint64_t size;
  std::uint64_t sum;
};

// Tells a piece that was cut off from a whole one; nobody forges files of the warden.
std::uint64_t sum_of(std::string_view text) {
  std::uint64_t sum = 0xcbf2'9ce4'8422'2325;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 0x0000'0100'0000'01b3;
  return sum;
}

struct Place {
  std::uint64_t number = 0;
  std::string text;
};

constexpr off_t offset_of(std::uint64_t place) {
  return static_cast<off_t>(place) * static_cast<off_t>(kPlaceBytes);
}

Place read_place(int file, std::uint64_t index) {
  const off_t at = offset_of(index);
  PlaceHeader header{};
  if (pread(file, &header, sizeof header, at) != sizeof header ||
      header.size > kPlaceBytes - sizeof header)
    return {};
  Place place{.number = header.number, .text = std::string(header.size, '\0')};
  const ssize_t got = pread(file, place.text.data(), place.text.size(), at + sizeof header);
  if (got != static_cast<ssize_t>(place.text.size()) || sum_of(place.text) != header.sum) return {};
  return place;
}

}  // namespace

Result<void> Note::write(const SandboxRecord& record) {
  const std::string text = dump_json(to_json(record));
  if (text.size() > kPlaceBytes - sizeof(PlaceHeader))
    return make_error(ErrorCode::kLimit, "write sandbox record", "it is too long");
  const std::uint64_t number = number_ + 1;
  const PlaceHeader header{.number = number, .size = text.size(), .sum = sum_of(text)};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += text;
  blank_ = false;
  if (pwrite(file_.get(), bytes.data(), bytes.size(), offset_of(number % 2)) !=
      static_cast<ssize_t>(bytes.size()))
    return os_error("write sandbox record", name_);
  number_ = number;  // and not before: the other place holds the only good one
  return {};
}

Result<Note> Notes::open(const std::string& name, int more_flags) const {
  auto file = TRY(linux::open_file(fmt::format("{}/{}", directory_, name),
                                   O_RDWR | O_NOFOLLOW | more_flags, 0600));
  return Note(name, std::move(file));
}

std::vector<Noted> Notes::load() {
  std::vector<Noted> all;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    const std::string name = entry.path().filename();
    const auto number = parse_decimal(name);
    auto note = number ? open(name, 0) : Result<Note>(os_error("open note", name, EINVAL));
    if (!note) {
      LOG_WARN("a file of record makes no sense", {"file", name});
      unlink(entry.path().c_str());
      continue;
    }
    next_name_ = std::max(next_name_, *number + 1);
    Place newest = read_place(note->file_.get(), 0);
    if (Place other = read_place(note->file_.get(), 1); other.number > newest.number)
      newest = std::move(other);
    note->number_ = newest.number;
    note->blank_ = false;
    const auto json = parse_json(newest.text, {.bytes = kPlaceBytes});
    auto record = json ? parse_record(*json) : Result<SandboxRecord>(json.error());
    if (record) {
      all.push_back({.record = std::move(*record), .note = std::move(*note)});
      continue;
    }
    if (newest.number != 0) LOG_WARN("a file of record makes no sense", {"file", name});
    give_back(std::move(*note));
  }
  return all;
}

Result<Note> Notes::take() {
  if (free_.empty()) return open(std::to_string(next_name_++), O_CREAT | O_EXCL);
  Note note = std::move(free_.back());
  free_.pop_back();
  return note;
}

void Notes::give_back(Note note) {
  if (!note) return;
  const PlaceHeader nothing{};
  bool empty = true;
  // The older one first: it must never count again.
  for (const std::uint64_t place : {(note.number_ + 1) % 2, note.number_ % 2}) {
    if (note.blank_) break;
    empty =
        pwrite(note.file_.get(), &nothing, sizeof nothing, offset_of(place)) == sizeof nothing &&
        empty;
  }
  note.number_ = 0;
  note.blank_ = true;
  if (empty && free_.size() < kFreeMax)
    free_.push_back(std::move(note));
  else
    unlink(fmt::format("{}/{}", directory_, note.name_).c_str());
}

}  // namespace pons::sandbox
