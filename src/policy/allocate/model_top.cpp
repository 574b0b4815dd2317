// model_top.cpp - the order, and the cut.
#include "policy/allocate/model_top.h"

#include <algorithm>

namespace pith {

bool ModelTop::better(const Ranked & a, const Ranked & b) {
    if (a.score != b.score) { return a.score > b.score; }
    return a.position != b.position ? a.position > b.position : a.lane < b.lane;
}

void ModelTop::count(int64_t total, std::span<double> weights) {
    if (std::ssize(kept_) > total) {
        std::nth_element(kept_.begin(), kept_.begin() + total, kept_.end(), better);
        kept_.resize(static_cast<size_t>(total));
    }
    std::fill(weights.begin(), weights.end(), 0.0);
    for (const Ranked & entry : kept_) { weights[static_cast<size_t>(entry.lane)] += 1; }
}

}  // namespace pith
