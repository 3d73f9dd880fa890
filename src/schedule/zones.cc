#include "pons/schedule/zones.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/linux/fd.h"

namespace pons::schedule {

namespace {

constexpr std::size_t kNameBytesMax = 64;
constexpr std::size_t kPartsMax = 3;  // America/Argentina/Ushuaia
constexpr std::size_t kFileBytesMax = 64 << 10;
constexpr Duration kGoodFor = std::chrono::hours(1);
constexpr std::size_t kKeptMax = 1'000;

bool is_name_part(std::string_view part) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !part.empty() && is_letter(part.front()) && std::ranges::all_of(part, [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '+';
  });
}

// They stand beside the zones and are none: whole copies, and what means something else on each
// host.
bool is_something_else(std::string_view name) {
  return name.starts_with("posix/") || name.starts_with("right/") || name == "localtime" ||
         name == "posixrules" || name == "Factory";
}

Error no_such_zone(std::string_view name) {
  return make_error(ErrorCode::kInvalid, "find time zone",
                    fmt::format("there is no time zone \"{}\"; zones are named as in the IANA "
                                "database: \"Europe/Berlin\", \"UTC\"",
                                name));
}

}  // namespace

bool is_zone_name(std::string_view name) {
  if (name.empty() || name.size() > kNameBytesMax || is_something_else(name)) return false;
  const auto parts = split(name, '/');
  return parts.size() <= kPartsMax && std::ranges::all_of(parts, is_name_part);
}

Result<std::shared_ptr<const Zone>> Zones::load(std::string_view name) {
  // Nothing that was not looked at stands in a message.
  if (!is_zone_name(name))
    return make_error(ErrorCode::kInvalid, "find time zone",
                      "this is no name of a time zone; they look like \"Europe/Berlin\" or "
                      "\"UTC\"");
  const auto known = kept_.find(name);
  if (known != kept_.end() && clock_.now() < known->second.until) return known->second.zone;
  auto zone = read(std::string(name));
  if (!zone && known != kept_.end()) {
    // A package that is being updated. What was true an hour ago is better than nothing.
    LOG_WARN("a time zone cannot be read again", {"zone", name}, {"error", zone.error()});
    known->second.until = clock_.now() + kGoodFor;
    return known->second.zone;
  }
  if (!zone) return zone;
  if (kept_.size() >= kKeptMax) kept_.clear();
  kept_.insert_or_assign(std::string(name), Kept{.zone = *zone, .until = clock_.now() + kGoodFor});
  return zone;
}

Result<std::shared_ptr<const Zone>> Zones::read(const std::string& name) const {
  const std::string path = fmt::format("{}/{}", folder_, name);
  const auto file = linux::open_file(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  struct stat info{};
  if (!file && (file.error().code == ErrorCode::kNotFound || file.error().os_error == ENOTDIR)) {
    if (stat(folder_.c_str(), &info) != 0)
      return make_error(ErrorCode::kUnavailable, "find time zone",
                        fmt::format("this host has no {}: install the package tzdata", folder_));
    return no_such_zone(name);
  }
  if (!file) return file.error();
  if (fstat(file->get(), &info) != 0) return os_error("find time zone", path);
  if (!S_ISREG(info.st_mode)) return no_such_zone(name);  // "America"
  const std::string bytes = TRY(linux::read_all(file->get(), kFileBytesMax));
  auto zone = Zone::parse(bytes);
  if (!zone) return no_such_zone(name);  // "tzdata.zi", "zone.tab"
  return std::make_shared<const Zone>(std::move(*zone));
}

}  // namespace pons::schedule
