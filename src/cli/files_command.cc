#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "agent_commands.h"
#include "file_words.h"
#include "new_file.h"
#include "pages.h"
#include "pons/base/id.h"
#include "pons/base/text.h"
#include "pons/http/client.h"
#include "pons/http/error_status.h"
#include "pons/http/query.h"
#include "pons/linux/fd.h"
#include "pons/linux/loop.h"
#include "pons/linux/run_task.h"
#include "pons/supervisor/supervisor.h"
#include "progress_bar.h"
#include "sandbox_options.h"
#include "state_commands.h"
#include "terminal.h"

// Files of a project: what sessions are given on their machines, and what they have made.

namespace pons::cli {

namespace {

constexpr std::size_t kAnswerBytesMax = 64 * 1024;
constexpr std::size_t kPieceBytes = 256 * 1024;
// Smaller ones are there before a person would look.
constexpr std::uint64_t kShownFrom = 8 << 20;
constexpr const char* kStandard = "-";

struct Words {
  std::string project = "default";
  std::string file;
  std::string to = kStandard;
  std::string name;
  std::string type = "application/octet-stream";
  std::string expires;
  std::string session;
  std::string id;
  std::vector<std::string> ids;  // to delete
};

std::string target_of(const Words& words, const std::string& rest = {}) {
  return fmt::format("/v1/files{}?project={}", rest, http::percent_encode(words.project));
}

std::string below(const std::string& id, const char* rest = "") {
  return fmt::format("/{}{}", http::percent_encode(id), rest);
}

// For what is too large for one piece.
struct Line {
  std::unique_ptr<linux::Loop> loop;
  std::unique_ptr<http::Client> client;
};
Result<Line> open_line(const std::string& state_dir) {
  TRY_VOID(
      ask_text(state_dir, "brain", "GET", "/healthz"));  // says what to do when Pons is not running
  Line line{.loop = TRY(linux::Loop::create()), .client = nullptr};
  line.client = std::make_unique<http::Client>(
      *line.loop,
      http::unix_connector(*line.loop, supervisor::control_socket_path(state_dir, "brain")),
      "pons");
  return line;
}

class Shown {
 public:
  Shown(const char* what, const std::string& name, std::uint64_t total)
      : what_(what), total_(total) {
    if (total == 0 || total >= kShownFrom) bar_.emplace(name);
  }
  void add(std::uint64_t bytes) {
    done_ += bytes;
    if (bar_) bar_->show({.what = what_, .done = done_, .total = total_});
  }
  std::uint64_t done() const { return done_; }

