#include "pons/session/machine_tools.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "pons/base/json_place.h"
#include "pons/base/text.h"

namespace pons::session {

namespace {

constexpr std::array<MachineTool, 7> kTools =
    {
        {
            {"bash",
             R"json({"name":"bash","description":"Runs a command in a shell on your machine and returns what it prints. Working directory and exported variables stay from one call to the next; restart begins anew.","input_schema":{"type":"object","properties":{"command":{"type":"string"},"restart":{"type":"boolean"},"timeout_ms":{"type":"integer","minimum":1,"maximum":3600000}},"additionalProperties":false}})json"},
            {"read",
             R"json({"name":"read","description":"Reads a text file, with line numbers.","input_schema":{"type":"object","properties":{"file_path":{"type":"string"},"view_range":{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":2,"description":"First and last line; a last line of 0 or less is the end of the file."}},"required":["file_path"],"additionalProperties":false}})json"},
            {"write",
             R"json({"name":"write","description":"Writes a file, in place of one that is there. Folders on the way are made.","input_schema":{"type":"object","properties":{"file_path":{"type":"string"},"content":{"type":"string"}},"required":["file_path","content"],"additionalProperties":false}})json"},
            {"edit",
             R"json({"name":"edit","description":"Replaces a piece of text in a file. The piece must be there exactly once, unless replace_all is true.","input_schema":{"type":"object","properties":{"file_path":{"type":"string"},"old_string":{"type":"string"},"new_string":{"type":"string"},"replace_all":{"type":"boolean"}},"required":["file_path","old_string","new_string"],"additionalProperties":false}})json"},
            {"glob",
             R"json({"name":"glob","description":"Lists files whose path matches a pattern such as **/*.py, below a folder.","input_schema":{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string","description":"The folder; the working directory unless given."}},"required":["pattern"],"additionalProperties":false}})json"},
            {"grep",
             R"json({"name":"grep","description":"Finds lines that match an extended regular expression, in a file or in all files below a folder.","input_schema":{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string"}},"required":["pattern"],"additionalProperties":false}})json"},
            {"web_fetch",
             R"json({"name":"web_fetch","description":"Fetches a page of the web by its URL.","input_schema":{"type":"object","properties":{"url":{"type":"string"}},"required":["url"],"additionalProperties":false}})json"},
        }};

constexpr std::size_t kTextBytesMax = 1 << 20;
// Of a piece to be replaced, which becomes a variable of a program.
constexpr std::size_t kPieceBytesMax = 100'000;
constexpr std::int64_t kFileSeconds = 60;
constexpr std::int64_t kMillisecondsMax = 3'600'000;

// Where a shell finds what the one before it left.
// Threads that share a machine have a shell each: its name is put in front of the command.
constexpr std::string_view kShellState = "/tmp/.pons-shell$PONS_SHELL";

// One word of a shell, whatever is in it.
std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'')
      word += "'\\''";
    else
      word += c;
  }
  return word + "'";
}

// A path that begins with a dash is no option.
std::string path_word(std::string_view path) {
  return shell_word(path.starts_with('-') ? "./" + std::string(path) : std::string(path));
}

Result<std::string> text_at(const JsonPlace& place, const char* key, std::size_t bytes_max) {
  std::string text = TRY(place.at(key).text());
  if (text.size() > bytes_max)
    return place.at(key).refuse(fmt::format("is longer than {} bytes", bytes_max));
  if (text.find('\0') != std::string::npos) return place.at(key).refuse("holds a NUL");
  return text;
}

Result<std::string> needed(const JsonPlace& place, const char* key) {
  if (!place.has(key)) return place.refuse(fmt::format("\"{}\" is missing", key));
  std::string text = TRY(text_at(place, key, kTextBytesMax));
  if (text.empty()) return place.at(key).refuse("is empty");
  return text;
}

// ---- each tool as a command

// What is left for the next one is written when the shell ends, however it does.
Result<MachineCommand> bash(const JsonPlace& place) {
  TRY_VOID(place.expect_object({"command", "restart", "timeout_ms"}));
  const bool restart = place.has("restart") && TRY(place.at("restart").flag());
  if (!place.has("command") && !restart) return place.refuse("\"command\" is missing");
  MachineCommand command;
  if (restart) command.command = fmt::format("rm -f {}\n", kShellState);
  if (!place.has("command")) {
    command.command += "echo 'the shell was restarted'";
    return command;
  }
  command.command += fmt::format(
      "[ -f {0} ] && . {0}\ntrap '{{ export -p; printf \"cd %s\\n\" \"$(pwd | sed "
      "\"s/[^A-Za-z0-9_.\\\\/-]/\\\\\\\\&/g\")\"; }} > {0}.new 2>/dev/null && mv {0}.new "
      "{0}' EXIT\n{1}",
      kShellState, TRY(needed(place, "command")));
  if (place.has("timeout_ms")) {
    const std::uint64_t ms = TRY(place.at("timeout_ms").number(1, kMillisecondsMax));
    command.timeout_seconds = static_cast<std::int64_t>((ms + 999) / 1000);
  }
  return command;
}

Result<MachineCommand> read(const JsonPlace& place) {
  TRY_VOID(place.expect_object({"file_path", "view_range"}));
  const std::string path = path_word(TRY(needed(place, "file_path")));
  std::int64_t first = 1;
  std::int64_t last = 0;
  if (place.has("view_range")) {
    const JsonPlace range = place.at("view_range");
    TRY_VOID(range.expect_list(2));
    for (const Json& line : range.value)
      if (!line.is_number_integer()) return range.refuse("must be two numbers of lines");
    if (range.value.size() != 2) return range.refuse("must be two numbers of lines");
    first = std::clamp<std::int64_t>(range.value[0].get<std::int64_t>(), 1, kNumberMax);
    last = std::clamp<std::int64_t>(range.value[1].get<std::int64_t>(), 0, kNumberMax);
    if (last != 0 && last < first) return range.refuse("ends before it begins");
  }
  return MachineCommand{
      .command = fmt::format(
          "if [ -d {0} ]; then echo 'it is a folder:' >&2; ls -la {0} >&2; exit 1; fi\n"
          "awk -v first={1} -v last={2} 'NR >= first {{ printf \"%6d\\t%s\\n\", NR, $0 }} "
          "last > 0 && NR >= last {{ exit }}' {0}",
          path, first, last),
      .input = {},
      .timeout_seconds = kFileSeconds};
}

Result<MachineCommand> write(const JsonPlace& place) {
  TRY_VOID(place.expect_object({"file_path", "content"}));
  const std::string path = path_word(TRY(needed(place, "file_path")));
  if (!place.has("content")) return place.refuse("\"content\" is missing");
  return MachineCommand{
      .command =
          fmt::format("mkdir -p -- \"$(dirname -- {0})\" && cat > {0} && echo 'written'", path),
      .input = TRY(text_at(place, "content", kTextBytesMax)),
      .timeout_seconds = kFileSeconds};
}

// awk is everywhere, reads a file as one record by a separator that no text has, and takes the
// pieces as they are, from variables.
constexpr std::string_view kEdit = R"sh(
awk 'BEGIN { RS = "\001\002\003"; old = ENVIRON["PONS_OLD"]; new = ENVIRON["PONS_NEW"] }
{ text = text $0 }
END {
  size = length(old); count = 0; done = ""
  while ((at = index(text, old)) > 0) {
    count++
    done = done substr(text, 1, at - 1) new
    text = substr(text, at + size)
  }
  if (count == 0) { print "old_string is not in the file" > "/dev/stderr"; exit 1 }
  if (count > 1 && ENVIRON["PONS_ALL"] != "1") {
    print "old_string is in the file " count " times; make it longer, or use replace_all" > "/dev/stderr"
    exit 1
  }
  printf "%s", done text
}' "$PONS_FILE" > "$PONS_FILE.pons-edit" && cat "$PONS_FILE.pons-edit" > "$PONS_FILE" && echo 'edited'
status=$?
rm -f "$PONS_FILE.pons-edit"
exit $status
)sh";

Result<MachineCommand> edit(const JsonPlace& place) {
  TRY_VOID(place.expect_object({"file_path", "old_string", "new_string", "replace_all"}));
  std::string path = TRY(needed(place, "file_path"));
  if (path.starts_with('-')) path = "./" + path;
  for (const char* key : {"old_string", "new_string"})
    if (!place.has(key)) return place.refuse(fmt::format("\"{}\" is missing", key));
  const std::string before = TRY(text_at(place, "old_string", kPieceBytesMax));
  const std::string after = TRY(text_at(place, "new_string", kPieceBytesMax));
  if (before.empty()) return place.at("old_string").refuse("is empty");
  if (before == after) return place.refuse("old_string and new_string are the same");
  const bool all = place.has("replace_all") && TRY(place.at("replace_all").flag());
  return MachineCommand{
      .command =
          fmt::format("export PONS_FILE={} PONS_OLD={} PONS_NEW={} PONS_ALL={}{}", shell_word(path),
                      shell_word(before), shell_word(after), all ? 1 : 0, kEdit),
      .input = {},
      .timeout_seconds = kFileSeconds};
}

// As a regular expression of paths: ** is any folders, * is within one, ? is one character.
std::string pattern_as_expression(std::string_view pattern) {
  std::string expression;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (pattern.substr(i, 3) == "**/") {
      expression += "(.*/)?";
      i += 2;
    } else if (pattern.substr(i, 2) == "**") {
      expression += ".*";
      i += 1;
    } else if (c == '*') {
      expression += "[^/]*";
    } else if (c == '?') {
      expression += "[^/]";
    } else {
      if (std::string_view("\\.+^$()[]{}|").find(c) != std::string_view::npos) expression += '\\';
      expression += c;
    }
  }
  return expression;
}

