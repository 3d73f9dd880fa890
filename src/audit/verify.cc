#include "pons/audit/verify.h"

#include <algorithm>
#include <deque>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lines.h"
#include "pons/base/json.h"

namespace pons::audit {

namespace {

constexpr std::size_t kFindingsMax = 100;

// Walks the chain line by line and remembers what was expected next.
class Examination {
 public:
  explicit Examination(std::string_view known_hash) : known_hash_(known_hash) {
    report_.head.hash = kFirstPrevious;
  }

  void begin_file(std::string name) {
    file_ = std::move(name);
    line_ = 0;
    ++report_.files;
  }

  void take(std::string_view text) {
    ++line_;
    ++report_.events;
    const auto link = parse_link(text);
    if (!link) return found("is not a line of this log");
    if (!link->hash_is_right) found("was changed: its hash does not fit its text");
    if (report_.events == 1) {
      report_.first_seq = link->seq;
      first_previous_ = link->previous;
    } else {
      if (link->previous != report_.head.hash)
        found("does not follow the line before it: lines were removed, moved or added");
      if (link->seq != report_.head.seq + 1)
        found(fmt::format("has number {} after {}", link->seq, report_.head.seq));
    }
    note_removal(text);
    if (link->hash == known_hash_) known_hash_seen_ = true;
    report_.head = {.seq = link->seq, .hash = link->hash};
  }

  void torn_end(bool is_last_file, std::size_t bytes) {
    if (is_last_file)
      report_.notes.push_back(
          fmt::format("{} ends within a line of {} bytes: it is being written, or a crash cut it "
                      "off",
                      file_, bytes));
    else
      found("is cut off, although files follow");
  }

  Report finish() {
    if (report_.events > 0) check_beginning();
    if (!known_hash_.empty() && !known_hash_seen_)
      found("the log does not hold the known hash: its end was cut off, or it was rewritten");
    report_.intact = report_.findings.empty();
    return std::move(report_);
  }

 private:
  void found(std::string what) {
    if (report_.findings.size() < kFindingsMax)
      report_.findings.push_back({.file = file_, .line = line_, .what = std::move(what)});
  }

  // A beginning that is not the first is right only when the log itself says what went before.
  void check_beginning() {
    if (report_.first_seq == 1 && first_previous_ == kFirstPrevious) return;
    if (removed_ends_.contains(first_previous_)) {
      report_.notes.push_back(fmt::format(
          "begins with event {}: older files were removed by configuration", report_.first_seq));
      return;
    }
    file_.clear();
    line_ = 0;
    found(fmt::format("the log begins with event {}, and no event says why", report_.first_seq));
  }

  void note_removal(std::string_view text) {
    if (text.find("\"kind\":\"removed\"") == std::string_view::npos) return;
    const auto json = parse_json(text, {.depth = 4, .bytes = kLineBytesMax});
    if (!json || json->value("kind", "") != "removed") return;
    removed_ends_.insert(json->value("last_hash", ""));
  }

  std::string_view known_hash_;
  bool known_hash_seen_ = false;
  std::string file_;
  std::uint64_t line_ = 0;
  std::string first_previous_;
  std::set<std::string> removed_ends_;
  Report report_;
};

// Calls `take` for every complete line; the bytes of an incomplete last one.
std::size_t each_line(std::string_view text, const std::function<bool(std::string_view)>& take) {
  for (;;) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos || !take(text.substr(0, end))) return text.size();
    text.remove_prefix(end + 1);
  }
}

}  // namespace

Result<Report> verify(const std::string& directory, std::string_view known_hash) {
  Examination examination(known_hash);
  const auto files = TRY(list_files(directory));
  for (const auto& [number, unused] : files) {
    const std::string text = TRY(read_log_file(directory, number));
    examination.begin_file(file_name(number));
    const std::size_t torn = each_line(text, [&](std::string_view line) {
      examination.take(line);
      return true;
    });
    if (torn > 0) examination.torn_end(number == files.rbegin()->first, torn);
  }
  return examination.finish();
}

Result<std::vector<std::string>> tail(const std::string& directory, std::size_t lines) {
  std::deque<std::string> last;
  const auto files = TRY(list_files(directory));
  for (auto file = files.rbegin(); file != files.rend() && last.size() < lines; ++file) {
    const std::string text = TRY(read_log_file(directory, file->first));
    std::vector<std::string_view> found;
    each_line(text, [&](std::string_view line) {
      found.push_back(line);
      return true;
    });
    for (auto line = found.rbegin(); line != found.rend() && last.size() < lines; ++line)
      last.emplace_front(*line);
  }
  return std::vector<std::string>(last.begin(), last.end());
}

Result<void> Reader::skip_to_end() {
  return read([](std::string_view) { return true; });
}

Result<void> Reader::read(const std::function<bool(std::string_view)>& take) {
  const auto files = TRY(list_files(directory_));
  for (const auto& [number, size] : files) {
    if (number < number_) continue;
    if (number > number_) offset_ = 0;
    number_ = number;
    if (size <= offset_) continue;
    const std::string text = TRY(read_log_file(directory_, number, offset_));
    bool more = true;
    each_line(text, [&](std::string_view line) {
      offset_ += line.size() + 1;
      more = take(line);
      return more;
    });
    if (!more) return {};
  }
  return {};
}

}  // namespace pons::audit
