#pragma once

#include "pons/models/protocol.h"

namespace pons::models {

// Takes the search that OpenAI's own service runs (kResponses' web_search) out of a request that
// goes to a provider of another protocol, and says so: harnesses offer it to every model beside
// their own tools, and the model answers without. Stays where the answer must come from it: then
// the writers refuse it by name, as they do all other tools of a service.
void leave_out_search(Request& request, Omitted& omitted);

}  // namespace pons::models
