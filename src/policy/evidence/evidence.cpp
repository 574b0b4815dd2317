// evidence.cpp - the union of what parts of a policy ask for.
#include "policy/evidence/evidence.h"

#include <algorithm>

namespace pith {
namespace {

ProfileNeeds merged_profile(const ProfileNeeds & a, const ProfileNeeds & b) {
    if (!a.any() || !b.any()) { return a.any() ? a : b; }
    const ProfileNeeds defaults;
    ProfileNeeds all = a;
    if (a.n_queries == kDefaultProfileQueries || b.n_queries == kDefaultProfileQueries) {
        all.n_queries = a.n_queries == kDefaultProfileQueries ? b.n_queries : a.n_queries;
    } else {
        all.n_queries = std::max(a.n_queries, b.n_queries);
    }
    if (a.margin == defaults.margin) { all.margin = b.margin; }
    if (a.seed == defaults.seed) { all.seed = b.seed; }
    if (a.sample == defaults.sample) { all.sample = b.sample; }
    if (a.distance == defaults.distance) { all.distance = b.distance; }
    return all;
}

}  // namespace

EvidenceNeeds EvidenceNeeds::merged(const EvidenceNeeds & other) const {
    EvidenceNeeds all = *this;
    all.window = std::max(window, other.window);
    all.window_mean = window_mean || other.window_mean;
    all.window_max = window_max || other.window_max;
    all.window_max_pool = std::max(window_max_pool, other.window_max_pool);
    all.window_sq = window_sq || other.window_sq;
    all.window_head_sq = window_head_sq || other.window_head_sq;
    all.window_pairs = window_pairs || other.window_pairs;
    all.window_entropy = window_entropy || other.window_entropy;
    all.window_rows = window_rows || other.window_rows;
    all.window_queries = window_queries || other.window_queries;
    all.key_rows = key_rows || other.key_rows;
    all.value_rows = value_rows || other.value_rows;
    all.last_query = last_query || other.last_query;
    all.running_sum = running_sum || other.running_sum;
    all.key_norm = key_norm || other.key_norm;
    all.key_cosine = key_cosine || other.key_cosine;
    all.key_leverage = key_leverage || other.key_leverage;
    all.block_attention = block_attention || other.block_attention;
    all.expected_future = std::max(expected_future, other.expected_future);
    all.value_l1 = value_l1 || other.value_l1;
    all.value_l2 = value_l2 || other.value_l2;
    all.output_l1 = output_l1 || other.output_l1;
    all.output_l2 = output_l2 || other.output_l2;
    all.output_pairs = output_pairs || other.output_pairs;
    all.retention = retention || other.retention;
    all.reread_max = reread_max || other.reread_max;
    all.values = values || other.values;
    all.output_errors = output_errors || other.output_errors;
    all.profile = merged_profile(profile, other.profile);
    if (running_sum && other.running_sum) {
        const bool whole = running_last == 0 || other.running_last == 0;
        all.running_last = whole ? 0 : std::max(running_last, other.running_last);
    } else {
        all.running_last = running_sum ? running_last : other.running_last;
    }
    return all;
}

EvidenceNeeds EvidenceNeeds::without_rows() const {
    EvidenceNeeds kept = *this;
    kept.window_rows = kept.window_queries = kept.key_rows = kept.value_rows = false;
    return kept;
}

}  // namespace pith
