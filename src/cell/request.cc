#include "request.h"

#include <signal.h>
#include <string.h>

namespace pons::cell {
namespace {

class Reader {
 public:
  Reader(const char* at, size_t size) : at_(at), end_(at + size) {}

  template <class T>
  bool take(T* value) {
    if (left() < sizeof *value) return false;
    memcpy(value, at_, sizeof *value);
    at_ += sizeof *value;
    return true;
  }

  bool take_string(const char** string, size_t bytes_max) {
    const void* zero = left() == 0 ? nullptr : memchr(at_, 0, left());
    if (zero == nullptr) return false;
    const char* end = static_cast<const char*>(zero);
    if (static_cast<size_t>(end - at_) > bytes_max) return false;
    *string = at_;
    at_ = end + 1;
    return true;
  }

  bool take_strings(StringList* list, uint32_t count) {
    list->first = at_;
    list->count = count;
    for (uint32_t i = 0; i < count; ++i) {
      const char* string = nullptr;
      if (!take_string(&string, kMessageBytesMax)) return false;
    }
    return true;
  }

  bool take_environment(StringList* list, uint32_t count) {
    if (count > kEnvironmentMax || !take_strings(list, count)) return false;
    const char* at = list->first;
    for (uint32_t i = 0; i < count; ++i) {
      const char* equals = strchr(at, '=');
      if (equals == nullptr || equals == at) return false;
      at += strlen(at) + 1;
    }
    return true;
  }

  const char* rest() const { return at_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }

 private:
  const char* at_;
  const char* end_;
};

bool take_claim(Reader* reader, Request* request) {
  Claim claim;
  if (!reader->take(&claim)) return false;
  request->output_bytes_max = uint64_t{claim.output_kib_max} * 1024;
  return reader->take_string(&request->hostname, kHostnameBytesMax) &&
         reader->take_string(&request->user, kUserNameBytes - 1) &&
         reader->take_string(&request->directory, kMessageBytesMax) &&
         reader->take_environment(&request->environment, claim.environment_count);
}

bool is_sound(const Start& start) {
  constexpr uint32_t kKnown =
      kShellLine | kTerminal | kInputOpen | kLossless | kBuiltin | kKillAtTimeout;
  if ((start.flags & ~kKnown) != 0) return false;
  const bool builtin = (start.flags & kBuiltin) != 0;
  if (builtin && (start.flags & (kShellLine | kTerminal)) != 0) return false;
  if ((start.flags & kShellLine) != 0 && start.argument_count != 1) return false;
  return start.argument_count >= 1 && start.argument_count <= kArgumentsMax &&
         start.buffer_bytes <= kBufferBytesMax;
}

bool take_start(Reader* reader, Request* request) {
  Start* start = &request->start;
  if (!reader->take(start) || !is_sound(*start)) return false;
  if (!reader->take_string(&request->user, kUserNameBytes - 1) ||
      !reader->take_string(&request->directory, kMessageBytesMax) ||
      !reader->take_strings(&request->arguments, start->argument_count) ||
      !reader->take_environment(&request->environment, start->environment_count)) {
    return false;
  }
  return (start->flags & kShellLine) != 0 || *request->arguments.first != '\0';
}

bool take_write(Reader* reader, Request* request) {
  Write write;
  if (!reader->take(&write)) return false;
  request->input_offset = write.offset;
  request->input = reader->rest();
  request->input_size = reader->left();
  *reader = Reader(reader->rest() + reader->left(), 0);
  // An offset near the top would wrap around when the size is added.
  return write.offset <= UINT64_MAX - kMessageBytesMax;
}

bool take_payload(Reader* reader, Request* request) {
  switch (request->op) {
    case Op::kClaim:
      return take_claim(reader, request);
    case Op::kStart:
      return take_start(reader, request);
    case Op::kRead:
      return reader->take(&request->read);
    case Op::kWrite:
      return take_write(reader, request);
    case Op::kSignal:
      return reader->take(&request->signal) && request->signal.number >= 1 &&
             request->signal.number <= 64 && request->signal.reach <= Reach::kJob &&
             (request->signal.reach != Reach::kJob || request->signal.number == SIGKILL);
    case Op::kResize:
      return reader->take(&request->resize);
    case Op::kPing:
    case Op::kList:
    case Op::kCloseInput:
    case Op::kForget:
      return true;
  }
  return false;
}

bool is_job_name_sound(const RequestHeader& header) {
  const size_t size = strnlen(header.job, sizeof header.job);
  for (size_t i = size; i < sizeof header.job; ++i) {
    if (header.job[i] != '\0') return false;
  }
  const bool wants_job =
      header.op != Op::kPing && header.op != Op::kClaim && header.op != Op::kList;
  return !wants_job || size > 0;
}

}  // namespace

bool parse_request(const char* message, size_t size, Request* request) {
  *request = Request{};
  Reader reader(message, size < kMessageBytesMax ? size : kMessageBytesMax);
  RequestHeader header;
  if (!reader.take(&header)) return false;
  request->id = header.id;
  if (size > kMessageBytesMax) return false;
  if (header.magic != kMagic || header.version != kVersion) return false;
  if (!is_job_name_sound(header)) return false;
  request->op = header.op;
  memcpy(request->job, header.job, sizeof request->job);
  return take_payload(&reader, request) && reader.left() == 0;
}

}  // namespace pons::cell
