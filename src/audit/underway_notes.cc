#include "underway_notes.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

namespace pons::audit {

namespace {

constexpr char kErased = '\0';
constexpr char kEnd = '\n';

constexpr std::uint32_t kPlacesAtOnce = 64;

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
  allocated_ = 0;
  if (ftruncate(file_.get(), 0) != 0) return os_error("clear notes");
  return {};
}

Result<void> UnderwayNotes::grow() {
  if (!mapping_) {
    void* const memory =
        mmap(nullptr, kPlaceBytes * kPlacesMax, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    if (memory == MAP_FAILED) return os_error("map notes");
    mapping_ = UniqueHandle<MappingTraits>(static_cast<char*>(memory));
  }
  constexpr off_t kBytes = static_cast<off_t>(kPlacesAtOnce) * static_cast<off_t>(kPlaceBytes);
  const off_t end = static_cast<off_t>(allocated_) * static_cast<off_t>(kPlaceBytes);
  if (const int error = posix_fallocate(file_.get(), end, kBytes); error != 0) {
    errno = error;
    return os_error("make room for notes");
  }
  allocated_ += kPlacesAtOnce;
  return {};
}

std::span<char> UnderwayNotes::bytes_of(std::uint32_t place) const {
  return {mapping_.get() + place * kPlaceBytes, kPlaceBytes};
}

Result<std::uint32_t> UnderwayNotes::write(std::string_view text) {
  if (text.empty() || text.size() >= kPlaceBytes)
    return make_error(ErrorCode::kLimit, "write note", "too long");
  if (free_.empty() && used_ == kPlacesMax)
    return make_error(ErrorCode::kLimit, "write note", "no place is free");
  if (free_.empty() && used_ == allocated_) TRY_VOID(grow());
  if (free_.empty()) free_.push_back(used_++);
  const std::uint32_t place = free_.back();
  free_.pop_back();
  const std::span<char> bytes = bytes_of(place);
  std::ranges::copy(text.substr(1), bytes.subspan(1).begin());
  bytes[text.size()] = kEnd;
  // Last, so that a note is there as a whole or not at all, whenever the process is killed.
  std::atomic_ref(bytes[0]).store(text.front(), std::memory_order_release);
  return place;
}

void UnderwayNotes::erase(std::uint32_t place) {
  std::atomic_ref(bytes_of(place)[0]).store(kErased, std::memory_order_release);
  free_.push_back(place);
}

}  // namespace pons::audit
