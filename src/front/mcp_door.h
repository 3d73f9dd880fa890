#pragma once

#include <string>

#include "admission.h"
#include "passage.h"
#include "pons/http/client.h"
#include "role_line.h"

namespace pons::front {

// /mcp: who calls is found out here, and that no stranger's page does; all else is the brain's.
class McpDoor {
 public:
  // `domain` as in the configuration; may be empty.
  McpDoor(linux::Loop& loop, Admission& admission, RoleLine& brain, std::string domain);

  static bool is_for_mcp(const http::RequestHead& request) { return request.path() == "/mcp"; }
  Task<> handle(RecordedExchange& exchange);

 private:
  linux::Loop& loop_;
  Admission& admission_;
  http::Client brain_;
  std::string domain_;
};

}  // namespace pons::front
