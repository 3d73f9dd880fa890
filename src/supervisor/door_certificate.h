#pragma once

#include <string>

#include "pons/base/result.h"
#include "pons/base/secret.h"
#include "pons/base/task.h"
#include "pons/config/config.h"
#include "pons/http/client.h"
#include "pons/linux/fd.h"
#include "pons/linux/loop.h"

namespace pons::supervisor {

// The certificate and key of the public listener, on their way from their files to front, which
// opens none. Bytes only: who judges them is front, which has no privileges to lose.
class DoorCertificate {
 public:
  // `front_socket`: where front listens for its operator.
  DoorCertificate(linux::Loop& loop, const config::TlsConfig& files, std::string front_socket);

  // Before the first start of front.
  Result<void> read_files();
  // What a new front begins with: a sealed memory file, {"certificate":PEM,"key":PEM}.
  Result<linux::UniqueFd> for_front() const;

  enum class Outcome : std::uint8_t { kUnchanged, kReplaced };
  // Reads the files again and offers them to the running front. When it refuses, or a file cannot
  // be read, everything stays as it was.
  Task<Result<Outcome>> reload();
  // Does that by itself whenever the files have changed; never ends.
  Task<> follow();

 private:
  Result<Secret> read() const;
  Task<Result<Outcome>> reload_alone();
  Task<Result<void>> offer(const Secret& document);
  bool has_changed();

  linux::Loop& loop_;
  const config::TlsConfig& files_;
  http::Client front_;
  Secret in_use_;          // the document that front has taken
  std::string seen_hash_;  // of the files when they were last looked at
  bool offering_ = false;  // one after the other: what front took last is what is in use
  linux::Event offered_;
};

}  // namespace pons::supervisor
