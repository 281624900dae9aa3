// The slow, obvious implementations: last in every operator's list, and what OPST_IMPLEMENTATION=
// reference runs. Test oracles are not these; they are written again, in fp64, in the tests.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_REF_REFERENCE_H_
#define OPST_OPS_REF_REFERENCE_H_

#include "ops/requests.h"
#include "opst/context.h"

namespace opst::ref {

void Gate(const Context& context, const GatingRequest& request);
void GateBackward(const Context& context, const GateBackwardRequest& request);
void PickTokens(const Context& context, const ExpertChoiceRequest& request);
void GroupedMatmul(const Context& context, const GroupedMatmulRequest& request);
void MoeFfn(const Context& context, const MoeFfnRequest& request);

}  // namespace opst::ref

#endif  // OPST_OPS_REF_REFERENCE_H_
