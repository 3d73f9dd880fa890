#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "agent_commands.h"
#include "command.h"
#include "pages.h"
#include "pons/http/query.h"
#include "terminal.h"

namespace pons::cli {

namespace {

struct Words {
  std::string project = "default";
  std::string store;
  std::string path;
  std::string text;
  std::vector<std::string> stores;
  int limit = 10;
  bool off = false;
};

using State = const std::string&;

// Of the operator, for a project.
Result<Json> ask_brain(State dir, const Words& words, const char* method, const std::string& target,
                       const Json* body = nullptr) {
  const char separator = target.find('?') == std::string::npos ? '?' : '&';
  return ask(dir, "brain", method,
             fmt::format("{}{}project={}", target, separator, http::percent_encode(words.project)),
             body == nullptr ? std::string() : dump_json(*body));
}

Result<std::vector<Json>> list_all(State dir, const Words& words, const std::string& target) {
  return ask_pages(dir, fmt::format("{}&project={}", target, http::percent_encode(words.project)));
}

// By its id, or by a name that only one has.
Result<std::string> find_store(State dir, const Words& words, const std::string& named) {
  std::vector<std::string> found;
  for (const Json& store :
       TRY(list_all(dir, words, "/v1/memory_stores?limit=100&include_archived=true")))
    if (store.at("id") == named || store.at("name") == named)
      found.push_back(store.at("id").get<std::string>());
  if (found.size() == 1) return found.front();
  return make_error(found.empty() ? ErrorCode::kNotFound : ErrorCode::kInvalid, "find memory store",
                    found.empty()
                        ? fmt::format("there is no memory store \"{}\"", named)
                        : fmt::format("several memory stores are called \"{}\": say which "
                                      "by its id: {}",
                                      named, fmt::join(found, ", ")));
}

struct Note {
  std::string store;
  std::string id;
};
Result<Note> find_note(State dir, const Words& words) {
  Note note{.store = TRY(find_store(dir, words, words.store)), .id = {}};
  const std::string folder = words.path.substr(0, words.path.rfind('/') + 1);
  if (folder.empty())
    return make_error(ErrorCode::kInvalid, "find note", "the path of a note begins with /");
  for (const Json& each :
       TRY(list_all(dir, words,
                    fmt::format("/v1/memory_stores/{}/memories?limit=100&depth=1&path_prefix={}",
                                note.store, http::percent_encode(folder)))))
    if (each.at("type") == "memory" && each.at("path") == words.path) note.id = each.at("id");
  if (note.id.empty())
    return make_error(ErrorCode::kNotFound, "find note",
                      fmt::format("there is no note {} in this store", words.path));
  return note;
}

Result<Json> read_note(State dir, const Words& words, const Note& note) {
  return ask_brain(dir, words, "GET",
                   fmt::format("/memory/stores/{}/notes/{}", note.store, note.id));
}

void print_json(const Json& json) {
  fmt::print("{}\n", dump_json(json));
}

Result<int> list_stores(State dir, const Common& common, const Words& words) {
  const auto stores = TRY(list_all(dir, words, "/v1/memory_stores?limit=100"));
  if (common.json) {
    print_json(Json(stores));
    return 0;
  }
  std::vector<std::vector<Cell>> rows = {
      {{"STORE", Tone::kDim}, {"NAME", Tone::kDim}, {"DESCRIPTION", Tone::kDim}}};
  for (const Json& store : stores)
    rows.push_back({store.at("id").get<std::string>(), store.at("name").get<std::string>(),
                    store.at("description").get<std::string>()});
  print_table(rows);
  return 0;
}

Result<int> list_notes(State dir, const Common& common, const Words& words) {
  if (words.store.empty()) return list_stores(dir, common, words);
  const std::string store = TRY(find_store(dir, words, words.store));
  const std::string prefix = words.path.empty() ? "/" : words.path;
  const auto notes =
      TRY(list_all(dir, words,
                   fmt::format("/v1/memory_stores/{}/memories?limit=100&depth=0&path_prefix={}",
                               store, http::percent_encode(prefix))));
  if (common.json) {
    print_json(Json(notes));
    return 0;
  }
  std::vector<std::vector<Cell>> rows = {
      {{"PATH", Tone::kDim}, {"BYTES", Tone::kDim}, {"CHANGED", Tone::kDim}}};
  for (const Json& note : notes)
    rows.push_back({note.at("path").get<std::string>(),
                    fmt::format("{}", note.at("content_size_bytes").get<std::int64_t>()),
                    note.at("updated_at").get<std::string>()});
  print_table(rows);
  return 0;
}

Result<int> show(State dir, const Common& common, const Words& words) {
  const Note found = TRY(find_note(dir, words));
  const Json note = TRY(read_note(dir, words, found));
  if (common.json) {
    print_json(note);
    return 0;
  }
  fmt::print(
      "{}  [{}{}; used {} times; sha256 {}]\n\n{}\n", printable(note.at("path").get<std::string>()),
      note.at("provenance").get<std::string>(), note.at("pinned").get<bool>() ? "; pinned" : "",
      note.at("uses").get<std::int64_t>(), note.at("content_sha256").get<std::string>(),
      printable(note.at("content").get<std::string>(), LineFeeds::kKept));
  return 0;
}

Result<int> search(State dir, const Common& common, const Words& words) {
  Json body = {{"query", words.text}, {"limit", words.limit}};
  for (const std::string& store : words.stores)
    body["stores"].push_back(TRY(find_store(dir, words, store)));
  const Json answer = TRY(ask_brain(dir, words, "POST", "/memory/search", &body));
  if (common.json) {
    print_json(answer);
    return 0;
  }
  for (const Json& hit : answer.at("hits"))
    fmt::print("{} {}  [{}]\n    {}\n", hit.at("memory_store_id").get<std::string>(),
               printable(hit.at("path").get<std::string>()),
               hit.at("provenance").get<std::string>(),
               printable(hit.at("snippet").get<std::string>()));
  if (answer.at("hits").empty()) fmt::print("no note matches\n");
  return 0;
}

Result<int> remove(State dir, const Words& words) {
  const Note note = TRY(find_note(dir, words));
  TRY_VOID(ask_brain(dir, words, "DELETE",
                     fmt::format("/v1/memory_stores/{}/memories/{}", note.store, note.id)));
  return 0;
}

Result<int> mark(State dir, const Words& words, const Json& marks) {
  const Note note = TRY(find_note(dir, words));
  TRY_VOID(ask_brain(dir, words, "POST",
                     fmt::format("/memory/stores/{}/notes/{}/marks", note.store, note.id), &marks));
  return 0;
}

}  // namespace

void add_memory(CLI::App& app, Common& common, int& exit_code) {
  CLI::App* group = app.add_subcommand("memory", "Look at what agents remember, and correct it");
  group->require_subcommand(1);
  const auto words = std::make_shared<Words>();
  const auto add = [&](const char* name, const char* summary, const char* text, Prints prints,
                       std::function<Result<int>(State)> work) {
    CLI::App* command =
        add_state_command(*group, common, exit_code, name, summary, text, prints, std::move(work));
    command->add_option("--project", words->project, "Id of the project (default: default)");
    return command;
  };
  const auto of_note = [&](CLI::App* command) {
    command->add_option("STORE", words->store, "Name or id of the memory store")->required();
    command->add_option("PATH", words->path, "Of the note, such as /people/ada.md")->required();
    return command;
  };
  CLI::App* ls =
      add("ls", "List memory stores, or the notes of one",
          "Without a store, all stores of the project; with one, its notes.", Prints::kData,
          [&common, words](State dir) { return list_notes(dir, common, *words); });
  ls->add_option("STORE", words->store, "Name or id of a memory store");
  ls->add_option("--prefix", words->path, "Only notes below this folder: /people/");
  of_note(add("show", "Show a note", "Its text, whose words it holds, and whether it is pinned.",
              Prints::kData, [&common, words](State dir) { return show(dir, common, *words); }));
  CLI::App* to_search = add("search", "Find notes by their words",
                            "Those with all words first, then those with some.", Prints::kData,
                            [&common, words](State dir) { return search(dir, common, *words); });
  to_search->add_option("WORDS", words->text)->required();
  to_search->add_option("--store", words->stores, "Name or id; may be repeated (default: all)");
  to_search->add_option("--limit", words->limit, "At most so many (default: 10)")
      ->check(CLI::Range(1, 50));
  of_note(add("rm", "Delete a note", "Its versions stay until they are redacted.", Prints::kText,
              [words](State dir) { return remove(dir, *words); }));
  of_note(add("pin", "Put a note before every session that has the store",
              "Pinned notes come first in what a session begins with. An untrusted note is never "
              "among them: `pons memory trust`.",
              Prints::kText,
              [words](State dir) { return mark(dir, *words, {{"pinned", !words->off}}); }))
      ->add_flag("--off", words->off, "Take the pin out again");
  of_note(add("trust", "Say that a note may be believed",
              "You have read it: from now on it counts as a person's words, and sessions may begin "
              "with it.",
              Prints::kText,
              [words](State dir) {
                return mark(dir, *words, {{"provenance", words->off ? "untrusted" : "human"}});
              }))
      ->add_flag("--off", words->off, "Say that it may not: it counts as words from outside");
}

}  // namespace pons::cli
