#include "pons/roles/start.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include "pons/base/check.h"
#include "pons/base/text.h"

namespace pons::roles {

namespace {

constexpr std::size_t kStartBytesMax = std::size_t{4} << 20;

// "key=value" lines. A line feed in a value would forge a line; nothing the supervisor passes may
// hold one.
void append_line(std::string& text, std::string_view key, std::string_view value) {
  CHECK(value.find('\n') == std::string_view::npos &&
        key.find_first_of("=\n") == std::string_view::npos);
  text += fmt::format("{}={}\n", key, value);
}

constexpr std::string_view kValuePrefix = "value.";

}  // namespace

linux::UniqueFd RoleStart::take(std::string_view name) {
  const auto place = descriptors.find(name);
  CHECK(place != descriptors.end());
  linux::UniqueFd descriptor = std::move(place->second);
  descriptors.erase(place);
  return descriptor;
}

std::map<std::string, linux::UniqueFd, std::less<>> RoleStart::take_all(std::string_view prefix) {
  std::map<std::string, linux::UniqueFd, std::less<>> taken;
  for (auto place = descriptors.begin(); place != descriptors.end();) {
    if (place->first.starts_with(prefix)) {
      taken.emplace(place->first.substr(prefix.size()), std::move(place->second));
      place = descriptors.erase(place);
    } else {
      ++place;
    }
  }
  return taken;
}

Result<linux::UniqueFd> write_role_start(const RoleStart& start) {
  std::string text;
  append_line(text, "role", name_of(start.role));
  append_line(text, "state_dir", start.confinement.state_dir);
  append_line(text, "supervisor", fmt::format("{}", start.confinement.supervisor));
  append_line(text, "landlock",
              start.confinement.landlock == LandlockNeed::kRequired ? "required" : "best_effort");
  append_line(text, "log_level", fmt::format("{}", static_cast<int>(start.log_level)));
  append_line(text, "log_format", start.log_format == LogFormat::kHuman ? "human" : "json");
  append_line(text, "log_color", start.log_color ? "yes" : "no");
  append_line(text, "drain_seconds", fmt::format("{}", start.drain_seconds));
  for (const auto& [key, value] : start.values)
    append_line(text, std::string(kValuePrefix) + key, value);
  for (const auto& [name, descriptor] : start.descriptors) append_line(text, "descriptor", name);

  linux::UniqueFd file(memfd_create("pons-role-start", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return os_error("create role settings");
  TRY_VOID(linux::write_all(file.get(), text));
  if (lseek(file.get(), 0, SEEK_SET) != 0) return os_error("rewind role settings");
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
  if (fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) return os_error("seal role settings");
  return file;
}

Result<RoleStart> read_role_start() {
  const linux::UniqueFd file(kStartDescriptor);
  const std::string text = TRY(linux::read_all(file.get(), kStartBytesMax));
  RoleStart start;
  bool role_named = false;
  int next_descriptor = kFirstNamedDescriptor;
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty()) continue;
    const std::string_view key = line.substr(0, line.find('='));
    if (key.size() == line.size())
      return make_error(ErrorCode::kInvalid, "read role settings", "a line without a value");
    const std::string value(line.substr(key.size() + 1));
    if (key == "role") {
      const auto role = find_role(value);
      if (!role)
        return make_error(ErrorCode::kInvalid, "read role settings", "unknown role " + value);
      start.role = *role;
      role_named = true;
    } else if (key == "state_dir") {
      start.confinement.state_dir = value;
    } else if (key == "supervisor") {
      start.confinement.supervisor = static_cast<pid_t>(parse_decimal(value).value_or(0));
    } else if (key == "landlock") {
      start.confinement.landlock =
          value == "best_effort" ? LandlockNeed::kBestEffort : LandlockNeed::kRequired;
    } else if (key == "log_level") {
      start.log_level = static_cast<LogLevel>(parse_decimal(value).value_or(1));
    } else if (key == "log_format") {
      start.log_format = value == "human" ? LogFormat::kHuman : LogFormat::kJson;
    } else if (key == "log_color") {
      start.log_color = value == "yes";
    } else if (key == "drain_seconds") {
      start.drain_seconds = static_cast<int>(parse_decimal(value).value_or(10));
    } else if (key == "descriptor") {
      start.descriptors.emplace(value, linux::UniqueFd(next_descriptor++));
    } else if (key.starts_with(kValuePrefix)) {
      start.values.emplace(key.substr(kValuePrefix.size()), value);
    }
  }
  if (!role_named) return make_error(ErrorCode::kInvalid, "read role settings", "no role is named");
  return start;
}

}  // namespace pons::roles
