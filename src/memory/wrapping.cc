#include "wrapping.h"

#include <fmt/format.h>

#include "pons/base/text.h"
#include "pons/memory/agent_memory.h"

namespace pons::memory {

namespace {

constexpr std::size_t kMarkDigits = 16;

const std::string& name_of_store(const SessionMemory& session, const std::string& id) {
  for (const AttachedStore& store : session.stores)
    if (store.id == id) return store.name;
  return id;
}

}  // namespace

// To write the last line into a text one would have to know the digest of the text with it.
std::string wrap(std::string_view tag, std::string_view attributes, std::string_view text) {
  const std::string mark =
      sha256_hex(fmt::format("{}\n{}", attributes, text)).substr(0, kMarkDigits);
  return fmt::format("<{0}-{1} {2}>\n{3}{4}</{0}-{1}>", tag, mark, attributes, text,
                     text.ends_with('\n') ? "" : "\n");
}

std::string as_attribute(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string wrap_note(const std::string& store_name, const Memory& note) {
  return wrap(
      "note",
      fmt::format(R"(store="{}" path="{}" provenance="{}" sha256="{}")", as_attribute(store_name),
                  as_attribute(note.path), name_of(note.provenance), note.sha256),
      note.content.value_or(""));
}

std::string write_introduction(const SessionMemory& session) {
  std::string text =
      "You have a memory that outlasts this conversation: notes in stores. memory_search, "
      "memory_list and memory_read find them; memory_write and memory_delete change those of "
      "stores "
      "that you may write. Look there before you ask, and write down what later conversations will "
      "need. Your memory stores:\n";
  for (const AttachedStore& store : session.stores) {
    text += fmt::format("- {} ({})", store.name,
                        store.access == StoreAccess::kReadOnly ? "read-only" : "read and write");
    if (!store.description.empty()) text += ": " + store.description;
    text += '\n';
    if (!store.instructions.empty()) text += fmt::format("  {}\n", store.instructions);
  }
  return text;
}

std::string write_preload(const SessionMemory& session, const Preload& preload) {
  if (preload.notes.empty() && preload.left_out == 0) return {};
  std::string text = fmt::format("{}\n", kNotesAreData);
  for (const Memory& note : preload.notes)
    text += wrap_note(name_of_store(session, note.store), note) + "\n";
  if (preload.left_out > 0)
    text += fmt::format("There are {} more notes; memory_search finds them.\n", preload.left_out);
  return text;
}

}  // namespace pons::memory
