#include "client_library.h"

#include <dlfcn.h>

#include <fmt/format.h>

#include "pons/database/greeting.h"

namespace pons::database {

namespace {

constexpr const char* kFile = "libpq.so.5";

Result<ClientLibrary> load() {
  void* const file = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr)
    return make_error(ErrorCode::kUnavailable, "load PostgreSQL's library",
                      fmt::format("{}; install it: apt install libpq5", dlerror()));
  ClientLibrary library{};
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(file, name));
    if (function == nullptr) missing = name;
  };
  find(library.conninfo_parse, "PQconninfoParse");
  find(library.conninfo_free, "PQconninfoFree");
  find(library.free_memory, "PQfreemem");
  find(library.connect_start_params, "PQconnectStartParams");
  find(library.connect_poll, "PQconnectPoll");
  find(library.status, "PQstatus");
  find(library.socket, "PQsocket");
  find(library.ssl_struct, "PQsslStruct");
  find(library.error_message, "PQerrorMessage");
  find(library.finish, "PQfinish");
  if (missing != nullptr)
    return make_error(
        ErrorCode::kUnavailable, "load PostgreSQL's library",
        fmt::format("{} has no {}: it must be of PostgreSQL 12 or newer", kFile, missing));
  return library;
}

}  // namespace

Result<const ClientLibrary*> client_library() {
  static const Result<ClientLibrary> kLibrary = load();
  if (!kLibrary) return kLibrary.error();
  return &*kLibrary;
}

Result<void> load_client_library() {
  TRY_VOID(client_library());
  return {};
}

}  // namespace pons::database