Result<MachineCommand> glob(const JsonPlace& place) {
  TRY_VOID(place.expect_object({"pattern", "path"}));
  std::string pattern = TRY(needed(place, "pattern"));
  std::string folder = place.has("path") ? TRY(needed(place, "path")) : std::string(".");
  // An absolute pattern is looked for in the last folder that it names without a star.
  std::string shown;
  if (pattern.starts_with('/')) {
    const std::size_t star = std::min(pattern.find_first_of("*?"), pattern.size());
    shown = pattern.substr(0, pattern.rfind('/', star) + 1);
    folder = shown;
    pattern.erase(0, shown.size());
  }
  return MachineCommand{
      .command = fmt::format(
          "cd {} && find . \\( -name .git -o -name node_modules \\) -prune -o -type f -print "
          "2>/dev/null | sed 's|^\\./||' | grep -E -- {} | sort | head -n 1000 | "
          "while IFS= read -r found; do printf '%s%s\\n' {} \"$found\"; done",
          path_word(folder), shell_word("^" + pattern_as_expression(pattern) + "$"),
          shell_word(shown)),
      .input = {},
      .timeout_seconds = kFileSeconds};
}

Result<MachineCommand> grep(const JsonPlace& place) {
  TRY_VOID(place.expect_object({"pattern", "path"}));
  const std::string path = place.has("path") ? TRY(needed(place, "path")) : std::string(".");
  return MachineCommand{
      .command = fmt::format("grep -rnIE --exclude-dir=.git --exclude-dir=node_modules -e {} -- {} "
                             "| cut -c 1-500 | head -n 1000",
                             shell_word(TRY(needed(place, "pattern"))), shell_word(path)),
      .input = {},
      .timeout_seconds = kFileSeconds};
}

