// custom_scorers.h - the scorers of their own that users have registered. Stage: set-up.
// Pure C++: no ggml, no I/O.   Threads: any.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "policy/score/custom_scorer.h"

namespace pith {

// Null: there is none of this name. Whoever holds it uses it.
std::shared_ptr<const OwnScorer> custom_scorer(std::string_view name);
// In the order in which they came.
std::vector<std::shared_ptr<const OwnScorer>> custom_scorers();

}  // namespace pith
