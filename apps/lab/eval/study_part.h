// study_part.h - what a part of a study comes to on this model, with this data: evaluations, or a measurement of speed.
#pragma once

#include <string>
#include <vector>

#include "app/eval/eval_flags.h"
#include "eval/studies/studies.h"
#include "speed/policy_speed.h"

namespace pith::app {

// What was given for the whole study goes over the parts' own: budgets, lengths, samples, chunk. Not given: empty, or these.
inline constexpr int kStudysOwn = -1;  // EvalFlags::evict_every; chunk and n_samples: 0

struct StudyModel {
    ModelInfo info;
    bool is_reference = false;  // the built-in one: parts take its sizes
    bool has_heads = false;     // head importances are there
};

struct PartPlan {
    std::string passed_over;             // why nothing is run; empty: something is
    std::vector<std::string> notes;      // what is left out of it, and why
    bool stands_in = false;              // RULER's tasks, in place of data that is not there
    std::vector<EvalFlags> runs;         // one after the other: a chunk each
    PolicySpeedOptions speed;            // where the part is StudyKind::kEfficiency
    std::vector<PolicyChoice> policies;  // that are run
};

// Policies without what they need, tasks without their file and lengths beyond the model's are left out, not refused.
// Errors: kInvalidArgument: an option that cannot be.
Result<PartPlan> plan_part(const EvalFlags & given, const StudyPart & part, const StudyModel & model);

}  // namespace pith::app