 private:
  const char* what_;
  std::uint64_t total_;  // 0: nobody knows
  std::uint64_t done_ = 0;
  std::optional<ProgressBar> bar_;
};

// ---- ls

Result<int> list(const std::string& state_dir, const Common& common, const Words& words) {
  std::string target = target_of(words) + "&limit=1000";
  if (!words.session.empty()) target += "&scope_id=" + http::percent_encode(words.session);
  const auto files = TRY(ask_pages(state_dir, target));
  if (common.json) {
    fmt::print("{}\n", dump_json({{"data", files}}));
    return 0;
  }
  std::vector<std::vector<Cell>> rows = {{{"ID", Tone::kDim},
                                          {"NAME", Tone::kDim},
                                          {"SIZE", Tone::kDim},
                                          {"TYPE", Tone::kDim},
                                          {"CREATED", Tone::kDim},
                                          {"EXPIRES", Tone::kDim}}};
  for (const Json& file : files)
    rows.push_back(
        {file.at("id").get<std::string>(), file.at("filename").get<std::string>(),
         human_bytes(file.at("size_bytes").get<std::uint64_t>()),
         file.at("mime_type").get<std::string>(), file.at("created_at").get<std::string>(),
         file.at("expires_at").is_null() ? "-" : file.at("expires_at").get<std::string>()});
  print_table(rows);
  return 0;
}

// ---- put

// What is sent: a form whose one long part is the file.
struct Sent {
  linux::UniqueFd file;
  std::optional<std::uint64_t> bytes;  // of it; nothing: a pipe, which is sent to its end
  std::string before;
  std::string behind;
};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

bool is_plain(std::string_view text) {
  return is_valid_utf8(text) &&
         std::ranges::all_of(text, [](unsigned char c) { return c >= 0x20 && c != 0x7F; });
}

Result<std::string> read_expiry(const std::string& text) {
  const auto time = parse_duration(text);
  if (!time || *time < std::chrono::seconds(1))
    return make_error(ErrorCode::kInvalid, "read words",
                      "--expires is a time such as 12h, from an hour to 90 days");
  return fmt::format("{}", std::chrono::duration_cast<std::chrono::seconds>(*time).count());
}

Result<Sent> prepare(const Words& words, const std::string& boundary) {
  Sent sent;
  const bool is_standard = words.file == kStandard;
  sent.file = is_standard ? linux::UniqueFd(dup(STDIN_FILENO))
                          : TRY(linux::open_file(words.file, O_RDONLY));
  struct stat status{};
  if (!sent.file || fstat(sent.file.get(), &status) != 0) return os_error("read file", words.file);
  if (S_ISDIR(status.st_mode))
    return make_error(ErrorCode::kInvalid, "read file", words.file + " is a directory");
  if (S_ISREG(status.st_mode) && !is_standard)
    sent.bytes = static_cast<std::uint64_t>(status.st_size);
  const std::string name = !words.name.empty() ? words.name
                           : is_standard       ? "stdin"
                                         : std::filesystem::path(words.file).filename().string();
  if (!is_plain(name) || !is_plain(words.type))
    return make_error(ErrorCode::kInvalid, "read words",
                      "a name and a type are one line of text: say another one with --name");
  if (!words.expires.empty())
    sent.before = fmt::format(
        "--{}\r\nContent-Disposition: form-data; name=\"expires_in_seconds\"\r\n\r\n{}\r\n",
        boundary, TRY(read_expiry(words.expires)));
  sent.before += fmt::format(
      "--{}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{}\"\r\n"
      "Content-Type: {}\r\n\r\n",
      boundary, escaped(name), words.type);
  sent.behind = fmt::format("\r\n--{}--\r\n", boundary);
  return sent;
}

// The form, piece by piece. A file that grows meanwhile is sent as long as it was.
class FormSource {
 public:
  FormSource(Sent& sent, Shown& shown) : sent_(sent), shown_(shown) {}

  Task<Result<std::string_view>> next() {
    if (!std::exchange(has_begun_, true)) co_return std::string_view(sent_.before);
    if (!is_file_over_) {
      CO_TRY(const auto piece, read_piece());
      if (!piece.empty()) co_return piece;
      is_file_over_ = true;
      co_return std::string_view(sent_.behind);
    }
    co_return std::string_view();
  }

 private:
  Result<std::string_view> read_piece() {
    std::uint64_t most = buffer_.size();
    if (sent_.bytes) most = std::min(most, *sent_.bytes - shown_.done());
    if (most == 0) return std::string_view();
    ssize_t got = -1;
    do got = read(sent_.file.get(), buffer_.data(), most);
    while (got < 0 && errno == EINTR);
    if (got < 0) return os_error("read file");
    if (got == 0 && sent_.bytes)
      return make_error(ErrorCode::kIo, "read file", "it has become shorter meanwhile");
    shown_.add(static_cast<std::uint64_t>(got));
    return std::string_view(buffer_.data(), static_cast<std::size_t>(got));
  }

