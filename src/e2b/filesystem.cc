#include "filesystem.h"

#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "accounts.h"
#include "entry.h"
#include "message.h"

namespace pons::e2b {

namespace {

using sandbox::FileInfo;
using sandbox::FileKind;

constexpr std::uint64_t kDepthMax = 64;  // as deep as the sandbox itself looks

Task<Result<std::string>> path_field(Call& call, const Json& request, const char* name) {
  CO_TRY(auto path, text_field(request, name));
  co_return co_await resolve_path(call, std::move(path));
}

Task<Result<Json>> entry_answer(Call& call, std::string path) {
  Describer describer(call);
  CO_TRY(auto entry, co_await describer.describe(std::move(path)));
  co_return Json{{"entry", std::move(entry)}};
}

// Every directory right before what is in it.
bool comes_before(const FileInfo& a, const FileInfo& b) {
  return std::ranges::lexicographical_compare(
      a.path, b.path, [](char x, char y) { return (x == '/' ? '\0' : x) < (y == '/' ? '\0' : y); });
}

Task<Result<FileInfo>> find_file(Call& call, std::string path) {
  co_return co_await call.awake(
      [&] { return call.provider.stat_file(call.id(), path, kFileUser); });
}

}  // namespace

Task<Result<Json>> stat_entry(Call& call, const Json& request) {
  CO_TRY(auto path, co_await path_field(call, request, "path"));
  co_return co_await entry_answer(call, std::move(path));
}

Task<Result<Json>> list_entries(Call& call, const Json& request) {
  CO_TRY(const auto path, co_await path_field(call, request, "path"));
  CO_TRY(const auto depth, number_field(request, "depth", UINT32_MAX));
  const auto levels = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(depth, 1, kDepthMax));
  CO_TRY(auto files, co_await call.awake([&] {
    return call.provider.list_files(call.id(), path, kFileUser, levels);
  }));
  std::ranges::sort(files, comes_before);
  Describer describer(call);
  Json entries = Json::array();
  for (FileInfo& file : files) {
    CO_TRY(auto entry, co_await describer.describe(std::move(file)));
    entries.push_back(std::move(entry));
  }
  co_return Json{{"entries", std::move(entries)}};
}

Task<Result<Json>> make_directory(Call& call, const Json& request) {
  CO_TRY(const auto path, co_await path_field(call, request, "path"));
  auto made = co_await make_own_directory(call, path);
  if (!made && made.error().code == ErrorCode::kConflict) {
    CO_TRY(const auto there, co_await find_file(call, path));
    const auto end = opened(there);
    const bool directory = end && end->kind == FileKind::kDirectory;
    co_return make_error(
        directory ? ErrorCode::kConflict : ErrorCode::kInvalid, "make directory",
        fmt::format("{} exists already{}", path, directory ? "" : ", and is no directory"));
  }
  if (!made) co_return std::move(made).error();
  co_return co_await entry_answer(call, path);
}

Task<Result<Json>> move_entry(Call& call, const Json& request) {
  CO_TRY(const auto from, co_await path_field(call, request, "source"));
  CO_TRY(const auto to, co_await path_field(call, request, "destination"));
  CO_TRY_VOID(co_await find_file(call, from));
  const auto rename = [&] { return call.provider.rename_file(call.id(), from, to, kFileUser); };
  auto moved = co_await rename();
  if (!moved && moved.error().code == ErrorCode::kNotFound) {
    const auto made = co_await make_own_directory(call, parent_of(to));
    if (!made && made.error().code != ErrorCode::kConflict) co_return made.error();
    moved = co_await rename();
  }
  if (!moved) co_return std::move(moved).error();
  co_return co_await entry_answer(call, to);
}

Task<Result<Json>> remove_entry(Call& call, const Json& request) {
  CO_TRY(const auto path, co_await path_field(call, request, "path"));
  auto removed =
      co_await call.awake([&] { return call.provider.remove_file(call.id(), path, kFileUser); });
  if (!removed && removed.error().code != ErrorCode::kNotFound)
    co_return std::move(removed).error();
  co_return Json::object();
}

Task<Result<FileInfo>> make_own_directory(Call& call, std::string path) {
  CO_TRY(const auto owner, co_await owner_for(call));
  co_return co_await call.awake(
      [&] { return call.provider.make_directory(call.id(), path, kFileUser, owner); });
}

}  // namespace pons::e2b
