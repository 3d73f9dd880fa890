#include <string.h>

#include "cell.h"

namespace {

constexpr int kListener = 3;
pons::cell::Cell cell;  // in BSS: pages that are never touched cost nothing

// Otherwise all of it would stand in the file.
static_assert(__is_trivially_constructible(pons::cell::Cell));

}  // namespace

int main(int argc, char** argv) {
  using pons::cell::ShellKind;
  const bool login = argc > 1 && strcmp(argv[1], "login") == 0;
  return cell.run(kListener, login ? ShellKind::kLogin : ShellKind::kPlain);
}
