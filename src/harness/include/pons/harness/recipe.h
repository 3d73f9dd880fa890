#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/harness/adapter.h"

// How a harness is installed and started, as data: those that Pons knows, and those that an
// operator describes in the same words.

namespace pons::harness {

// Where a harness lives: beside the brain, with no tools but those of Pons, or in the sandbox of
// its task, with its own.
enum class Placement : std::uint8_t { kBrain, kSandbox };
Result<Placement> read_placement(std::string_view word);
std::string_view name_of(Placement placement);

struct Package {
  std::string name;  // in the npm registry
  std::string version;
  std::string integrity;  // "sha512-…" of its archive
  // Of its files these, or, with a slash at the end, all below; and its licence and package.json.
  // Empty: all.
  std::vector<std::string> keep;
};

// In texts, {word} stands for a value of Places, or for one of `words`.
struct Launch {
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;
  std::map<std::string, std::string> files;  // by path
  std::vector<std::string> removes;          // paths of what it would obey, whoever wrote it
  std::map<std::string, std::string> words;
};

struct Recipe {
  std::string name;
  Protocol protocol = Protocol::kAcp;
  std::string licence;
  std::vector<Package> packages;
  std::string program;  // below where the packages are installed
  std::string script;   // its first argument, likewise; may be empty
  // Whether it asks for tools of ours over its standard streams, or by MCP.
  enum class Tools : std::uint8_t { kStreams, kMcp } tools = Tools::kMcp;
  // Who names a conversation.
  enum class Names : std::uint8_t { kOurs, kTheirs } session_names = Names::kTheirs;
  std::uint64_t memory_bytes = 0;
  std::string model_prefix;           // of the names that it is told for models
  std::vector<Placement> placements;  // for which it says how; none: it is the same in both
  Launch always;
  std::vector<std::string> arguments_new;     // of a new conversation
  std::vector<std::string> arguments_resume;  // of one that goes on
  Launch brain;
  Launch sandbox;

  bool lives_in(Placement placement) const;
  // For people: the version that was tested.
  const std::string& version() const { return packages.front().version; }
};

// {NAME: {…}, …}; every refusal names its place. `from` is for messages.
Result<std::vector<Recipe>> read_recipes(std::string_view json, std::string_view from);
const std::vector<Recipe>& known_recipes();

// What a start needs to know. None of it may hold characters that mean something in the files of a
// recipe.
struct Places {
  std::string directory;  // where the packages are installed
  std::string home;
  std::string model;
  std::string gateway;  // URL without a slash at its end
  std::string tools;    // URL
  std::string key;      // for both of them
  std::string session;  // of a conversation that goes on, or that we name
  bool resumes = false;
};

struct Start {
  std::string program;
  std::vector<std::string> arguments;  // with the program's own name
  std::map<std::string, std::string> environment;
  std::vector<std::string> removes;  // before the files are written
  std::map<std::string, std::string> files;
};
Result<Start> plan_start(const Recipe& recipe, Placement placement, const Places& places);

}  // namespace pons::harness
