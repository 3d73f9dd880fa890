#include "entry.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

namespace pons::e2b {

namespace {

using sandbox::FileInfo;
using sandbox::FileKind;

constexpr std::int64_t kNanoseconds = 1'000'000'000;

const char* type_name(FileKind kind) {
  switch (kind) {
    case FileKind::kFile:
      return "FILE_TYPE_FILE";
    case FileKind::kDirectory:
      return "FILE_TYPE_DIRECTORY";
    case FileKind::kLink:
      return "FILE_TYPE_SYMLINK";
    case FileKind::kOther:
      break;
  }
  return "FILE_TYPE_UNSPECIFIED";
}

char kind_letter(FileKind kind) {
  switch (kind) {
    case FileKind::kFile:
      return '-';
    case FileKind::kDirectory:
      return 'd';
    case FileKind::kLink:
      return 'L';
    case FileKind::kOther:
      break;
  }
  return '?';
}

// A link that leads nowhere has no end, but says where that should be.
std::string target_of(const FileInfo& link) {
  if (link.link_end && !link.link_end->path.empty()) return link.link_end->path;
  // A name that begins with '~' is an ordinary one to the kernel.
  const std::string dots = link.link_target.starts_with('~') ? "./" : "";
  return resolve_below(dots + link.link_target, parent_of(link.path)).value_or(link.link_target);
}

}  // namespace

std::string_view last_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos || path.size() == 1 ? path : path.substr(slash + 1);
}

std::string parent_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string_view::npos ? "/" : std::string(path.substr(0, slash));
}

std::string permissions_text(const FileInfo& info) {
  constexpr std::string_view kBits = "rwxrwxrwx";
  // Those of Go, in which the original is written: what is special stands before, and no 'x' hides
  // it.
  std::string text;
  if (info.kind != FileKind::kFile) text += kind_letter(info.kind);
  if ((info.mode & S_ISUID) != 0) text += 'u';
  if ((info.mode & S_ISGID) != 0) text += 'g';
  if ((info.mode & S_ISVTX) != 0) text += 't';
  if (text.empty()) text += '-';
  for (std::size_t i = 0; i < kBits.size(); ++i)
    text += (info.mode >> (kBits.size() - 1 - i) & 1) != 0 ? kBits[i] : '-';
  return text;
}

std::string time_text(std::int64_t unix_ns) {
  std::int64_t seconds = unix_ns / kNanoseconds;
  std::int64_t rest = unix_ns % kNanoseconds;
  if (rest < 0) {
    rest += kNanoseconds;
    --seconds;
  }
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}Z", fmt::gmtime(static_cast<std::time_t>(seconds)),
                     rest);
}

// By its number: the name of the default user is known to the sandbox only.
Task<Result<std::string>> owner_for(Call& call) {
  if (!call.user.empty()) co_return call.user;
  CO_TRY(const auto home,
         co_await call.awake([&call] { return call.provider.stat_file(call.id(), ".", ""); }));
  co_return fmt::format("{}", home.uid);
}

Json metadata_of(const std::map<std::string, std::string>& attributes) {
  Json metadata = Json::object();
  for (const auto& [name, value] : attributes)
    if (name.starts_with(kMetadataPrefix)) metadata[name.substr(kMetadataPrefix.size())] = value;
  return metadata;
}

Task<Result<void>> Describer::ensure_accounts() {
  if (accounts_) co_return {};
  CO_TRY(accounts_, co_await load_accounts(call_));
  co_return {};
}

std::optional<sandbox::LinkEnd> opened(const FileInfo& info) {
  if (info.kind == FileKind::kLink) return info.link_end;
  return sandbox::LinkEnd{
      .path = info.path, .kind = info.kind, .mode = info.mode, .size = info.size};
}

Task<Result<Json>> Describer::describe(FileInfo info) {
  CO_TRY_VOID(co_await ensure_accounts());
  Json entry = {{"name", last_name(info.path)},
                {"type", type_name(info.kind)},
                {"path", info.path},
                {"size", fmt::format("{}", info.size)},
                {"mode", info.mode & 0777},
                {"permissions", permissions_text(info)},
                {"owner", accounts_->owner_name(info.uid)},
                {"group", accounts_->group_name(info.gid)},
                {"modifiedTime", time_text(info.modified_ns)}};
  if (Json metadata = metadata_of(info.attributes); !metadata.empty())
    entry["metadata"] = std::move(metadata);
  if (info.kind == FileKind::kLink) {
    entry["symlinkTarget"] = target_of(info);
    entry["type"] = type_name(info.link_end ? info.link_end->kind : FileKind::kOther);
    entry["mode"] = info.link_end ? info.link_end->mode & 0777 : 0;
  }
  co_return entry;
}

Task<Result<Json>> Describer::describe(std::string path) {
  CO_TRY(auto info, co_await call_.awake(
                        [&] { return call_.provider.stat_file(call_.id(), path, kFileUser); }));
  co_return co_await describe(std::move(info));
}

}  // namespace pons::e2b
