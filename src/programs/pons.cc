#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string_view>

#include "pons/cli/cli.h"
#include "role_programs.h"

// `pons role NAME` is for the supervisor only and stays out of the command line's help.
int main(int argc, char** argv) {
  try {
    if (argc == 3 && std::string_view(argv[1]) == "role") {
      // Leaves without running destructors of static objects: a confined process has nothing to
      // clean up.
      const int code = pons::programs::run_role_program();
      std::fflush(nullptr);
      _exit(code);
    }
    return pons::cli::run(argc, argv);
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "pons: bug: %s\n", exception.what());
    return 70;
  }
}
