#include "pons/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace pons {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "pons: bug: CHECK(%s) failed at %s:%d; please report this line\n", condition,
               file, line);
  std::abort();
}

}  // namespace pons
