#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "file_copier.h"
#include "help.h"
#include "pons/base/text.h"
#include "sandbox_session.h"
#include "terminal.h"

namespace pons::cli {

namespace {

constexpr int kUsageError = 2;
constexpr std::size_t kIdBytesMax = 64;

// "ID:PATH" or a local path.
struct Place {
  std::string sandbox;  // empty: here
  std::string path;

  static Place parse(const std::string& text) {
    const auto colon = text.find(':');
    const std::string id = text.substr(0, colon);
    const bool is_id =
        !id.empty() && id.size() <= kIdBytesMax && std::ranges::all_of(id, [](char c) {
          return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
        });
    if (colon == std::string::npos || !is_id) return {.sandbox = {}, .path = text};
    const std::string path = text.substr(colon + 1);
    return {.sandbox = id, .path = path.empty() ? "." : path};
  }
};

struct Options {
  std::string from;
  std::string to;
  std::string user;
  bool recursive = false;
};

// The last name of a path, for use below a directory; kInvalid where there is none to be had.
Result<std::string> last_name(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  std::string name = path.substr(path.rfind('/') + 1);
  if (name.empty() || name == "." || name == "..")
    return make_error(ErrorCode::kInvalid, "copy files",
                      fmt::format("{} has no name of its own; name the target in full", path));
  return name;
}

bool is_local_directory(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

Error needs_recursion(const std::string& path) {
  return make_error(ErrorCode::kInvalid, "copy files",
                    fmt::format("{} is a directory; copy it with -r", path));
}

Task<Result<void>> upload(Session& session, FileCopier& copier, const Options& options, Place to) {
  if (options.from == "-") {
    CO_TRY(auto input, linux::duplicate(STDIN_FILENO));
    co_return co_await copier.upload_file(std::move(input), to.path);
  }
  const auto there = co_await session.provider.stat_file(to.sandbox, to.path, options.user);
  if (!there && there.error().code != ErrorCode::kNotFound) co_return there.error();
  if (to.path.ends_with('/') || (there && there->kind == sandbox::FileKind::kDirectory)) {
    CO_TRY(const std::string name, last_name(options.from));
    to.path += (to.path.ends_with('/') ? "" : "/") + name;
  }
  if (is_local_directory(options.from)) {
    if (!options.recursive) co_return needs_recursion(options.from);
    co_return co_await copier.upload_tree(options.from, to.path);
  }
  CO_TRY(auto file, linux::open_file(options.from, O_RDONLY));
  co_return co_await copier.upload_file(std::move(file), to.path);
}

Task<Result<void>> download(Session& session, FileCopier& copier, const Options& options,
                            Place from) {
  if (options.to == "-") co_return co_await copier.download_file(from.path, STDOUT_FILENO);
  CO_TRY(const auto there,
         co_await session.provider.stat_file(from.sandbox, from.path, options.user));
  std::string to = options.to;
  if (is_local_directory(to)) {
    CO_TRY(const std::string name, last_name(from.path));
    to += (to.ends_with('/') ? "" : "/") + name;
  }
  if (there.kind == sandbox::FileKind::kDirectory) {
    if (!options.recursive) co_return needs_recursion(from.path);
    co_return co_await copier.download_tree(from.path, to);
  }
  CO_TRY(auto file, linux::open_file(to, O_WRONLY | O_CREAT | O_TRUNC, there.mode & 0755U));
  co_return co_await copier.download_file(from.path, file.get());
}

Task<Result<int>> copy(Session& session, const Options& options) {
  const Place from = Place::parse(options.from);
  const Place to = Place::parse(options.to);
  FileCopier copier(session, from.sandbox + to.sandbox, options.user);
  auto done = from.sandbox.empty() ? co_await upload(session, copier, options, to)
                                   : co_await download(session, copier, options, from);
  copier.end_progress();
  if (!done) co_return std::move(done).error();
  const CopyCount& count = copier.count();
  if (session.common.json && options.to != "-") {
    print_json({{"files", count.files}, {"bytes", count.bytes}, {"skipped", count.skipped}});
  } else if (!session.common.json) {
    fmt::print(stderr, "{} {}, {}{}\n", count.files, count.files == 1 ? "file" : "files",
               human_bytes(count.bytes),
               count.skipped == 0
                   ? ""
                   : fmt::format("; {} skipped (links and special files)", count.skipped));
  }
  co_return 0;
}

}  // namespace

void add_sandbox_cp(CLI::App& group, Common& common, int& exit_code) {
  CLI::App* command = group.add_subcommand("cp", "Copy files into or out of a sandbox");
  auto options = std::make_shared<Options>();
  explain(
      *command,
      "Copies a file, or with -r a directory. One of the two is SANDBOX:PATH; the other is a path "
      "here, or - for standard\n"
      "input or output. A relative PATH counts from the user's home inside. Links and special "
      "files in directories are\n"
      "skipped, and nothing is written outside of the target.");
  command->add_option("FROM", options->from, "FILE or SANDBOX:PATH")->required();
  command->add_option("TO", options->to, "FILE or SANDBOX:PATH")->required();
  command->add_flag("-r,--recursive", options->recursive,
                    "Copy directories with all that is in them");
  command->add_option("-u,--user", options->user, "User inside (default: the template's)")
      ->type_name("NAME");
  add_session_options(*command, common);
  command->footer(
      "EXAMPLES\n"
      "  pons sandbox cp data.csv work:/tmp/\n"
      "  pons sandbox cp -r work:results .\n"
      "  tar c src | pons sandbox cp - work:src.tar\n"
      "  pons sandbox cp work:/etc/os-release - | head -1\n"
      "  pons sandbox cp ./odd:name work:name            a local name with a colon");
  command->callback([&common, &exit_code, options] {
    if (Place::parse(options->from).sandbox.empty() == Place::parse(options->to).sandbox.empty()) {
      print_error("one of the two, and only one, must be SANDBOX:PATH");
      exit_code = kUsageError;
      return;
    }
    exit_code = run_session(common, [options](Session& s) { return copy(s, *options); });
  });
}

}  // namespace pons::cli
