#pragma once

namespace pons::cli {

// The command line of `pons`. Exit codes: 0 done, 1 it did not work (or a promise does not hold), 2
// wrong usage.
int run(int argc, char** argv);

}  // namespace pons::cli
