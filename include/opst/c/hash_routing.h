// Hash routing: a token's experts follow from its id alone. No router, no scores.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_HASH_ROUTING_H_
#define OPST_C_HASH_ROUTING_H_

#include "opst/c/routing_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct opst_hash_routing_options {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t num_experts;
  int64_t top_k;
  const opst_view* table;  // [V * top_k] i32 experts of each token id; NULL = a hash of id and seed
  uint64_t seed;
} opst_hash_routing_options;

#define OPST_HASH_ROUTING_OPTIONS_DEFAULT                                                          \
  {                                                                                                \
    .struct_size = sizeof(opst_hash_routing_options), .reserved = 0, .num_experts = 0, .top_k = 1, \
    .table = NULL, .seed = 0                                                                       \
  }

// token_ids [T] i32, -1 = no token.
OPST_API opst_status opst_route_by_hash(const opst_context* context, const opst_view* token_ids,
                                        const opst_hash_routing_options* options,
                                        const opst_routing_plan_options* plan_options,
                                        opst_routing_plan** plan);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_HASH_ROUTING_H_
