#include "cell.h"

namespace {

constexpr int kListener = 3;
pons::cell::Cell cell;  // in BSS: pages that are never touched cost nothing

// Otherwise all of it would stand in the file.
static_assert(__is_trivially_constructible(pons::cell::Cell));

}  // namespace

int main() {
  return cell.run(kListener);
}
