#pragma once

// A hostile program for the inside of a sandbox. Every attack returns nothing when it was held, and
// otherwise what got through. It changes nothing that the sandbox is not allowed to change, unless
// the protection that it tries is missing.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct Attack {
  const char* name;
  const char* (*run)(void);
};

// The tables end with a row without a name.
extern const struct Attack kKernelAttacks[];
extern const struct Attack kNamespaceAttacks[];
extern const struct Attack kProcessAttacks[];
extern const struct Attack kFileAttacks[];
extern const struct Attack kNetworkAttacks[];

// Words that only the host knows where to find; set by the test.
static inline const char* host_word(const char* name) {
  const char* value = getenv(name);
  return value == NULL ? "" : value;
}

// Text that lives until the next call.
const char* broken(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Descriptors that were there when the program began, as text; null when nothing is odd.
const char* odd_descriptors(void);
