#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "pons/base/result.h"

// The tools by which an agent uses its memory: what the model is told of them, and how its
// arguments are read.

namespace pons::memory {

inline constexpr std::string_view kSearchTool = "memory_search";
inline constexpr std::string_view kReadTool = "memory_read";
inline constexpr std::string_view kWriteTool = "memory_write";
inline constexpr std::string_view kListTool = "memory_list";
inline constexpr std::string_view kDeleteTool = "memory_delete";

bool is_memory_tool(std::string_view name);
// Definitions for the model, separated by commas; those that write only where something can be
// written.
enum class Writing : std::uint8_t { kAllowed, kRefused };
std::string write_memory_tools(Writing writing);

// `store` is the name of one of the session's stores; empty: the only one.
struct SearchArguments {
  std::string query;
  std::string store;
  std::int64_t limit = 10;
};
struct ReadArguments {
  std::string path;
  std::string store;
};
struct WriteArguments {
  std::string path;
  std::string content;
  std::string store;
  std::optional<std::string> expected_sha256;
};
struct ListArguments {
  std::string path_prefix = "/";
  std::string store;
};

// An error is a sentence for the model.
Result<SearchArguments> read_search(std::string_view input);
Result<ReadArguments> read_read(std::string_view input);
Result<WriteArguments> read_write(std::string_view input);
Result<ListArguments> read_list(std::string_view input);
Result<ReadArguments> read_delete(std::string_view input);

}  // namespace pons::memory
