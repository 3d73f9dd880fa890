#pragma once

#include "pons/linux/loop.h"
#include "pons/store/postgres_store.h"

namespace pons::brain {

// Streams to the database through the gateway, which has the network and the password; `channel`
// leads to it.
store::OpenStream open_through_gateway(linux::Loop& loop, int channel);

}  // namespace pons::brain
