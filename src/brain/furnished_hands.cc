#include "furnished_hands.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/managed/managed.h"
#include "pons/session/tool_text.h"
#include "repository_clone.h"

namespace pons::brain {

namespace {

using managed::SessionFile;
using managed::SessionFiles;

constexpr const char* kRoot = "root";
constexpr const char* kUser = "user";  // whose the files are, and who finds them there
constexpr std::uint64_t kNoteBytesMax = 4 << 20;
constexpr Duration kPause = std::chrono::milliseconds(500);
// What was done is noted also when the time for doing it is over.
constexpr Duration kNoteTime = std::chrono::seconds(30);
constexpr std::int64_t kCloneSeconds = 270;
constexpr std::size_t kCloneWordsMax = 1'000;
constexpr std::size_t kFailuresShown = 5;

std::string note_path() {
  return fmt::format("{}/session-files.json", managed::kMachineNotes);
}

class TextSource final : public sandbox::ByteSource {
 public:
  explicit TextSource(std::string text) : text_(std::move(text)) {}
  Task<Result<std::string>> next() override { co_return std::exchange(text_, {}); }

 private:
  std::string text_;
};

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

bool may_pass(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kTimeout;
}

// It is so with the next call, too, unless somebody changes something.
bool is_for_good(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalid:
    case ErrorCode::kDenied:
    case ErrorCode::kConflict:
    case ErrorCode::kLimit:
    case ErrorCode::kUnsupported:
    case ErrorCode::kIo:
      return true;
    default:
      return false;
  }
}

std::string words_of(const Error& error) {
  return error.message.empty() ? error.describe() : error.message;
}

Error cannot_mount(const SessionFile& file, const Error& why) {
  return make_error(why.code, "mount file",
                    fmt::format("{} cannot be put at {} for this session: {}",
                                file.repository ? file.repository->url : "the file " + file.file,
                                file.path, words_of(why)));
}

// Nothing of the call was begun, and whoever made it is told so.
Error refusal_of(const std::optional<Error>& error,
                 const std::map<std::string, std::string>& failures) {
  std::string words = error ? words_of(*error) : std::string();
  std::size_t shown = 0;
  for (const auto& [resource, failure] : failures) {
    if (shown++ == kFailuresShown) {
      words += fmt::format("; and {} more", failures.size() - kFailuresShown);
      break;
    }
    words += (words.empty() ? "" : "; ") + failure;
  }
  if (!failures.empty()) words += ". What can be done without it can be done now";
  const bool is_limit = error && error->code == ErrorCode::kLimit;
  return make_error(is_limit ? ErrorCode::kLimit : ErrorCode::kInvalid, "furnish machine",
                    std::move(words));
}

// What takes longer is left. A command in a machine goes on, and the next call joins it.
template <class T>
Task<Result<T>> in_time(linux::Loop& loop, TimePoint deadline, Task<Result<T>> task) {
  auto done = co_await linux::within(loop, deadline, std::move(task));
  if (done) co_return std::move(*done);
  co_return make_error(ErrorCode::kTimeout, "furnish machine",
                       "bringing the session's files and repositories takes too long");
}

// Beside its place, so that a clone is moved there whole; of a name that fits wherever that one
// does.
std::string clone_folder(const std::string& resource, const std::string& path) {
  return fmt::format("{}/.pons-{}", path.substr(0, path.rfind('/')), resource);
}

int number_in(const Json& said, const char* name) {
  constexpr int kMax = 1'000'000;
  const auto found = said.find(name);
  if (found == said.end() || !found->is_number_integer()) return 0;
  return static_cast<int>(std::clamp<std::int64_t>(found->get<std::int64_t>(), 0, kMax));
}

}  // namespace

