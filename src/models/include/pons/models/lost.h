#pragma once

#include "pons/models/protocol.h"

namespace pons::models {

// Names what stands in messages, their parts and tools that only the request's own protocol knows:
// a provider of another never hears of it.
void name_what_is_lost(const Request& request, Omitted& omitted);

// The same of an answer to a client of another protocol: citations that are not of pages.
void name_what_is_lost(const Answer& answer, Protocol client, Omitted& omitted);

}  // namespace pons::models
