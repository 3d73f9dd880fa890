#include "furnished_hands.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/log.h"
#include "pons/files/file_name.h"

namespace pons::brain {

namespace {

constexpr const char* kRoot = "root";
constexpr const char* kUser = "user";  // whose the files are, and who finds them there
constexpr std::uint32_t kDepthMax = 8;
constexpr std::size_t kOutputsMax = 200;

class StoredBytes final : public sandbox::ByteSource {
 public:
  StoredBytes(files::FileStore& files, files::File file) : files_(files), file_(std::move(file)) {}
  Task<Result<std::string>> next() override {
    if (part_ >= file_.parts) co_return std::string();
    co_return co_await files_.read_part(file_, part_++);
  }

 private:
  files::FileStore& files_;
  const files::File file_;
  std::int64_t part_ = 0;
};

Error cannot_mount(const managed::SessionFile& file, const Error& why) {
  return make_error(why.code == ErrorCode::kNotFound ? ErrorCode::kInvalid : why.code, "mount file",
                    fmt::format("the file {} of this session cannot be put at {}: {}", file.file,
                                file.path, why.message));
}

}  // namespace

Task<Result<session::ProvisionReport>> FurnishedHands::provision(session::ProvisionOrder order) {
  std::string sandbox = order.sandbox;
  std::string project = order.project;
  std::string session = order.session;
  CO_TRY(auto report, co_await hands_.provision(std::move(order)));
  if (managed::ManagedApi::is_session(session) && find_files_)
    CO_TRY_VOID(co_await furnish(std::move(sandbox), std::move(project), std::move(session)));
  co_return report;
}

Task<Result<void>> FurnishedHands::destroy(std::string sandbox) {
  machines_.erase(sandbox);
  return hands_.destroy(std::move(sandbox));
}

// ---- into the machine

// Asked for before each use of the machine, so that a file that was added meanwhile is there.
Task<Result<void>> FurnishedHands::furnish(std::string sandbox, std::string project,
                                           std::string session) {
  CO_TRY(const auto wanted, co_await find_files_(project, session));
  CO_TRY(const auto info, co_await provider_.inspect(sandbox));
  if (machines_[sandbox].made_ms != info.created_unix_ms) {
    CO_TRY_VOID(co_await provider_.make_directory(sandbox, std::string(managed::kOutputsFolder),
                                                  kRoot, kUser));
    machines_[sandbox] = {.project = project, .session = session, .made_ms = info.created_unix_ms};
  }
  for (const managed::SessionFile& file : wanted) {
    if (machines_[sandbox].mounted.contains(file.resource)) continue;
    if (const auto mounted = co_await mount(sandbox, project, file); !mounted)
      co_return cannot_mount(file, mounted.error());
    machines_[sandbox].mounted[file.resource] = file.path;
  }
  std::vector<std::string> gone;
  for (const auto& [resource, path] : machines_[sandbox].mounted)
    if (std::ranges::none_of(wanted, [&](const auto& file) { return file.resource == resource; }))
      gone.push_back(resource);
  for (const std::string& resource : gone) {
    (void)co_await provider_.remove_file(sandbox, machines_[sandbox].mounted[resource], kRoot);
    machines_[sandbox].mounted.erase(resource);
  }
  co_return {};
}

// One that is there already was put there by a process before this one: what the agent has made of
// it stays.
Task<Result<void>> FurnishedHands::mount(std::string sandbox, std::string project,
                                         managed::SessionFile file) {
  if (co_await provider_.stat_file(sandbox, file.path, kRoot)) co_return {};
  CO_TRY(auto stored, co_await files_.find(std::move(project), file.file));
  CO_TRY_VOID(
      co_await provider_.write_file(sandbox, file.path, {.user = kRoot, .owner = kUser},
                                    std::make_unique<StoredBytes>(files_, std::move(stored))));
  co_return {};
}

// ---- out of it

void FurnishedHands::collect(const std::string& session) {
  for (const auto& [sandbox, machine] : machines_)
    if (machine.session == session && !machine.is_read) tasks_.spawn(collect_outputs(sandbox));
}

Task<> FurnishedHands::collect_outputs(std::string sandbox) {
  machines_[sandbox].is_read = true;
  const auto found = co_await provider_.list_files(sandbox, std::string(managed::kOutputsFolder),
                                                   kRoot, kDepthMax);
  std::size_t kept = 0;
  for (const sandbox::FileInfo& info : found ? *found : std::vector<sandbox::FileInfo>()) {
    if (info.kind != sandbox::FileKind::kFile) continue;
    if (++kept > kOutputsMax) {
      LOG_WARN("a session leaves more files than are kept", {"sandbox", sandbox},
               {"kept", kOutputsMax});
      break;
    }
    if (const auto done = co_await keep_output(sandbox, info); !done)
      LOG_WARN("a file that a session leaves is not kept", {"sandbox", sandbox},
               {"error", done.error()});
  }
  if (const auto machine = machines_.find(sandbox); machine != machines_.end())
    machine->second.is_read = false;
}

Task<Result<void>> FurnishedHands::keep_output(std::string sandbox, sandbox::FileInfo info) {
  const auto machine = machines_.find(sandbox);
  if (machine == machines_.end()) co_return {};
  const std::pair now(info.size, info.modified_ns);
  if (const auto before = machine->second.kept.find(info.path);
      before != machine->second.kept.end() && before->second == now)
    co_return {};
  const std::string project = machine->second.project;
  const std::string session = machine->second.session;
  CO_TRY(auto source, co_await provider_.read_file(sandbox, info.path, kRoot, 0, info.size));
  CO_TRY(auto upload, co_await files_.begin(project));
  for (;;) {
    auto piece = co_await source->next();
    if (piece && piece->empty()) break;
    const auto written = piece ? co_await upload.write(*piece) : Result<void>(piece.error());
    if (written) continue;
    co_await upload.give_up();
    co_return written.error();
  }
  CO_TRY(const auto file, co_await upload.finish({.name = info.path,
                                                  .mime_type = files::guess_mime_type(info.path),
                                                  .scope = session,
                                                  .place = info.path}));
  // A process before this one may have kept the very same.
  CO_TRY(const bool is_known, co_await is_kept(file));
  if (is_known) CO_TRY_VOID(co_await files_.remove(project, file.id));
  if (const auto still = machines_.find(sandbox); still != machines_.end())
    still->second.kept[info.path] = now;
  co_return {};
}

Task<Result<bool>> FurnishedHands::is_kept(const files::File& file) {
  constexpr std::int64_t kLookedAt = 1'000;
  CO_TRY(const auto known,
         co_await files_.list(file.project, {.scope = file.scope, .limit = kLookedAt}));
  co_return std::ranges::any_of(known, [&](const files::File& other) {
    return other.id != file.id && other.place == file.place && other.digest == file.digest;
  });
}

}  // namespace pons::brain
