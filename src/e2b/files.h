#pragma once

#include "call.h"

// Whole files over plain HTTP: GET and POST /files. Who may ask is decided before.

namespace pons::e2b {

Task<> answer_download(Call& call);
Task<> answer_upload(Call& call);

}  // namespace pons::e2b
