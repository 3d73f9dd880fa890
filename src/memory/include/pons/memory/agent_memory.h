#pragma once

#include <string>
#include <vector>

#include "pons/memory/memory_stores.h"

// Memory as a session has it: the tools run against its stores, and what it starts with.

namespace pons::memory {

enum class StoreAccess : std::uint8_t { kReadWrite, kReadOnly };

struct AttachedStore {
  std::string id;
  std::string name;  // as the model calls it: its slug
  StoreAccess access = StoreAccess::kReadWrite;
  std::string description = {};   // what is in it
  std::string instructions = {};  // what the session is to do with it
};

struct SessionMemory {
  std::string project;
  std::string session;
  std::vector<AttachedStore> stores;
  std::string call = {};  // its id: asked for twice, something is changed once; empty: never
  // The session has read what came from outside: what it writes may be somebody else's words.
  bool has_read_untrusted = false;
};

struct MemoryToolResult {
  std::string text;
  bool is_error = false;
  bool is_untrusted = false;  // the text holds words of an untrusted note: the session has read it
};

// What is wrong with a call is a sentence for the model. An error is the store's, or that of
// whoever looks for secrets: the same call may be made again.
Task<Result<MemoryToolResult>> run_memory_tool(MemoryStores& stores, SessionMemory session,
                                               std::string tool, std::string input);

// A note as a model reads it: its text between two lines that no note can hold, since their mark is
// made from the text, and where it comes from in the first of them. So whatever a note says, it
// stays a note.
std::string wrap_note(const std::string& store_name, const Memory& note);

// Which stores there are, and what they are for.
std::string write_introduction(const SessionMemory& session);

// What a session starts with; empty when there is nothing.
std::string write_preload(const SessionMemory& session, const Preload& preload);

}  // namespace pons::memory
