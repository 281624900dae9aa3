// What the C programs of this folder check with: conditions, statuses, error texts, numbers.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TESTS_CAPI_CHECK_H_
#define OPST_TESTS_CAPI_CHECK_H_

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opst/opst.h"

static int num_failures = 0;

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      ++num_failures;                                                 \
    }                                                                 \
  } while (0)

// A call that must succeed; the rest of the program makes no sense without it.
#define OK(call)                                                                        \
  do {                                                                                  \
    const opst_status status_ = (call);                                                 \
    if (status_ != OPST_OK) {                                                           \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, opst_status_name(status_), \
              opst_last_error());                                                       \
      exit(1);                                                                          \
    }                                                                                   \
  } while (0)

// A call that must fail with this status and a text that contains `part`.
#define FAILS(call, wanted, part)                                                              \
  do {                                                                                         \
    const opst_status status_ = (call);                                                        \
    if (status_ != (wanted) || strstr(opst_last_error(), (part)) == NULL) {                    \
      fprintf(stderr, "%s:%d: wanted %s with \"%s\"; got %s: %s\n", __FILE__, __LINE__,        \
              opst_status_name(wanted), (part), opst_status_name(status_), opst_last_error()); \
      ++num_failures;                                                                          \
    }                                                                                          \
  } while (0)
#define REFUSED(call, part) FAILS(call, OPST_INVALID_ARGUMENT, part)

// Whether two numbers differ by no more than `tolerance` times the larger of 1 and `wanted`.
#define NEAR(got, wanted, tolerance)                                                      \
  do {                                                                                    \
    const double got_ = (double)(got), wanted_ = (double)(wanted);                        \
    if (!(fabs(got_ - wanted_) <= (tolerance)*fmax(1.0, fabs(wanted_)))) {                \
      fprintf(stderr, "%s:%d: %s is %.9g, wanted %.9g\n", __FILE__, __LINE__, #got, got_, \
              wanted_);                                                                   \
      ++num_failures;                                                                     \
    }                                                                                     \
  } while (0)

// Repeatable numbers in [-0.5, 0.5).
static inline void fill_random(float* values, int64_t count, uint32_t seed) {
  uint32_t state = seed;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    values[i] = (float)(state >> 8) * (1.0f / 16777216.0f) - 0.5f;
  }
}

static inline int finish(void) {
  if (num_failures != 0) fprintf(stderr, "%d checks failed\n", num_failures);
  return num_failures == 0 ? 0 : 1;
}

#endif  // OPST_TESTS_CAPI_CHECK_H_
