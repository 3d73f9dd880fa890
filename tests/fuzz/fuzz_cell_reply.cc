// The bytes are what a cell sends. Holds: nothing is read past the end, and what is accepted lies
// within the bounds that the warden relies on.

#include <cstdint>
#include <string>
#include <string_view>

#include "cell_reply.h"
#include "pons/base/check.h"

namespace {

using namespace pons::sandbox;

void check_read(std::string_view payload) {
  // The job's name is taken from the answer itself, so that the rest is reached.
  const std::string_view job = payload.substr(0, payload.substr(0, 96).find('\0'));
  const ReadQuestion question{.job = job, .output_offset = 1, .error_offset = 0, .bytes_max = 4096};
  const auto answer = parse_read_answer(payload, question);
  if (!answer) return;
  CHECK(answer->output.size() + answer->error.size() <= question.bytes_max);
  CHECK(answer->output_offset >= 1 && answer->output_offset <= answer->state.output_end);
  CHECK(answer->output.size() <= answer->state.output_end - answer->output_offset);
  CHECK(answer->error.size() <= answer->state.error_end - answer->error_offset);
}

template <class T, class Parse>
void check_records(std::string_view bytes, Parse parse) {
  while (!bytes.empty()) {
    T record;
    const RecordParse step = parse(bytes, record);
    if (step.state != RecordParse::State::kRecord) return;
    CHECK(step.consumed > 0 && step.consumed <= bytes.size());
    bytes.remove_prefix(step.consumed);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A copy of its own size, so that the sanitizer sees a read past the end.
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  if (const auto reply = parse_cell_reply(bytes)) {
    CHECK(reply->payload.size() + sizeof reply->header == bytes.size());
    CHECK(reply->header.os_error >= 0);
  }
  check_read(bytes);
  if (const auto jobs = parse_job_list(bytes)) CHECK(jobs->size() <= pons::cell::kJobsMax);
  if (const auto taken = parse_write_answer(bytes, 10, 20)) CHECK(*taken >= 10 && *taken <= 30);
  check_records<FileInfo>(bytes, parse_file_record);
  check_records<FileChange>(bytes, parse_watch_record);
  return 0;
}
