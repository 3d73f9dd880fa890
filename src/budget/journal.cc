#include "journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "pons/base/log.h"
#include "pons/base/text.h"

namespace pons::budget {

namespace {

constexpr std::string_view kFilePrefix = "journal-";
constexpr std::string_view kDamagedPrefix = "damaged-";
constexpr std::size_t kOldFileBytesMax = 256ULL << 20;
constexpr std::size_t kOldFilesMax = 1'000;
// Kept free in each file, so that what ends calls finds room when the disk has none.
constexpr std::size_t kSpareBytes = 1ULL << 20;

Error unavailable(const char* step, int error) {
  Error made =
      os_error(step, "the journal of model calls cannot be written: make room on its disk", error);
  made.code = ErrorCode::kUnavailable;
  return made;
}

Result<void> write_at(int fd, std::string_view data, std::size_t offset) {
  while (!data.empty()) {
    const ssize_t written = pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return unavailable("write journal", written < 0 ? errno : ENOSPC);
    data.remove_prefix(static_cast<std::size_t>(written));
    offset += static_cast<std::size_t>(written);
  }
  return {};
}

}  // namespace

// The thread that waits for the disk.
class Journal::Disk {
 public:
  Disk(std::string directory, Duration interval)
      : directory_(std::move(directory)), interval_(interval), thread_([this] { work(); }) {}
  ~Disk() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  void use(std::shared_ptr<linux::UniqueFd> file) {
    const std::lock_guard lock(mutex_);
    // The one before may wait long for the store.
    if (file_ != nullptr) left_.push_back(std::move(file_));
    file_ = std::move(file);
    is_new_ = true;
  }
  // Cheap, because every record says so: the thread is woken only by the first.
  void written() {
    if (!dirty_.exchange(true)) {
      {
        const std::lock_guard lock(mutex_);
      }
      changed_.notify_one();
    }
  }
  void remove(std::string path) {
    {
      const std::lock_guard lock(mutex_);
      removals_.push_back(std::move(path));
    }
    changed_.notify_one();
  }
  int failure() const { return failure_; }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || dirty_ || !removals_.empty(); });
      const bool last = stop_;
      auto files = std::exchange(left_, {});
      if (file_ != nullptr) files.push_back(file_);
      const bool is_new = std::exchange(is_new_, false);
      const auto removals = std::exchange(removals_, {});
      dirty_ = false;
      lock.unlock();
      sync(files, is_new, removals);
      lock.lock();
      if (last) return;
      changed_.wait_for(lock, interval_, [&] { return stop_; });
    }
  }

  void sync(const std::vector<std::shared_ptr<linux::UniqueFd>>& files, bool is_new,
            const std::vector<std::string>& removals) {
    for (const auto& file : files)
      if (fdatasync(file->get()) != 0) return fail("sync journal", errno);
    if (is_new && !sync_directory()) return;
    for (const std::string& path : removals)
      if (unlink(path.c_str()) != 0 && errno != ENOENT) return fail("remove journal", errno);
    if (!removals.empty()) sync_directory();
  }
  bool sync_directory() {
    const auto synced = linux::sync_directory(directory_);
    if (!synced) fail("sync journal directory", synced.error().os_error);
    return synced.has_value();
  }
  void fail(const char* step, int error) {
    failure_ = error == 0 ? EIO : error;
    LOG_ERROR("the journal of model calls takes no more", {"error", os_error(step, {}, failure_)});
  }

  const std::string directory_;
  const Duration interval_;
  std::atomic<bool> dirty_ = false;
  std::atomic<int> failure_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<linux::UniqueFd> file_;  // guarded by mutex_, as all below
  bool is_new_ = false;
  std::vector<std::shared_ptr<linux::UniqueFd>> left_;
  std::vector<std::string> removals_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

Journal::Journal(JournalOptions options, linux::UniqueFd lock)
    : options_(std::move(options)),
      lock_(std::move(lock)),
      disk_(std::make_unique<Disk>(options_.directory, options_.sync_interval)) {}

Journal::~Journal() = default;

