// head_profiles.h - distances between the heads of neighbouring layers, from their attention profiles. Stage: allocate.
// Pure C++: no ggml, no I/O.
//
//   profile rows  f32 [H][lane length]              ū_g: mean over the sampled queries of the normalised attention row
//   sampled rows  f32 [H·n_sampled][lane length]    the rows themselves (Jensen–Shannon and Euclidean only)
//
// D(g,g') is the mean distance over all pairs of sampled queries. Cosine, Pearson, Bhattacharyya: D = 1 - ⟨ū_g, ū_g'⟩, so that
// with ū_l the mean over the heads of layer l:
//   IR = 1 - |ū_l|²,  μ = 1 - ⟨ū_l, ū_{l-1}⟩,  HD_g = 1 - ⟨ū_g, ū_l + ū_{l-1}⟩/2 (layer 0: 1 - ⟨ū_g, ū_0⟩)
// Jensen–Shannon (root of the divergence in bits) and Euclidean do not collapse: every pair is computed.
// Lanes may differ in the positions they hold: a position that a lane lacks counts as 0.
// Not the single D but IR, μ and each head's HD are clamped to at least 1e-6.
// Cost:    O(H·n) a layer; with sampled rows O(H²·n_sampled²·n), and two layers' rows are held: an ablation for research.
// Errors:  kMissingEvidence, kNotFinite.   Threads: one at a time.
// Paper:   SCORE, equations (4) to (8).
#pragma once

#include <vector>

#include "core/evidence.h"
#include "core/layer_profile.h"

namespace pith {

class HeadProfiles {
public:
    explicit HeadProfiles(HeadDistance distance) : distance_(distance) {}

    // REQUIRES: layers in order. Overwrites `profile`.
    Status add(const LayerEvidence & evidence, LayerProfile & profile);

private:
    // Sampled rows by position: the row of query s of head g is values[(g · n_sampled + s) · n_positions …].
    struct Rows {
        size_t n_positions = 0;
        size_t n_sampled = 0;
        std::vector<float> values;
    };

    void compare_means(const LayerEvidence & evidence, LayerProfile & profile, std::vector<double> & heads);
    void compare_rows(const LayerEvidence & evidence, LayerProfile & profile, std::vector<double> & heads);
    double mean_distance(const Rows & a, size_t head_a, const Rows & b, size_t head_b) const;

    HeadDistance distance_;
    bool has_previous_ = false;
    std::vector<double> previous_mean_;  // ū of the layer before, by position
    Rows previous_rows_;
};

}  // namespace pith