// Where curl and we could read another host out of it, there is none.
std::optional<std::string_view> host_in(std::string_view url) {
  std::string_view host = url.substr(url.find("://") + 3);
  host = host.substr(0, host.find_first_of("/?#"));
  host = host.substr(0, host.rfind(':'));
  while (host.ends_with('.')) host.remove_suffix(1);
  const bool is_plain = host.find_first_not_of(
                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                            "0123456789-.") == std::string_view::npos;
  if (host.empty() || !is_plain) return std::nullopt;
  return host;
}

bool is_below(std::string_view host, const std::vector<std::string>& hosts) {
  return std::ranges::any_of(hosts, [&](const std::string& wanted) {
    if (host.size() < wanted.size()) return false;
    const std::size_t front = host.size() - wanted.size();
    return equal_ignoring_case(host.substr(front), wanted) &&
           (front == 0 || host[front - 1] == '.');
  });
}

bool names_hosts(const WebRules& rules) {
  return !rules.allowed.empty() || !rules.blocked.empty();
}

Result<void> check_page(const JsonPlace& url, std::string_view text, const WebRules& rules) {
  if (!names_hosts(rules)) return {};
  const auto host = host_in(text);
  if (!host) return url.refuse("has no plain host name, which the rules of this tool are about");
  if (!rules.allowed.empty() && !is_below(*host, rules.allowed))
    return url.refuse(fmt::format("is not of these hosts, which alone may be fetched from: {}",
                                  fmt::join(rules.allowed, ", ")));
  if (is_below(*host, rules.blocked))
    return url.refuse(fmt::format("is of {}, which may not be fetched from", *host));
  return {};
}