  Sent& sent_;
  Shown& shown_;
  std::vector<char> buffer_ = std::vector<char>(kPieceBytes);
  bool has_begun_ = false;
  bool is_file_over_ = false;
};

Task<Result<Json>> upload(http::Client& client, std::string target, std::string boundary,
                          Sent& sent, std::string name) {
  Shown shown("sending it", name, sent.bytes.value_or(0));
  FormSource source(sent, shown);
  http::ClientRequest request{
      .method = "POST",
      .target = std::move(target),
      .fields = {{"content-type", "multipart/form-data; boundary=" + boundary}},
      .body_source = [&source] { return source.next(); }};
  if (sent.bytes) request.body_bytes = sent.before.size() + *sent.bytes + sent.behind.size();
  CO_TRY(auto response, co_await client.send(std::move(request)));
  CO_TRY(const auto body, co_await response.read_whole_body(kAnswerBytesMax));
  if (response.status() != 200) co_return http::error_of("put file", response.status(), body);
  co_return parse_json(body);
}

Result<int> put(const std::string& state_dir, const Common& common, const Words& words) {
  const std::string boundary = "pons-" + random_text(32);
  Sent sent = TRY(prepare(words, boundary));
  const Line line = TRY(open_line(state_dir));
  const Json file = TRY(linux::run_to_end(
      *line.loop, upload(*line.client, target_of(words), boundary, sent, words.file)));
  if (common.json)
    fmt::print("{}\n", dump_json(file));
  else
    fmt::print("{}\n", printable(file.at("id").get<std::string>()));
  return 0;
}

// ---- get

Task<Result<std::uint64_t>> fetch(http::Client& client, std::string target, int to,
                                  std::string name) {
  CO_TRY(auto response, co_await client.send({.target = std::move(target)}));
  if (response.status() != 200) {
    CO_TRY(const auto body, co_await response.read_whole_body(kAnswerBytesMax));
    co_return http::error_of("get file", response.status(), body);
  }
  const auto total = parse_decimal(response.find("Content-Length").value_or("")).value_or(0);
  Shown shown("fetching it", name, std::max<std::uint64_t>(total, 1));
  for (;;) {
    CO_TRY(const auto piece, co_await response.read_body());
    if (piece.empty()) co_return shown.done();
    CO_TRY_VOID(linux::write_all(to, piece));
    shown.add(piece.size());
  }
}

Result<int> get(const std::string& state_dir, const Common& common, const Words& words) {
  const std::string target = target_of(words, below(words.id, "/content"));
  if (words.to == kStandard) {
    if (isatty(STDOUT_FILENO) == 1)
      return make_error(ErrorCode::kInvalid, "get file",
                        "say where to: this terminal would show whatever is in it");
    const Line line = TRY(open_line(state_dir));
    (void)TRY(linux::run_to_end(*line.loop, fetch(*line.client, target, STDOUT_FILENO, words.id)));
    return 0;
  }
  if (access(words.to.c_str(), F_OK) == 0) return exists_already(words.to);
  const Line line = TRY(open_line(state_dir));
  NewFile file(words.to);
  const auto out = TRY(file.open());
  const std::uint64_t bytes =
      TRY(linux::run_to_end(*line.loop, fetch(*line.client, target, out.get(), words.id)));
  if (fsync(out.get()) != 0) return os_error("get file", words.to);
  TRY_VOID(file.name());
  if (common.json)
    fmt::print("{}\n", dump_json({{"file", words.to}, {"bytes", bytes}}));
  else
    fmt::print("{}: {}\n", printable(words.to), human_bytes(bytes));
  return 0;
}

// ---- rm

Result<int> remove(const std::string& state_dir, const Common&, const Words& words) {
  for (const std::string& id : words.ids)
    TRY(ask(state_dir, "brain", "DELETE", target_of(words, below(id))));
  return 0;
}

}  // namespace

void add_files(CLI::App& app, Common& common, int& exit_code) {
  StateCommands<Words> commands(app, common, exit_code, "files",
                                "Keep files for sessions, and get what they have made");
  Words& words = commands.words();
  const auto of_project = [&words](CLI::App* command) {
    command->add_option("--project", words.project, "Id of the project (default: default)");
    return command;
  };
  of_project(commands.add("ls", "List files", "Newest first.", list))
      ->add_option("--session", words.session, "Only those that this session has made");
  CLI::App* to_put = of_project(commands.add(
      "put", "Keep a file",
      "Prints its id, by which sessions are given it (`resources` of the Managed Agents API).",
      put));
  to_put->add_option("FILE", words.file, "The file; - is standard input")
      ->required()
      ->type_name(kFile);
  to_put->add_option("--name", words.name, "What it is called (default: the name of FILE)");
  to_put->add_option("--type", words.type, "Its media type (default: application/octet-stream)");
  to_put->add_option("--expires", words.expires,
                     "After this time it is gone: 1h to 90d (default: never)");
  CLI::App* to_get = of_project(commands.add(
      "get", "Get a file", "To TO, which must not exist, or to standard output.", get));
  to_get->add_option("ID", words.id, "Id of the file")->required();
  to_get->add_option("TO", words.to, "Where to (default: -, standard output)")->type_name(kFile);
  of_project(commands.add("rm", "Delete files", "Sessions that have them keep their copies.",
                          remove, Prints::kText))
      ->add_option("ID", words.ids, "Ids of the files")
      ->required();
  commands.group().footer(
      "EXAMPLES\n"
      "  pons files put data.csv --type text/csv\n"
      "  tar c src | pons files put - --name src.tar --expires 7d\n"
      "  pons files get file_011… data.csv");
}

}  // namespace pons::cli
