// model_top.h - the best candidates of the layers so far, whatever their layer and head. Stage: allocate.
// Pure C++: no ggml, no I/O.
//
// Order: the higher score; of equals the newer entry, then the lower layer, then the lower head. An entry outside the best of
// the layers so far is outside the final best, since the threshold can only rise: so layers may come one by one.
// Cost: O(budget + the layer's entries) per layer (partial selection); 16 bytes per candidate kept (of all layers, where they
// come at once).
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "policy/allocate/allocator.h"
#include "policy/allocate/layer_top.h"

namespace pith {

class ModelTop final : public AllocatorState {
public:
    // Takes the layer's candidates of `least` or more, by scale(score), and weighs each lane by how many of the model's best
    // it holds: of the budget's total, or of fewer, where there are no more.
    template <class Scale>
    void add(const LayerView & layer, const NetBudget & budget, const Scale & scale, std::span<double> weights,
             double least = -std::numeric_limits<double>::infinity()) {
        for (int h = 0; h < layer.n_lanes(); ++h) {
            const auto scores = layer.scores.row(h);
            const auto positions = layer.positions.row(h);
            const int32_t lane = budget.shape.lane(layer.layer, h);
            for_each_candidate_run(layer.scores.length(h), layer.protected_ranges.row(h), [&](int begin, int end) {
                for (auto j = static_cast<size_t>(begin); j < static_cast<size_t>(end); ++j) {
                    const double score = scale(scores[j]);
                    if (score >= least) { kept_.push_back({score, positions[j], lane}); }
                }
            });
        }
        if (budget.cascade || layer.layer + 1 == budget.shape.n_layers) { count(budget.total, weights); }
    }

private:
    struct Ranked {
        double score;
        int32_t position;
        int32_t lane;  // layer-major
    };
    static bool better(const Ranked & a, const Ranked & b);
    // Drops all but the best `total`; weights [n_lanes]: how many of them each lane holds.
    void count(int64_t total, std::span<double> weights);

    std::vector<Ranked> kept_;
};

}  // namespace pith
