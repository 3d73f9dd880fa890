#include "affinity.h"

namespace pons::gateway {

namespace {

constexpr std::size_t kOpeningBytesMax = std::size_t{64} << 10;

// Clients mark the last message they send as the end of what is to be cached, so the first one is
// marked in the first turn only.
std::string without_marks(std::string_view text) {
  constexpr std::string_view kMark = "\"cache_control\"";
  std::string rest;
  while (true) {
    const std::size_t mark = text.find(kMark);
    const std::size_t end = mark == std::string_view::npos ? mark : text.find('}', mark);
    if (end == std::string_view::npos) return rest += text;
    std::string_view before = text.substr(0, mark);
    text.remove_prefix(end + 1);
    // One of the commas around it goes with it.
    const std::size_t last = before.find_last_not_of(" \t\r\n");
    const std::size_t next = text.find_first_not_of(" \t\r\n");
    if (last != std::string_view::npos && before[last] == ',')
      before = before.substr(0, last);
    else if (next != std::string_view::npos && text[next] == ',')
      text.remove_prefix(next + 1);
    rest += before;
  }
}

}  // namespace

std::string affinity_of(const ModelRequest& request, const http::RequestHead& head,
                        std::string_view caller) {
  for (const char* name : {"x-session-id", "x-claude-code-session-id"})
    if (const auto session = head.find(name)) return std::string(*session);
  if (!request.facts.cache_key.empty()) return request.facts.cache_key;
  const auto& [begin, end] = request.facts.opening;
  const std::string_view opening =
      std::string_view(request.body).substr(begin, std::min(end - begin, kOpeningBytesMax));
  return std::string(caller) + without_marks(opening);
}

}  // namespace pons::gateway
