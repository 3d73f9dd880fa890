#pragma once

#include <cstdint>
#include <string>

#include "call.h"

// Whole files over plain HTTP: GET and POST /files, POST /files/compose. Who may ask is decided
// before.

namespace pons::e2b {

Task<> answer_download(Call& call);
Task<> answer_upload(Call& call);
// Joins files into one, and removes them.
Task<> answer_compose(Call& call);

// Where a file is to be written. One that is there keeps its mode; a directory is kInvalid.
struct WritePlace {
  std::string path;
  std::uint32_t mode = 0644;
};
Task<Result<WritePlace>> find_write_place(Call& call, std::string asked);

}  // namespace pons::e2b
