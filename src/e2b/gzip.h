#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "pons/http/head.h"
#include "pons/sandbox/provider.h"

namespace pons::e2b {

// The bytes packed as they come, for speed and not for size.
std::unique_ptr<sandbox::ByteSource> gzip(std::unique_ptr<sandbox::ByteSource> plain);

enum class Coding : std::uint8_t { kIdentity, kGzip };

// How the answer is to be coded by Accept-Encoding, where `best` can be given; nothing when the
// client takes neither that nor the bytes as they are. Whoever names gzip and nothing else wants
// it. Clients that name all they know are as well served with the bytes as they are, and this
// process has others to serve.
std::optional<Coding> choose_coding(const http::RequestHead& head, Coding best);

}  // namespace pons::e2b