// Where hosts are named, a page that sends elsewhere is not followed: the model asks for the other
// one, and that call is judged like this one.
Result<MachineCommand> web_fetch(const JsonPlace& place, const WebRules& rules) {
  TRY_VOID(place.expect_object({"url"}));
  const std::string url = TRY(needed(place, "url"));
  if (!url.starts_with("https://") && !url.starts_with("http://"))
    return place.at("url").refuse("must begin with https:// or http://");
  TRY_VOID(check_page(place.at("url"), url, rules));
  constexpr std::int64_t kBytesPerToken = 4;
  const std::string show =
      rules.tokens_max > 0 ? fmt::format("head -c {}", rules.tokens_max * kBytesPerToken) : "cat";
  return MachineCommand{
      .command = fmt::format(
          "page=$(mktemp) || exit 1\n"
          "other=$(curl -sS {} --globoff --fail-with-body --compressed --proto =http,https "
          "--max-time 50 --max-filesize 10000000 -o \"$page\" -w '%{{redirect_url}}' -- {})\n"
          "status=$?\n"
          "if [ -n \"$other\" ]; then printf '[it sends to %s: fetch that]\\n' \"$other\"; fi\n"
          "{} \"$page\"\nrm -f \"$page\"\nexit \"$status\"",
          names_hosts(rules) ? "--max-redirs 0" : "-L --max-redirs 5", shell_word(url), show),
      .input = {},
      .timeout_seconds = kFileSeconds};
}

using ReadCall = Result<MachineCommand> (*)(const JsonPlace&);
constexpr std::array<ReadCall, kTools.size() - 1> kReaders = {bash, read, write, edit, glob, grep};

}  // namespace

std::span<const MachineTool> machine_tools() {
  return kTools;
}

bool is_machine_tool(std::string_view name) {
  return std::ranges::find(kTools, name, &MachineTool::name) != kTools.end();
}

bool has_machine(const AgentSpec& agent) {
  return !agent.outside && std::ranges::any_of(agent.tools, is_machine_tool);
}

Result<MachineCommand> read_machine_call(std::string_view name, std::string_view input,
                                         const WebRules& web) {
  const auto tool = std::ranges::find(kTools, name, &MachineTool::name);
  const auto json = parse_json(input);
  if (tool == kTools.end() || !json)
    return make_error(ErrorCode::kInvalid, "read arguments", "they are no JSON object");
  const JsonPlace place{.value = *json, .pointer = {}};
  const auto index = static_cast<std::size_t>(tool - kTools.begin());
  return index < kReaders.size() ? kReaders[index](place) : web_fetch(place, web);
}

void use_own_shell(MachineCommand& command, std::string_view name) {
  command.command = fmt::format("PONS_SHELL=-{}\n{}", name, command.command);
}

ToolText describe_machine(std::string_view name, ExecuteReport report) {
  const bool is_plain_end =
      report.end == ExecuteReport::End::kExit && report.lost_bytes == 0 && report.note.empty();
  if (name == "bash" || !is_plain_end) return describe(std::move(report));
  const bool found_nothing =
      (name == "grep" || name == "glob") && report.output.empty() && report.code <= 1;
  if (found_nothing) return describe(std::string("nothing matches"), false);
  return describe(std::move(report.output), report.code != 0);
}

}  // namespace pons::session
