#include "sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace pons::supervisor {

Result<linux::UniqueFd> seal_in_memory(const char* name, const Secret& secret) {
  linux::UniqueFd file(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return os_error("pass a secret on");
  TRY_VOID(linux::write_all(file.get(), secret.reveal()));
  if (lseek(file.get(), 0, SEEK_SET) != 0) return os_error("pass a secret on");
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
  if (fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) return os_error("pass a secret on");
  return file;
}

}  // namespace pons::supervisor
