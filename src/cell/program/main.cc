#include "cell.h"

namespace {

constexpr int kListener = 3;
constinit pons::cell::Cell cell;  // in BSS: pages that are never touched cost nothing

}  // namespace

int main() {
  return cell.run(kListener);
}
