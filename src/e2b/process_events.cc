#include "process_events.h"

#include <fmt/format.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/text.h"

namespace pons::e2b {

namespace {

using sandbox::JobInfo;
using sandbox::Outcome;
using sandbox::Output;

// As Go, in which the original is written, calls them.
std::string signal_text(int number) {
  switch (number) {
    case SIGHUP:
      return "hangup";
    case SIGINT:
      return "interrupt";
    case SIGQUIT:
      return "quit";
    case SIGABRT:
      return "aborted";
    case SIGKILL:
      return "killed";
    case SIGSEGV:
      return "segmentation fault";
    case SIGPIPE:
      return "broken pipe";
    case SIGTERM:
      return "terminated";
    default:
      return fmt::format("signal {}", number);
  }
}

std::string status_text(const JobInfo& end) {
  if (end.outcome == Outcome::kExit) return fmt::format("exit status {}", end.code);
  return "signal: " + signal_text(end.outcome == Outcome::kSignal ? end.code : SIGKILL);
}

}  // namespace

std::string start_event(std::uint32_t pid) {
  return fmt::format(R"({{"event":{{"start":{{"pid":{}}}}}}})", pid);
}

std::string data_event(const Output& output, ProcessIo io) {
  const char* name = io == ProcessIo::kTerminal                 ? "pty"
                     : output.stream == Output::Stream::kOutput ? "stdout"
                                                                : "stderr";
  // Base64 needs no escaping.
  return fmt::format(R"({{"event":{{"data":{{"{}":"{}"}}}}}})", name, base64_encode(output.bytes));
}

std::string end_event(const JobInfo& end) {
  const bool exited = end.outcome == Outcome::kExit;
  Json event = {
      {"exitCode", exited ? end.code : -1}, {"exited", exited}, {"status", status_text(end)}};
  if (!exited || end.code != 0) event["error"] = event["status"];
  if (end.outcome == Outcome::kOutOfMemory)
    event["error"] = status_text(end) + " (" + end.note + ")";
  return dump_json({{"event", {{"end", std::move(event)}}}});
}

}  // namespace pons::e2b
