// The C API: every family of the library behind one include. C11; C++ has its own headers.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
//
// The rules of every function (status, ownership, versions of structs): opst/c/status.h.
#ifndef OPST_OPST_H_
#define OPST_OPST_H_

#include "opst/c/activation.h"
#include "opst/c/context.h"
#include "opst/c/convert.h"
#include "opst/c/engine.h"
#include "opst/c/expert_choice.h"
#include "opst/c/expert_counts.h"
#include "opst/c/gating.h"
#include "opst/c/grouped_matmul.h"
#include "opst/c/hash_routing.h"
#include "opst/c/load_balance.h"
#include "opst/c/loss.h"
#include "opst/c/memory_plan.h"
#include "opst/c/model.h"
#include "opst/c/moe_ffn.h"
#include "opst/c/moe_layer.h"
#include "opst/c/pack.h"
#include "opst/c/permute.h"
#include "opst/c/routing_plan.h"
#include "opst/c/sampling.h"
#include "opst/c/sparse_rows.h"
#include "opst/c/status.h"
#include "opst/c/tensor.h"
#include "opst/c/tokenizer.h"
#include "opst/c/version.h"

#endif  // OPST_OPST_H_
