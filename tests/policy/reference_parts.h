// reference_parts.h - what the files of the reference share: what allocators and selectors see.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "policy/evidence/layer_profile.h"
#include "policy/reference.h"

namespace pith::test {

[[noreturn]] void missing(std::string_view part);  // it has no formula
[[noreturn]] void no_values(size_t kv_head);       // the evidence has none

struct Candidate {
    float score;
    int32_t position;
    int head;
};

// All lanes are layer-major.
struct ReferenceCase {
    const CacheShape & shape;
    const EvictionTarget & target;
    const std::vector<LayerEvidence> & layers;
    const std::vector<LayerScores> & layer_scores;
    int n_recent = 0;
    int64_t net_total = 0;
    Lanes scores;                                 // [n_lanes][entry], refined
    std::vector<std::vector<bool>> is_protected;  // [n_lanes][entry]
    std::vector<std::vector<Candidate>> lanes;    // [n_lanes] candidates, ascending
    std::vector<int> net_lengths;                 // [n_lanes]
    std::vector<LayerProfile> profiles;           // where a part of the policy asks for them
};

// Refers to its arguments.
ReferenceCase reference_case(const PolicyVariant & policy, const EvictionTarget & target,
                             const std::vector<LayerEvidence> & layers, const std::vector<LayerScores> & scores);

// clamp(λ·weight, 0, length) that sums to the total; lanes of weight 0 take what the others leave, evenly.
std::vector<long double> real_shares(const std::vector<double> & weights, const std::vector<int> & lengths, int64_t total);
// Largest remainder, once.
std::vector<int> whole_shares(const std::vector<long double> & shares, const std::vector<int> & lengths, int64_t total);
// Rounded up; what is nearer to a whole number than a millionth is that number.
int ceil_of(long double share);

// How many of the n best candidates each head holds; ties: the newer entry, then the lower head.
std::vector<double> count_best(std::vector<Candidate> candidates, int64_t n, int n_heads);

// A lane's scores as attention, not normalised: shifted by the least where one is negative, all 1 where all are 0.
std::vector<double> reference_attention(const std::vector<float> & scores);
// Σ a_i·v_i / Σ a_i over the entries that are left.
std::vector<double> mean_value(const std::vector<double> & a, const std::vector<float> & values,
                               const std::vector<bool> & left);

// [n_lanes], reference_allocators.cpp. cascade: when layer n_arrived - 1 has just come, every layer before being cut already.
std::vector<double> reference_weights(const PartVariant & allocator, const ReferenceCase & c);
std::vector<double> reference_cascade_weights(const PartVariant & allocator, const ReferenceCase & c, int n_arrived);
// Their sum is what is kept beside what is protected.
bool reference_keeps_less(const PartVariant & allocator);
// Empty where neither part asks for profiles. They have a reference of their own
// (tests/policy/allocate/head_profiles_test.cpp).
std::vector<LayerProfile> reference_profiles(const PolicyVariant & policy, const std::vector<LayerEvidence> & layers);
// [K][entry] by what a layer's lanes rank their entries when they have these shares: topk and diverse, reference_selectors.cpp
Lanes reference_priority(const PartVariant & selector, const ReferenceCase & c, int layer, const std::vector<int> & shares);
// The entries of each lane that are kept, ascending, reference_selectors.cpp
KeptLanes reference_select(const PartVariant & selector, const ReferenceCase & c, const std::vector<int> & shares);

}  // namespace pith::test
