// One function per family; a new family adds its line here and in registry.cc.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_MODEL_ARCH_FAMILIES_H_
#define OPST_MODEL_ARCH_FAMILIES_H_

#include "model/family.h"

namespace opst {

Family Mixtral();
Family Olmoe();
Family Qwen3Moe();

}  // namespace opst

#endif  // OPST_MODEL_ARCH_FAMILIES_H_
