#include "underway_notes.h"

#include <fcntl.h>
#include <unistd.h>

namespace pons::audit {

namespace {

constexpr char kErased = '\0';
constexpr char kEnd = '\n';

off_t offset_of(std::uint32_t place) {
  return static_cast<off_t>(place) * static_cast<off_t>(UnderwayNotes::kPlaceBytes);
}

}  // namespace

Result<UnderwayNotes> UnderwayNotes::open(const std::string& directory) {
  UnderwayNotes notes;
  notes.file_ = TRY(linux::open_file(directory + "/underway", O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  const std::string all = TRY(linux::read_all(notes.file_.get(), kPlaceBytes * kPlacesMax));
  for (std::size_t at = 0; at < all.size(); at += kPlaceBytes) {
    const std::string_view place = std::string_view(all).substr(at, kPlaceBytes);
    const std::size_t end = place.find(kEnd);
    if (place.front() != kErased && end != std::string_view::npos)
      notes.left_.emplace_back(place.substr(0, end));
  }
  return notes;
}

Result<void> UnderwayNotes::clear() {
  left_.clear();
  free_.clear();
  used_ = 0;
  if (ftruncate(file_.get(), 0) != 0) return os_error("clear notes");
  return {};
}

Result<std::uint32_t> UnderwayNotes::write(std::string_view text) {
  if (text.empty() || text.size() >= kPlaceBytes)
    return make_error(ErrorCode::kLimit, "write note", "too long");
  if (free_.empty() && used_ == kPlacesMax)
    return make_error(ErrorCode::kLimit, "write note", "no place is free");
  if (free_.empty()) free_.push_back(used_++);
  const std::uint32_t place = free_.back();
  std::string line(text);
  line += kEnd;
  // In one call, so that a note is there as a whole or not at all.
  const ssize_t written = pwrite(file_.get(), line.data(), line.size(), offset_of(place));
  if (written != static_cast<ssize_t>(line.size())) {
    const Error failed = os_error("write note");
    (void)pwrite(file_.get(), &kErased, 1, offset_of(place));
    return failed;
  }
  free_.pop_back();
  return place;
}

void UnderwayNotes::erase(std::uint32_t place) {
  (void)pwrite(file_.get(), &kErased, 1, offset_of(place));
  free_.push_back(place);
}

}  // namespace pons::audit
