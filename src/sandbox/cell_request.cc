#include "cell_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "pons/base/check.h"

namespace pons::sandbox {

namespace {

template <class T>
void append(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

Result<void> append_text(std::string& out, std::string_view text) {
  if (text.find('\0') != std::string_view::npos)
    return make_error(ErrorCode::kInvalid, "write request",
                      "arguments, variables and names have no zero byte in them");
  out.append(text);
  out.push_back('\0');
  return {};
}

Result<void> append_environment(std::string& out,
                                const std::map<std::string, std::string>& environment) {
  for (const auto& [name, value] : environment) {
    if (name.empty() || name.find('=') != std::string::npos)
      return make_error(ErrorCode::kInvalid, "write request",
                        fmt::format("\"{}\" is no name of a variable", name));
    TRY_VOID(append_text(out, name + "=" + value));
  }
  return {};
}

Result<std::string> checked(std::string request) {
  if (request.size() > cell::kMessageBytesMax)
    return make_error(ErrorCode::kInvalid, "write request",
                      fmt::format("arguments and environment have {} bytes together and may have "
                                  "{}; write them into a file first",
                                  request.size(), cell::kMessageBytesMax));
  return request;
}

}  // namespace

std::string plain_request(cell::Op op, std::string_view job) {
  CHECK(job.size() <= cell::kJobNameBytes);
  cell::RequestHeader header{};
  header.magic = cell::kMagic;
  header.version = cell::kVersion;
  header.op = op;
  std::ranges::copy(job, header.job);
  std::string request;
  append(request, header);
  return request;
}

Result<std::string> claim_request(const ClaimWords& words) {
  std::string request = plain_request(cell::Op::kClaim);
  append(request,
         cell::Claim{.environment_count = static_cast<std::uint32_t>(words.environment.size()),
                     .output_kib_max = static_cast<std::uint32_t>(
                         std::min<std::uint64_t>(words.output_bytes_max / 1024, ~0U))});
  for (const std::string* text : {&words.hostname, &words.user, &words.directory})
    TRY_VOID(append_text(request, *text));
  TRY_VOID(append_environment(request, words.environment));
  return checked(std::move(request));
}

Result<std::string> start_request(const StartWords& words) {
  if (words.user.size() >= cell::kUserNameBytes)
    return make_error(ErrorCode::kInvalid, "write request", "the user's name is too long");
  std::string request = plain_request(cell::Op::kStart, words.job);
  cell::Start start = words.numbers;
  start.argument_count = static_cast<std::uint32_t>(words.argv.size());
  start.environment_count = static_cast<std::uint32_t>(words.environment.size());
  append(request, start);
  TRY_VOID(append_text(request, words.user));
  TRY_VOID(append_text(request, words.directory));
  for (const std::string& argument : words.argv) TRY_VOID(append_text(request, argument));
  TRY_VOID(append_environment(request, words.environment));
  return checked(std::move(request));
}

std::string read_request(std::string_view job, const cell::Read& read) {
  std::string request = plain_request(cell::Op::kRead, job);
  append(request, read);
  return request;
}

std::string write_request(std::string_view job, std::uint64_t offset, std::string_view bytes) {
  CHECK(bytes.size() <= kWriteBytesMax);
  std::string request = plain_request(cell::Op::kWrite, job);
  append(request, cell::Write{.offset = offset});
  request.append(bytes);
  return request;
}

std::string signal_request(std::string_view job, const cell::Signal& signal) {
  std::string request = plain_request(cell::Op::kSignal, job);
  append(request, signal);
  return request;
}

std::string resize_request(std::string_view job, const cell::Resize& resize) {
  std::string request = plain_request(cell::Op::kResize, job);
  append(request, resize);
  return request;
}

void set_request_number(std::string& request, std::uint64_t number) {
  CHECK(request.size() >= sizeof(cell::RequestHeader));
  std::memcpy(request.data() + offsetof(cell::RequestHeader, id), &number, sizeof number);
}

}  // namespace pons::sandbox
