#pragma once

#include <memory>
#include <string>

#include "pons/base/task.h"
#include "pons/e2b/directory.h"
#include "pons/http/exchange.h"
#include "pons/linux/loop.h"
#include "pons/sandbox/provider.h"

namespace pons::e2b {

struct DataPlaneSettings {
  // Sandboxes are reached as PORT-ID.domain, which may end in a port; empty: by header fields only.
  std::string domain;
};

// What E2B's SDKs ask of a sandbox itself: processes, files, and whatever listens on its ports. The
// caller's right is the sandbox's own token; API keys play no part. Everything it is made with
// outlives it, and it outlives its exchanges.
class DataPlane {
 public:
  DataPlane(linux::Loop& loop, sandbox::Provider& provider, Directory& directory,
            DataPlaneSettings settings);
  ~DataPlane();

  // By header fields or host name, or as a file by token or signature. Nobody else may answer it.
  bool is_for_sandbox(const http::RequestHead& head) const;
  // True of one of these that a program in the sandbox answers.
  bool is_for_program(const http::RequestHead& head) const;
  Task<> handle(http::Exchange& exchange);
  // Answers a request for a sandbox that gets no further, in the words that its caller expects.
  static void refuse(http::Exchange& exchange, const Error& error);

 private:
  class Door;
  std::unique_ptr<Door> door_;
};

}  // namespace pons::e2b
