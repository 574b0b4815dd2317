// evidence.cpp - the union of what parts of a policy ask for.
#include "core/evidence.h"

#include <algorithm>

namespace pith {

EvidenceNeeds EvidenceNeeds::merged(const EvidenceNeeds & other) const {
    EvidenceNeeds all = *this;
    all.window = std::max(window, other.window);
    all.window_mean = window_mean || other.window_mean;
    all.window_sq = window_sq || other.window_sq;
    all.last_query = last_query || other.last_query;
    all.running_sum = running_sum || other.running_sum;
    all.key_norm = key_norm || other.key_norm;
    if (running_sum && other.running_sum) {
        const bool whole = running_last == 0 || other.running_last == 0;
        all.running_last = whole ? 0 : std::max(running_last, other.running_last);
    } else {
        all.running_last = running_sum ? running_last : other.running_last;
    }
    return all;
}

}  // namespace pith
