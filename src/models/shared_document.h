#pragma once

#include <memory>
#include <string_view>

#include "json_node.h"

namespace pons::models {

// For what is read at once and not held on to, as an event of a stream is: one document for all of
// a thread, because the tables of a parser take many kilobytes and as much time as a short text. It
// is good until the next call.
inline JsonDocument& shared_document(std::string_view text) {
  constexpr std::size_t kKeptBytesMax = 64 * 1024;
  thread_local std::unique_ptr<JsonDocument> document;
  thread_local bool is_large = false;  // it has read a text that its memory shall not stay for
  if (document == nullptr || is_large) document = std::make_unique<JsonDocument>();
  is_large = text.size() > kKeptBytesMax;
  return *document;
}

}  // namespace pons::models
