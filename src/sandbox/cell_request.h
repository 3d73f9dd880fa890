#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/cell/protocol.h"

// Writes what is said to a cell: whole messages, their number still open. A message that would be
// longer than the protocol allows, and a string with a zero byte in it, cannot be written.

namespace pons::sandbox {

struct ClaimWords {
  std::string hostname;
  std::string user;
  std::string directory;
  std::map<std::string, std::string> environment;
  std::uint64_t output_bytes_max = 0;  // of all jobs together; 0: as the cell has it
};

struct StartWords {
  std::string job;
  std::string user;
  std::string directory;
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;
  cell::Start numbers{};  // the counts are filled in
};

std::string plain_request(cell::Op op, std::string_view job = {});
Result<std::string> claim_request(const ClaimWords& words);
Result<std::string> start_request(const StartWords& words);
std::string read_request(std::string_view job, const cell::Read& read);
std::string write_request(std::string_view job, std::uint64_t offset, std::string_view bytes);
std::string signal_request(std::string_view job, const cell::Signal& signal);
std::string resize_request(std::string_view job, const cell::Resize& resize);

void set_request_number(std::string& request, std::uint64_t number);

// What one message carries beside its headers.
inline constexpr std::uint32_t kReadBytesMax =
    cell::kMessageBytesMax - sizeof(cell::ReplyHeader) - sizeof(cell::ReadReply);
inline constexpr std::size_t kWriteBytesMax = 96 * 1024;

}  // namespace pons::sandbox
