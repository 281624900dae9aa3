// The load tracker, the update of the selection bias, and the placement of experts.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/load_balance.h"

#include "capi/conversions.h"
#include "opst/ops/expert_placement.h"

using opst::capi::Call;
using opst::capi::Run;

opst_status opst_load_tracker_create(int64_t num_experts, const opst_load_tracker_options* options,
                                     opst_load_tracker** tracker) {
  return opst::capi::Make(__func__, tracker, [&](const Call& call) {
    const auto given =
        call.Options(options, opst_load_tracker_options OPST_LOAD_TRACKER_OPTIONS_DEFAULT);
    call.Create(tracker, std::make_shared<opst::LoadTracker>(
                             num_experts, opst::LoadTrackerOptions{.decay = given.decay}));
  });
}

opst_status opst_load_tracker_destroy(opst_load_tracker* tracker) {
  return opst::capi::Destroy(__func__, tracker);
}

opst_status opst_load_tracker_observe(opst_load_tracker* tracker, const opst_view* expert_counts) {
  return Run(__func__, [&](const Call& call) {
    call.Get(tracker, "tracker")->Observe(call.Values<int64_t>(expert_counts, "expert_counts"));
  });
}

opst_status opst_load_tracker_utilization(const opst_load_tracker* tracker,
                                          const opst_view* utilization) {
  return Run(__func__, [&](const Call& call) {
    call.Copy<float>(call.Get(tracker, "tracker")->Utilization(), utilization, "utilization");
  });
}

opst_status opst_load_tracker_save(const opst_load_tracker* tracker, const opst_view* load) {
  return Run(__func__, [&](const Call& call) {
    call.Copy<double>(call.Get(tracker, "tracker")->Save(), load, "load");
  });
}

opst_status opst_load_tracker_restore(opst_load_tracker* tracker, const opst_view* load) {
  return Run(__func__, [&](const Call& call) {
    call.Get(tracker, "tracker")->Restore(call.Values<double>(load, "load"));
  });
}

opst_status opst_update_selection_bias(const opst_view* expert_counts,
                                       const opst_bias_update_options* options,
                                       const opst_view* bias) {
  return Run(__func__, [&](const Call& call) {
    const auto given =
        call.Options(options, opst_bias_update_options OPST_BIAS_UPDATE_OPTIONS_DEFAULT);
    opst::UpdateSelectionBias(call.Values<int64_t>(expert_counts, "expert_counts"),
                              {.rate = given.rate, .centers = call.Claim(given.centers, "centers")},
                              call.OutValues<float>(bias, "bias"));
  });
}

opst_status opst_plan_expert_placement(const opst_view* loads,
                                       const opst_expert_placement_options* options,
                                       const opst_view* expert_of_slot,
                                       const opst_view* copy_of_slot, const opst_view* num_copies) {
  return Run(__func__, [&](const Call& call) {
    const auto given =
        call.Options(options, opst_expert_placement_options OPST_EXPERT_PLACEMENT_OPTIONS_DEFAULT);
    const opst::ExpertPlacement placement = opst::PlanExpertPlacement(
        call.Values<double>(loads, "loads"), {.num_slots = given.num_slots,
                                              .num_ranks = given.num_ranks,
                                              .num_nodes = given.num_nodes,
                                              .num_groups = given.num_groups});
    // All rooms are checked before anything is written.
    call.Room<int32_t>(copy_of_slot, placement.copy_of_slot.size(), "copy_of_slot");
    call.Room<int32_t>(num_copies, placement.num_copies.size(), "num_copies");
    call.Copy<int32_t>(placement.expert_of_slot, expert_of_slot, "expert_of_slot");
    call.Copy<int32_t>(placement.copy_of_slot, copy_of_slot, "copy_of_slot");
    call.Copy<int32_t>(placement.num_copies, num_copies, "num_copies");
  });
}
