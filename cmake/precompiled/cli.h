// common.h, and the parser of command lines, which takes longer to read than all else.
#pragma once

#include "common.h"

#include <CLI/CLI.hpp>
