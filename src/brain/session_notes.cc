#include "session_notes.h"

#include "pons/memory/agent_memory.h"
#include "pons/memory/tools.h"

namespace pons::brain {

namespace {

std::vector<memory::AttachedStore> attached(std::vector<session::MemoryGrant> grants) {
  std::vector<memory::AttachedStore> stores;
  for (session::MemoryGrant& grant : grants)
    stores.push_back({.id = std::move(grant.store),
                      .name = std::move(grant.name),
                      .access = grant.read_only ? memory::StoreAccess::kReadOnly
                                                : memory::StoreAccess::kReadWrite,
                      .description = std::move(grant.description),
                      .instructions = std::move(grant.instructions)});
  return stores;
}

}  // namespace

Task<Result<std::string>> SessionNotes::recall(session::RecallOrder order) {
  const memory::SessionMemory session{.project = order.project,
                                      .session = std::move(order.session),
                                      .stores = attached(std::move(order.stores))};
  std::vector<std::string> ids;
  for (const memory::AttachedStore& store : session.stores) ids.push_back(store.id);
  CO_TRY(const auto preload,
         co_await stores_.preload(std::move(order.project), std::move(ids), order.bytes_max));
  recalls_.add();
  std::string text = memory::write_introduction(session);
  if (const std::string notes = memory::write_preload(session, preload); !notes.empty())
    text += "\n" + notes;
  co_return text;
}

Task<Result<session::NoteReport>> SessionNotes::use(session::NoteOrder order) {
  const std::string tool = memory::is_memory_tool(order.tool) ? order.tool : "other";
  auto report = co_await run(std::move(order));
  calls_.at({tool, !report ? "failed" : report->is_error ? "refused" : "done"}).add();
  co_return report;
}

Task<Result<session::NoteReport>> SessionNotes::run(session::NoteOrder order) {
  CO_TRY(auto result,
         co_await memory::run_memory_tool(stores_,
                                          {.project = std::move(order.project),
                                           .session = std::move(order.session),
                                           .stores = attached(std::move(order.stores)),
                                           .call = std::move(order.call),
                                           .has_read_untrusted = order.has_read_untrusted},
                                          std::move(order.tool), std::move(order.input)));
  co_return session::NoteReport{.text = std::move(result.text),
                                .is_error = result.is_error,
                                .is_untrusted = result.is_untrusted};
}

void SessionNotes::write_metrics(telemetry::Page& page) const {
  using enum telemetry::Page::Type;
  page.begin("pons_memory_recalls_total", kCounter, "Sessions that began with their notes.");
  page.add({}, recalls_.value());
  page.begin("pons_memory_calls_total", kCounter, "Calls of memory tools, by how they ended.");
  for (const auto& [values, count] : calls_.all())
    page.add({{"tool", values[0]}, {"outcome", values[1]}}, count.value());
}

}  // namespace pons::brain
