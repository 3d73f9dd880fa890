#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <deque>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "command.h"
#include "help.h"
#include "local_terminal.h"
#include "pons/base/secret.h"
#include "pons/base/text.h"
#include "pons/http/client.h"
#include "pons/http/head.h"
#include "pons/linux/fd.h"
#include "pons/linux/run_task.h"
#include "pons/linux/signals.h"
#include "pons/mcp/bridge.h"
#include "server_url.h"
#include "terminal.h"

namespace pons::cli {

namespace {

constexpr std::size_t kLineBytesMax = mcp::kMessageBytesMax;
constexpr std::size_t kInputPiece = 64 * 1024;
constexpr std::size_t kKeyBytesMax = 4'096;
// What is still under way when the program has said its last word.
constexpr Duration kPartingTime = std::chrono::seconds(10);

struct Words {
  std::string url;
  std::string key_file;
};

Result<Secret> find_key(const Words& words) {
  const char* variable = std::getenv("PONS_API_KEY");
  std::string text = variable == nullptr ? "" : variable;
  if (!words.key_file.empty()) text = TRY(linux::read_file(words.key_file, kKeyBytesMax));
  std::string key(trim(text));
  wipe(text.data(), text.size());
  if (!key.empty() && key.size() <= kKeyBytesMax && http::is_field_value(key))
    return Secret(std::move(key));
  return make_error(ErrorCode::kInvalid, "find key",
                    "an API key is needed: set PONS_API_KEY, or name a file with --key-file; "
                    "`pons key create NAME --scope mcp` makes one");
}

// Answers in the order in which they came, written by one who waits for room.
class LineWriter {
 public:
  explicit LineWriter(linux::Loop& loop) : output_(loop, STDOUT_FILENO), more_(loop), idle_(loop) {
    idle_.set();
  }

  void add(std::string line) {
    lines_.push_back(std::move(line) + "\n");
    idle_.reset();
    more_.set();
  }

  // Ends when nobody reads any more.
  Task<> write_all(linux::Event& over) {
    for (;;) {
      co_await more_.wait(kNever);
      more_.reset();
      while (!lines_.empty()) {
        const std::string line = std::move(lines_.front());
        lines_.pop_front();
        if (!co_await output_.write(line)) co_return over.set();
      }
      idle_.set();
    }
  }
  auto wait_until_written(TimePoint deadline) { return idle_.wait(deadline); }

 private:
  StandardStream output_;
  std::deque<std::string> lines_;
  linux::Event more_;
  linux::Event idle_;
};

// Reads lines until there are none, or the program does not keep to what a line may be.
Task<> read_lines(linux::Loop& loop, mcp::Bridge& bridge, linux::Event& over) {
  StandardStream input(loop, STDIN_FILENO);
  std::string text;
  for (;;) {
    const auto bytes = co_await input.read(kInputPiece);
    if (!bytes || bytes->empty()) break;
    text += *bytes;
    std::size_t begin = 0;
    for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
      co_await bridge.take(text.substr(begin, end - begin));
    text.erase(0, begin);
    if (text.size() > kLineBytesMax) {
      print_error(fmt::format("a line has more than {}", human_bytes(kLineBytesMax)));
      break;
    }
  }
  over.set();
}

Task<> heed_signals(linux::Loop& loop, linux::SignalFd& signals, linux::Event& over) {
  auto watch = linux::Watch::create(loop, signals.fd());
  while (watch && !signals.take()) co_await watch->readable(kNever);
  over.set();
}

Task<Result<void>> carry(linux::Loop& loop, http::Client& client, const ServerUrl& url,
                         const Secret& key, linux::SignalFd& signals) {
  LineWriter writer(loop);
  mcp::Bridge bridge(
      loop, client, url.path,
      {{"authorization", fmt::format("Bearer {}", key.reveal())}, {"user-agent", "pons-mcp"}},
      [&writer](std::string line) { writer.add(std::move(line)); });
  linux::Event over(loop);
  linux::TaskGroup tasks(loop);
  tasks.spawn(writer.write_all(over));
  tasks.spawn(read_lines(loop, bridge, over));
  tasks.spawn(heed_signals(loop, signals, over));
  co_await over.wait(kNever);
  co_await bridge.finish(loop.now() + kPartingTime);
  co_await writer.wait_until_written(loop.now() + kPartingTime);
  co_return {};
}

Result<int> run_bridge(const Words& words) {
  const Secret key = TRY(find_key(words));
  const char* variable = std::getenv("PONS_URL");
  const std::string given = !words.url.empty()    ? words.url
                            : variable != nullptr ? variable
                                                  : "http://127.0.0.1:7600/mcp";
  const ServerUrl url = TRY(read_server_url(given, "/mcp"));
  auto signals = TRY(linux::SignalFd::create({SIGINT, SIGTERM}));
  const auto loop = TRY(linux::Loop::create());
  const auto connector = TRY(connector_to(*loop, url));
  // Commands may run for a day; the server says now and then that it is still there.
  http::Client client(*loop, connector, url.authority, {.idle_connections = 16});
  TRY_VOID(linux::run_to_end(*loop, carry(*loop, client, url, key, signals)));
  return 0;
}

}  // namespace

void add_mcp(CLI::App& app, int& exit_code) {
  const auto words = std::make_shared<Words>();
  CLI::App* command =
      app.add_subcommand("mcp", "Connect a program that speaks MCP over its standard streams");
  explain(*command,
          "Reads messages of the Model Context Protocol from standard input, one to a line, gives "
          "them to the server's /mcp, and\nwrites its answers to standard output: for desktop "
          "clients, which start this as their server. Ends with its input.");
  command->add_option("--url", words->url,
                      "Of the server (default: PONS_URL, or http://127.0.0.1:7600/mcp)");
  command->add_option("--key-file", words->key_file,
                      "A file that holds the API key (default: the variable PONS_API_KEY)");
  command->footer(
      "EXAMPLES\n"
      "  {\"mcpServers\": {\"pons\": {\"command\": \"pons\", \"args\": [\"mcp\"], \"env\": "
      "{\"PONS_API_KEY\": \"pons_…\"}}}}\n"
      "\n"
      "EXIT STATUS\n  0 the program has left; 1 there is no key, or the server cannot be named.");
  command->callback([command, words, &exit_code] {
    if (!command->get_subcommands().empty()) return;
    linux::ignore_sigpipe();
    const auto done = run_bridge(*words);
    exit_code = done ? *done : 1;
    if (!done)
      print_error(done.error().message.empty() ? done.error().describe() : done.error().message);
  });
}

}  // namespace pons::cli
