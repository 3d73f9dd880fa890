// The headers of a program out of somebody's package, read to find out which libraries it needs.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "elf.h"
#include "pons/linux/fd.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pons;
  static const linux::UniqueFd kFile(memfd_create("program", MFD_CLOEXEC));
  const bool written =
      ftruncate(kFile.get(), 0) == 0 && lseek(kFile.get(), 0, SEEK_SET) == 0 &&
      linux::write_all(kFile.get(), {reinterpret_cast<const char*>(data), size}).has_value();
  if (written) (void)templates::read_elf_needs(kFile.get());
  return 0;
}
