// common.h, and what every test reads.
#pragma once

#include "common.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
