// A journal of model calls: whatever a disk has made of it, its records are those that stand there
// whole, in order, up to the first damage; and no sequence of records charges a call twice.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "call_log.h"
#include "journal_record.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pons::budget;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Records read = read_records(bytes);
  if (read.whole_again && *read.whole_again <= read.bytes) std::abort();

  std::string written;
  for (const Record& record : read.records) append_record(written, record);
  if (written != bytes.substr(0, read.bytes)) std::abort();

  CallState state;
  for (const Record& record : read.records) state.apply(record);
  std::size_t reserved = 0;
  for (const Record& record : read.records)
    reserved += std::holds_alternative<Reserved>(record) ? 1 : 0;
  if (state.open.size() + state.settled.size() > reserved) std::abort();
  return 0;
}
