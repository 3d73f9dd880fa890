#pragma once

#include <libpq-fe.h>

#include "pons/base/result.h"

namespace pons::database {

// PostgreSQL's own library, by its functions' names without "PQ". It brings twenty others along
// (LDAP, Kerberos, GnuTLS), which are nobody's business who keeps his store in a file: so it is
// loaded when it is first wanted, and not by the linker.
struct ClientLibrary {
  decltype(&PQconninfoParse) conninfo_parse;
  decltype(&PQconninfoFree) conninfo_free;
  decltype(&PQfreemem) free_memory;
  decltype(&PQconnectStartParams) connect_start_params;
  decltype(&PQconnectPoll) connect_poll;
  decltype(&PQstatus) status;
  decltype(&PQsocket) socket;
  decltype(&PQsslStruct) ssl_struct;
  decltype(&PQerrorMessage) error_message;
  decltype(&PQfinish) finish;
};

// The same one each time; never unloaded.
Result<const ClientLibrary*> client_library();

}  // namespace pons::database