Result<std::unique_ptr<Journal>> Journal::open(JournalOptions options) {
  auto lock = TRY(linux::open_file(options.directory + "/lock", O_RDWR | O_CREAT, 0600));
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return make_error(ErrorCode::kConflict, "lock journal",
                      fmt::format("another process has {}", options.directory));
  return std::unique_ptr<Journal>(new Journal(std::move(options), std::move(lock)));
}

std::string Journal::path_of(std::int64_t number) const {
  return fmt::format("{}/{}{:012}", options_.directory, kFilePrefix, number);
}

// A disk that writes in an order of its own and loses its power leaves holes. What stands behind
// one may build on what is lost: it is not read, and stays for whoever wants to look.
Result<void> Journal::keep_aside(const std::string& path, std::int64_t number,
                                 const Records& read) const {
  const std::string aside =
      fmt::format("{}/{}{}{:012}", options_.directory, kDamagedPrefix, kFilePrefix, number);
  if (link(path.c_str(), aside.c_str()) != 0 && errno != EEXIST)
    return os_error("keep damaged journal", aside);
  LOG_ERROR(
      "a journal of model calls is damaged: what ended behind the damage is charged as lost, "
      "what began behind it not at all; the file is kept",
      {"file", aside}, {"damaged_at", read.bytes}, {"whole_again_at", *read.whole_again});
  return {};
}

Result<std::vector<Journal::OldFile>> Journal::read_old() const {
  std::map<std::int64_t, std::string> paths;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(options_.directory, failed)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kFilePrefix)) continue;
    const auto number = parse_decimal(std::string_view(name).substr(kFilePrefix.size()));
    if (number && *number < std::uint64_t{INT64_MAX})
      paths.emplace(static_cast<std::int64_t>(*number), entry.path());
    if (paths.size() > kOldFilesMax)
      return make_error(
          ErrorCode::kIo, "list journals",
          fmt::format("{} holds more journals than Pons ever leaves there", options_.directory));
  }
  if (failed) return os_error("list journals", options_.directory, failed.value());
  std::vector<OldFile> files;
  for (const auto& [number, path] : paths) {
    const std::string bytes = TRY(linux::read_file(path, kOldFileBytesMax));
    Records read = read_records(bytes);
    if (read.whole_again) TRY_VOID(keep_aside(path, number, read));
    const auto* begins = read.records.empty() ? nullptr : std::get_if<FileBegins>(&read.records[0]);
    if (!read.records.empty() && (begins == nullptr || begins->number != number))
      return make_error(ErrorCode::kIo, "read journal",
                        fmt::format("{} is not the file that its name says; restore it from a "
                                    "backup, or move it away",
                                    path));
    files.push_back({.number = number, .records = std::move(read.records)});
  }
  return files;
}

Result<void> Journal::begin_file(std::int64_t number, std::string_view first) {
  const std::string path = path_of(number);
  auto opened = linux::open_file(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (!opened) return unavailable("create journal", opened.error().os_error);
  std::string bytes;
  append_record(bytes, FileBegins{.number = number});
  bytes += first;
  const auto room = static_cast<off_t>(options_.file_bytes + bytes.size() + kSpareBytes);
  Result<void> made;
  // File systems that cannot set room aside go without.
  if (fallocate(opened->get(), FALLOC_FL_KEEP_SIZE, 0, room) != 0 && errno != EOPNOTSUPP)
    made = unavailable("make room for journal", errno);
  if (made) made = write_at(opened->get(), bytes, 0);
  if (!made) {
    unlink(path.c_str());
    return made;
  }
  file_ = std::make_shared<linux::UniqueFd>(std::move(*opened));
  number_ = number;
  size_ = bytes.size();
  first_bytes_ = size_;
  disk_->use(file_);
  disk_->written();
  return {};
}

Result<void> Journal::append(std::string_view records) {
  if (const int failure = disk_->failure(); failure != 0)
    return unavailable("write journal", failure);
  // What a write that failed has left behind is overwritten by the next.
  TRY_VOID(write_at((*file_).get(), records, size_));
  size_ += records.size();
  disk_->written();
  return {};
}

void Journal::remove(std::int64_t number) {
  disk_->remove(path_of(number));
}

}  // namespace pons::budget
