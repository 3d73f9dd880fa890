#include "failure.h"

#include <nlohmann/json.hpp>

#include "connect.h"
#include "pons/base/json.h"
#include "pons/http/error_status.h"

namespace pons::e2b {

namespace {

constexpr int kBadGateway = 502;
constexpr int kNoSpace = 507;

// The cell names the errno; on its way it has become the last words, behind whatever names there
// are.
bool is_full(const Error& error) {
  return error.os_error == ENOSPC || error.os_error == EDQUOT ||
         error.message.ends_with(" (No space left on device)") ||
         error.message.ends_with(" (Disk quota exceeded)");
}

int status_of(const Error& error) {
  return is_full(error) ? kNoSpace : rpc_code(error).status;
}

}  // namespace

void respond_failure(http::Exchange& exchange, int status, const std::string& message) {
  exchange.respond({.status = status, .body = dump_json({{"code", status}, {"message", message}})});
}

void respond_failure(http::Exchange& exchange, const Error& error) {
  respond_failure(exchange, status_of(error), explain(error));
}

void respond_gone(http::Exchange& exchange, const std::string& sandbox) {
  exchange.respond({.status = kBadGateway,
                    .body = dump_json({{"sandboxId", sandbox},
                                       {"message", "The sandbox was not found"},
                                       {"code", kBadGateway}})});
}

void respond_port_closed(http::Exchange& exchange, const std::string& sandbox, std::uint16_t port) {
  exchange.respond({.status = kBadGateway,
                    .body = dump_json({{"sandboxId", sandbox},
                                       {"message", "The sandbox is running but port is not open"},
                                       {"port", port},
                                       {"code", kBadGateway}})});
}

}  // namespace pons::e2b