// While it lives, nobody else looks at the machine.
class FurnishedHands::Turn {
 public:
  Turn(linux::Loop& loop, std::weak_ptr<linux::Event>& place)
      : done_(std::make_shared<linux::Event>(loop)) {
    place = done_;
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() { done_->set(); }

 private:
  std::shared_ptr<linux::Event> done_;
};

Task<Result<session::ProvisionReport>> FurnishedHands::provision(session::ProvisionOrder order) {
  if (!managed::ManagedApi::is_session(order.session) || !find_files_)
    co_return co_await hands_.provision(std::move(order));
  std::string sandbox = order.sandbox;
  std::string project = order.project;
  std::string session = order.session;
  CO_TRY(auto report, co_await hands_.provision(std::move(order)));
  CO_TRY_VOID(co_await furnish(std::move(sandbox), std::move(project), std::move(session)));
  co_return report;
}

Task<Result<void>> FurnishedHands::furnish(std::string sandbox, std::string project,
                                           std::string session) {
  Pass pass{.deadline = loop_.now() + times_.longest};
  while (const auto busy = busy_[sandbox].lock()) {
    if (busy->is_set()) break;
    if (co_await busy->wait(pass.deadline) == linux::Wait::kTimeout)
      co_return make_error(ErrorCode::kInvalid, "furnish machine",
                           "another call still brings files into the machine");
  }
  const Turn turn(loop_, busy_[sandbox]);
  std::erase_if(busy_, [](const auto& each) { return each.second.expired(); });
  for (const TimePoint patient = std::min(loop_.now() + times_.patience, pass.deadline);;) {
    const auto done = co_await furnish_once(sandbox, project, session, pass);
    if (done && pass.failures.empty()) co_return {};
    if (done) co_return refusal_of(std::nullopt, pass.failures);
    if (!may_pass(done.error()) || loop_.now() >= patient)
      co_return refusal_of(done.error(), pass.failures);
    co_await loop_.sleep_for(kPause);
  }
}

Task<Result<void>> FurnishedHands::furnish_once(std::string sandbox, std::string project,
                                                std::string session, Pass& pass) {
  CO_TRY(auto files,
         co_await in_time(loop_, pass.deadline, find_files_(project, std::move(session))));
  if (files.wanted.empty() && !files.had_others) co_return {};
  CO_TRY(auto mounted, co_await in_time(loop_, pass.deadline, read_note(sandbox)));
  const Mounted before = mounted;
  pass.put.clear();
  const auto done =
      co_await put_right(sandbox, std::move(project), std::move(files), mounted, pass);
  if (mounted != before) CO_TRY_VOID(co_await note_what_was_put(std::move(sandbox), mounted, pass));
  co_return done;
}

// `mounted` is what is there afterwards, also when it fails half-way. So it is in put_right().
Task<Result<void>> FurnishedHands::take_out(std::string sandbox, const SessionFiles& files,
                                            Mounted& mounted, Pass& pass) {
  Mounted gone;
  for (const auto& each : mounted)
    if (std::ranges::none_of(files.wanted,
                             [&](const SessionFile& file) { return file.resource == each.first; }))
      gone.insert(each);
  for (const auto& [resource, entry] : gone) {
    // Of a clone that never ended something may be left; of a file that never came, nothing.
    if (!entry.failed) {
      const std::string path = entry.is_there() ? entry.path : clone_folder(resource, entry.path);
      const auto removed =
          co_await in_time(loop_, pass.deadline, provider_.remove_file(sandbox, path, kRoot));
      if (!removed && removed.error().code != ErrorCode::kNotFound &&
          removed.error().code != ErrorCode::kInvalid)
        co_return make_error(removed.error().code, "take out file",
                             fmt::format("{} cannot be taken out of this session: {}", entry.path,
                                         words_of(removed.error())));
    }
    mounted.erase(resource);
  }
  co_return {};
}

Task<Result<void>> FurnishedHands::put_right(std::string sandbox, std::string project,
                                             SessionFiles files, Mounted& mounted, Pass& pass) {
  CO_TRY_VOID(co_await take_out(sandbox, files, mounted, pass));
  const auto is_settled = [&](const SessionFile& file) {
    const auto found = mounted.find(file.resource);
    return found != mounted.end() && (found->second.is_there() || found->second.failed);
  };
  std::erase_if(files.wanted, is_settled);
  // What nobody could note would be put there again and again, over what the agent made of it.
  if (!files.wanted.empty())
    if (const auto noted = co_await write_note(sandbox, mounted); !noted)
      co_return co_await give_up_without_note(noted.error(), files.wanted, pass);
  for (const SessionFile& file : files.wanted) {
    const auto done = co_await in_time(
        loop_, pass.deadline,
        file.repository ? clone(sandbox, file, mounted) : mount(sandbox, project, file));
    if (!done && (file.repository || !is_for_good(done.error())))
      co_return cannot_mount(file, done.error());
    mounted[file.resource] = {.path = file.path, .failed = !done};
    if (done)
      pass.put.push_back(file);
    else
      pass.failures[file.resource] = cannot_mount(file, done.error()).message;
  }
  co_return {};
}

// Only the agent can make room in a full machine: it is told once, and goes on.
Task<Result<void>> FurnishedHands::give_up_without_note(Error why,
                                                        const std::vector<SessionFile>& files,
                                                        Pass& pass) {
  constexpr std::size_t kToldMax = 10'000;
  if (told_.size() >= kToldMax) told_.clear();
  for (const SessionFile& file : files) {
    if (file.repository || !is_for_good(why)) co_return cannot_mount(file, why);
    if (told_.insert(file.resource).second)
      pass.failures[file.resource] = cannot_mount(file, why).message;
  }
  co_return {};
}

// A file that leaves no room to note it is taken out again: otherwise it would come with each call.
Task<Result<void>> FurnishedHands::note_what_was_put(std::string sandbox, Mounted& mounted,
                                                     Pass& pass) {
  const auto noted = co_await write_note(sandbox, mounted);
  if (noted || !is_for_good(noted.error())) co_return noted;
  for (const SessionFile& file : pass.put) {
    if (file.repository) continue;
    const auto removed = co_await provider_.remove_file(sandbox, file.path, kRoot);
    if (!removed && removed.error().code != ErrorCode::kNotFound) co_return removed.error();
    mounted[file.resource].failed = true;
    pass.failures[file.resource] = cannot_mount(file, noted.error()).message;
  }
  co_return co_await write_note(std::move(sandbox), mounted);
}

// One that was deleted since then is in no machine any more; its session goes on without it.
Task<Result<void>> FurnishedHands::mount(std::string sandbox, std::string project,
                                         SessionFile file) {
  auto stored = co_await files_.find(std::move(project), file.file);
  if (!stored &&
      (stored.error().code == ErrorCode::kNotFound || stored.error().code == ErrorCode::kDenied)) {
    LOG_WARN("a file of a session is there no more", {"sandbox", sandbox}, {"file", file.file});
    co_return {};
  }
  if (!stored) co_return stored.error();
  CO_TRY_VOID(
      co_await provider_.write_file(sandbox, file.path, {.user = kRoot, .owner = kUser},
                                    std::make_unique<StoredBytes>(files_, std::move(*stored))));
  co_return {};
}

// Another process that was at it goes on with the same command.
Task<Result<void>> FurnishedHands::clone(std::string sandbox, SessionFile file, Mounted& mounted) {
  const std::string folder = clone_folder(file.resource, file.path);
  const std::string tree = folder + "/tree";
  const auto there = co_await provider_.stat_file(sandbox, folder, kRoot);
  if (!there && may_pass(there.error())) co_return there.error();
  if (!there) CO_TRY_VOID(co_await provider_.make_directory(sandbox, folder, kRoot, kUser));
  const auto entry = mounted.find(file.resource);
  const int attempt = entry == mounted.end() ? 0 : entry->second.attempts;
  CO_TRY(const auto report,
         co_await hands_.execute({.sandbox = sandbox,
                                  .call = fmt::format("clone-{}-{}", file.resource, attempt),
                                  .command = clone_command(*file.repository, tree),
                                  .timeout_seconds = kCloneSeconds}));
  const bool is_cloned = report.end == session::ExecuteReport::End::kExit && report.code == 0;
  if (is_cloned) {
    const auto moved = co_await move_clone(sandbox, tree, file.path);
    if (moved) (void)co_await provider_.remove_file(std::move(sandbox), folder, kRoot);
    if (moved || moved.error().code != ErrorCode::kNotFound) co_return moved;
  }
  mounted[file.resource] = {.path = file.path, .attempts = attempt + 1};
  if (is_cloned)
    co_return make_error(ErrorCode::kUnavailable, "clone repository", "its clone is gone");
  const std::string words(trim(report.output));
  co_return make_error(ErrorCode::kInvalid, "clone repository",
                       report.end == session::ExecuteReport::End::kTimeout
                           ? "it takes too long"
                           : session::shorten(session::printable(words), kCloneWordsMax));
}

// By root: where it goes, its owner may have no right to make a folder.
Task<Result<void>> FurnishedHands::move_clone(std::string sandbox, std::string from,
                                              std::string to) {
  const auto moved = co_await provider_.rename_file(sandbox, std::move(from), to, kRoot);
  if (moved) co_return {};
  if (moved.error().code != ErrorCode::kNotFound) co_return moved.error();
  // A process that died afterwards, or an answer that was lost, has left it there.
  CO_TRY_VOID(co_await provider_.stat_file(std::move(sandbox), std::move(to), kRoot));
  co_return {};
}

// ---- the note

Task<Result<std::string>> FurnishedHands::read_text(std::string sandbox) {
  CO_TRY(const auto source,
         co_await provider_.read_file(std::move(sandbox), note_path(), kRoot, 0, kNoteBytesMax));
  std::string text;
  while (text.size() <= kNoteBytesMax) {
    CO_TRY(const auto piece, co_await source->next());
    if (piece.empty()) break;
    text += piece;
  }
  co_return text;
}

// One that has lost its shape stands for none: what is there is put there again. One that is only
// not to be had now does not: that would be over what the agent made of its files.
Task<Result<FurnishedHands::Mounted>> FurnishedHands::read_note(std::string sandbox) {
  const auto text = co_await read_text(std::move(sandbox));
  Mounted mounted;
  if (!text && text.error().code == ErrorCode::kNotFound) co_return mounted;
  if (!text) co_return text.error();
  const Json json = parse_json(*text, {.bytes = kNoteBytesMax}).value_or(Json::object());
  if (!json.is_object()) co_return mounted;
  for (const auto& [resource, said] : json.items()) {
    if (said.is_string()) mounted[resource] = {.path = said.get<std::string>()};
    if (!said.is_object()) continue;
    const auto path = said.find("path");
    if (path == said.end() || !path->is_string()) continue;
    mounted[resource] = {.path = path->get<std::string>(),
                         .attempts = number_in(said, "attempts"),
                         .failed = said.contains("failed")};
  }
  co_return mounted;
}

Task<Result<void>> FurnishedHands::write_note(std::string sandbox, const Mounted& mounted) {
  Json note = Json::object();
  for (const auto& [resource, entry] : mounted) {
    Json& said = note[resource] = entry.path;
    if (entry.is_there()) continue;
    said = {{"path", entry.path}};
    if (entry.attempts > 0) said["attempts"] = entry.attempts;
    if (entry.failed) said["failed"] = true;
  }
  CO_TRY_VOID(co_await in_time(
      loop_, loop_.now() + kNoteTime,
      provider_.write_file(std::move(sandbox), note_path(), {.mode = 0600, .user = kRoot},
                           std::make_unique<TextSource>(dump_json(note)))));
  co_return {};
}

}  // namespace pons::brain
