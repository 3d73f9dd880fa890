#include "session_table.h"

#include <algorithm>

#include "pons/base/id.h"

namespace pons::mcp {

namespace {

struct SessionTag {
  static constexpr std::string_view kPrefix = "mcp";
};

}  // namespace

Result<std::shared_ptr<ServerSession>> SessionTable::create(
    const std::string& project, std::string version, std::shared_ptr<ServerSession>& ousted) {
  const auto own = static_cast<std::size_t>(std::ranges::count_if(
      sessions_, [&](const auto& entry) { return entry.second->project == project; }));
  if (own >= limits_.sessions_per_project || sessions_.size() >= limits_.sessions) {
    ousted = find_unmissed(project);
    if (ousted == nullptr)
      return make_error(ErrorCode::kLimit, "begin session",
                        "this project has too many MCP sessions; end some of them, or come later");
    remove(ousted->id);
  }
  auto session = std::make_shared<ServerSession>(loop_, Id<SessionTag>::generate().text(), project,
                                                 std::move(version));
  sessions_.emplace(session->id, session);
  return session;
}

// Most clients never say that they leave. Of those in which no tool was called nothing is lost.
std::shared_ptr<ServerSession> SessionTable::find_unmissed(std::string_view project) const {
  std::shared_ptr<ServerSession> longest;
  for (const auto& [id, session] : sessions_)
    if (session->project == project && session->calls_made == 0 && !session->is_in_use() &&
        (longest == nullptr || session->used < longest->used))
      longest = session;
  return longest;
}

std::shared_ptr<ServerSession> SessionTable::find(std::string_view id,
                                                  std::string_view project) const {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second->project != project) return nullptr;
  found->second->used = loop_.now();
  return found->second;
}

std::vector<std::shared_ptr<ServerSession>> SessionTable::find_idle() const {
  std::vector<std::shared_ptr<ServerSession>> idle;
  for (const auto& [id, session] : sessions_)
    if (!session->is_in_use() && loop_.now() - session->used >= limits_.idle_time)
      idle.push_back(session);
  return idle;
}

std::size_t SessionTable::calls_of(std::string_view project) const {
  std::size_t calls = 0;
  for (const auto& [id, session] : sessions_)
    if (session->project == project) calls += session->calls.size();
  return calls;
}

}  // namespace pons::mcp
