// head_profiles.h - distances between the heads of neighbouring layers, from their attention profiles. Stage: allocate.
// Pure C++: no ggml, no I/O.
//
//   profile rows  f32 [H][lane length]              ū_g: mean over the sampled queries of the normalised attention row
//   sampled rows  f32 [H·n_sampled][lane length]    the rows themselves (Jensen–Shannon and Euclidean only)
//
// D(g,g') is the mean distance over all pairs of sampled queries. Cosine, Pearson, Bhattacharyya: D = 1 - ⟨ū_g, ū_g'⟩, so that
// with ū_l the mean over the heads of layer l:
//   IR = 1 - |ū_l|²,  μ = 1 - ⟨ū_l, ū_{l-1}⟩,  HD_g = 1 - ⟨ū_g, ū_l + ū_{l-1}⟩/2 (layer 0: 1 - ⟨ū_g, ū_0⟩)
// Jensen–Shannon (root of the divergence in bits) and Euclidean do not collapse: every pair is computed (row_distances.h).
// Lanes may differ in the positions they hold: a position that a lane lacks counts as 0.
// Not the single D but IR, μ and each head's HD are clamped to at least 1e-6.
// Cost:    O(H·n) a layer; with sampled rows O(H²·n_sampled²·n). For 32 heads and 7,500 entries, two threads with AVX-512:
//          1 s a layer (Euclidean) or 4 s (Jensen–Shannon) for 64 sampled queries; by its square, ten times that for 200.
// Memory:  with sampled rows those of two layers are held, each 4 bytes for a sampled query and an entry that it sees.
// Errors:  kMissingEvidence, kNotFinite; of the threads.   Threads: one at a time; it uses those of `run`.
// Paper:   SCORE, equations (4) to (8).
#pragma once

#include <vector>

#include "core/tasks.h"
#include "policy/allocate/row_distances.h"
#include "policy/evidence/evidence.h"
#include "policy/evidence/layer_profile.h"

namespace pith {

class HeadProfiles {
public:
    explicit HeadProfiles(HeadDistance distance) : distance_(distance) {}

    // REQUIRES: layers in order. Overwrites `profile`, the same however `run` deals out its tasks.
    Status add(const LayerEvidence & evidence, LayerProfile & profile, const RunTasks & run = run_in_turn);

private:
    void compare_means(const LayerEvidence & evidence, LayerProfile & profile, std::vector<double> & heads);
    Status compare_rows(const LayerEvidence & evidence, const RunTasks & run, LayerProfile & profile,
                        std::vector<double> & heads);

    HeadDistance distance_;
    bool has_previous_ = false;
    std::vector<double> previous_mean_;  // ū of the layer before, by position
    SampledRows previous_rows_;
};

}  // namespace pith
