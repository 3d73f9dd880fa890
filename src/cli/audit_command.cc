#include <poll.h>
#include <signal.h>

#include <chrono>
#include <set>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "help.h"
#include "pons/audit/decision.h"
#include "pons/audit/verify.h"
#include "pons/linux/signals.h"
#include "state_commands.h"
#include "terminal.h"

namespace pons::cli {

namespace {

struct Words {
  std::size_t lines = 20;
  bool follow = false;
  std::string sandbox;
  std::string verdict;
  std::uint64_t from = 0;
  std::string hash;
};

std::string directory_of(const std::string& state_dir) {
  return state_dir + "/egress/audit";
}

// Missing and forbidden are what a person can do something about.
Error with_advice(const Error& error, const std::string& state_dir) {
  if (error.code == ErrorCode::kNotFound)
    return make_error(ErrorCode::kNotFound, "read audit log",
                      fmt::format("there is no audit log below {}; name the --state-dir of a Pons "
                                  "that has run",
                                  state_dir));
  if (error.code == ErrorCode::kDenied)
    return make_error(ErrorCode::kDenied, "read audit log",
                      fmt::format("{} belongs to another user; run this as root or as the user who "
                                  "started Pons",
                                  directory_of(state_dir)));
  return error;
}

std::string text_of(const Json& event, const char* key) {
  const auto value = event.find(key);
  if (value == event.end()) return {};
  return value->is_string() ? value->get<std::string>() : dump_json(*value);
}

Tone tone_of(std::string_view verdict) {
  if (verdict == "block" || verdict == "cut" || verdict == "drop") return Tone::kBad;
  return verdict.empty() ? Tone::kStrong : Tone::kGood;
}

void print_event(std::string_view line, const Common& common) {
  if (common.json) {
    fmt::print("{}\n", printable(line));
    return;
  }
  const auto event = parse_json(line);
  if (!event || !event->is_object()) {
    fmt::print("{}\n", paint(line, Tone::kBad));
    return;
  }
  const auto time = std::chrono::system_clock::time_point(
      std::chrono::milliseconds(event->value("time_unix_ms", std::int64_t{0})));
  const std::string verdict = text_of(*event, "verdict");
  std::string rest;
  for (const char* key : {"status", "code", "sandbox", "method", "host", "path", "credentials",
                          "suppressed", "by_verdict", "lost", "file", "bytes"})
    if (const std::string value = text_of(*event, key); !value.empty())
      rest += fmt::format(" {}={}", key, value);
  fmt::print("{:%F %T}Z {:>6} {}{}\n", fmt::gmtime(std::chrono::system_clock::to_time_t(time)),
             event->value("seq", std::uint64_t{0}),
             paint(fmt::format("{:<10}", verdict.empty() ? text_of(*event, "kind") : verdict),
                   tone_of(verdict)),
             printable(rest));
}

Result<int> tail(const std::string& state_dir, const Common& common, const Words& words) {
  const std::string directory = directory_of(state_dir);
  audit::Reader reader(directory);
  if (words.follow) {
    const auto skipped = reader.skip_to_end();
    if (!skipped) return with_advice(skipped.error(), state_dir);
  }
  const auto last = audit::tail(directory, words.lines);
  if (!last) return with_advice(last.error(), state_dir);
  for (const std::string& line : *last) print_event(line, common);
  if (!words.follow) return 0;

  const auto signals = TRY(linux::SignalFd::create({SIGINT, SIGTERM}));
  constexpr int kPauseMs = 200;
  for (;;) {
    std::fflush(stdout);
    if (std::ferror(stdout) != 0) return 0;  // nobody reads any more
    pollfd stop{.fd = signals.fd(), .events = POLLIN};
    if (poll(&stop, 1, kPauseMs) > 0) return 0;
    TRY_VOID(reader.read([&](std::string_view line) {
      print_event(line, common);
      return true;
    }));
  }
}

Result<int> export_events(const std::string& state_dir, const Common&, const Words& words) {
  if (!words.verdict.empty() && !audit::parse_verdict(words.verdict))
    return make_error(ErrorCode::kInvalid, "read --verdict",
                      "a verdict is allow, swap, inert, scrub, block, cut or drop");
  audit::Reader reader(directory_of(state_dir));
  const bool all = words.sandbox.empty() && words.verdict.empty() && words.from == 0;
  const auto read = reader.read([&](std::string_view line) {
    if (!all) {
      const auto event = parse_json(line);
      if (!event || !event->is_object() || event->value("seq", std::uint64_t{0}) < words.from)
        return true;
      if (!words.sandbox.empty() && text_of(*event, "sandbox") != words.sandbox) return true;
      if (!words.verdict.empty() && text_of(*event, "verdict") != words.verdict) return true;
    }
    fmt::print("{}\n", printable(line));
    return std::ferror(stdout) == 0;
  });
  if (!read) return with_advice(read.error(), state_dir);
  return 0;
}

Result<int> verify(const std::string& state_dir, const Common& common, const Words& words) {
  const auto report = audit::verify(directory_of(state_dir), words.hash);
  if (!report) return with_advice(report.error(), state_dir);
  if (common.json) {
    Json findings = Json::array();
    for (const auto& finding : report->findings)
      findings.push_back({{"file", finding.file}, {"line", finding.line}, {"what", finding.what}});
    fmt::print("{}\n", dump_json({{"intact", report->intact},
                                  {"files", report->files},
                                  {"events", report->events},
                                  {"first_seq", report->first_seq},
                                  {"seq", report->head.seq},
                                  {"hash", report->head.hash},
                                  {"findings", std::move(findings)},
                                  {"notes", report->notes}}));
    return report->intact ? 0 : 1;
  }
  for (const auto& finding : report->findings)
    print_error(finding.file.empty()
                    ? finding.what
                    : fmt::format("{}:{} {}", finding.file, finding.line, finding.what));
  for (const std::string& note : report->notes) fmt::print("note: {}\n", printable(note));
  fmt::print("{}: {} events in {} files\n",
             report->intact ? paint("intact", Tone::kGood) : paint("not intact", Tone::kBad),
             report->events, report->files);
  fmt::print("last event {}, hash {}\n", report->head.seq, report->head.hash);
  return report->intact ? 0 : 1;
}

}  // namespace

void add_audit(CLI::App& app, Common& common, int& exit_code) {
  StateCommands<Words> commands(app, common, exit_code, "audit",
                                "Read and check what sandboxes were allowed");
  Words& words = commands.words();
  const auto add = [&](const char* name, const char* summary, const char* text, auto work) {
    return commands.add(name, summary, text, work, Prints::kText);
  };

  CLI::App* last =
      add("tail", "Show the last events",
          "Shows the last decisions about requests of sandboxes. Reads the files; Pons "
          "need not be running.",
          tail);
  add_json_option(*last, common);
  last->add_option("-n,--lines", words.lines, "How many")
      ->capture_default_str()
      ->check(CLI::Range(0, 100'000));
  last->add_flag("-f,--follow", words.follow, "Go on with those that come");

  CLI::App* all = add("export", "Print events as JSON lines",
                      "Prints the lines as they stand in the log, oldest first.", export_events);
  all->add_option("--sandbox", words.sandbox, "Only of this sandbox");
  all->add_option("--verdict", words.verdict, "Only allow, swap, inert, scrub, block, cut or drop");
  all->add_option("--from", words.from, "Only from this number on")->type_name("SEQ");

  CLI::App* checked = add(
      "verify", "Check that no event was changed, removed or moved",
      "Follows the chain of hashes over all files. An end that was cut off shows only to someone "
      "who noted a hash:\nkeep the one that is printed somewhere else, and give it next time.",
      verify);
  add_json_option(*checked, common);
  checked->add_option("--hash", words.hash, "A hash of this log that was noted earlier");
}

}  // namespace pons::cli
