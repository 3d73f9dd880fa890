#pragma once

#include "pons/managed/caller.h"
#include "pons/managed/documents.h"

namespace pons::managed {

// {"id", "type", …what it says…, "created_at", "updated_at", "archived_at"}
Result<Json> show_document(const Document& document, const char* type);

using Show = Reply<Json> (*)(const Document&);
// What GET on the collection and POST …/archive do for every kind.
Task<Reply<Json>> list_documents(Documents& documents, Call& call, Show show);
Task<Reply<Json>> archive_document(Documents& documents, Call& call, Show show);

}  // namespace pons::managed
