#pragma once

#include "call.h"

// Who may have a file: by the sandbox's token, or by a link that was signed with it.

namespace pons::e2b {

// Answers /files of a sandbox that is known by its name.
Task<> answer_files(Call& call);

// Finds the sandbox of a request that names none, by its token or signature.
class NamelessFiles {
 public:
  explicit NamelessFiles(const Call::Ground& ground) : ground_(ground) {}
  Task<> handle(http::Exchange& exchange);

 private:
  Task<Result<Directory::Found>> find(const http::RequestHead& head);

  const Call::Ground& ground_;
  TimePoint next_search_{};
  int waiting_ = 0;
};

bool has_access_token(const http::RequestHead& head, const Access& access);

}  // namespace pons::e2b
