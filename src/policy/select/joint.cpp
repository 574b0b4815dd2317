// joint.cpp - evicts one entry after another, each time the one that keeps the attention output nearest to what it was.
// Stage: select.   Pure C++: no ggml, no I/O.
//
// a = the scorer's scores normalised to 1 over the lane, X = Σ a_i·v_i, both fixed before the first eviction. With r and s the
// sums of a_i·(X - v_i) and of a_i over the entries already gone, the next to go is the candidate with the least
//   |r + a_j·(X - v_j)|₂ / (1 - s - a_j)
// which is how far the output then is from X: CAOTE's (24). Under grouped heads the root of the sum over g of squares, from
// each query head's own scores where the scorer has them. Protected entries count in X and are never candidates; a refiner's
// scores are for the allocator, they take no part here. Errors are compared in f32, so that f64's rounding decides no tie; of
// equals the older entry goes. What is kept is ranked by the order in which it would have gone next: a few entries by going on,
// the others, which no cascade of this kind asks for, by their error at that point.
// Cost:    O(m · n · d · G) for m evictions from n candidates; scratch n · d, in f32 for every lane, in f64 for those being
//          chosen. For chunks, not for a whole prompt at once.
// Paper:   beyond it. CAOTE (Appendix B and limitations) names the problem: it evicts by each entry's own error.
// Differs: greedy: exact for one eviction, not for several.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "policy/lane/eviction_weights.h"
#include "policy/select/ranked_lane.h"
#include "policy/select/selector.h"

namespace pith {
namespace {

constexpr int kRankedBeyond = 8;  // rounding up in a cascade leaves at most one entry a lane too many

// One query head (or the KV head's mean) of a lane. Weights are not normalised: numerator and denominator share the factor.
struct Head {
    std::vector<double> weights;      // [n] of all entries; 0 once gone
    std::vector<double> mean;         // X [d]
    std::vector<double> along;        // r·(X - v_j) [candidate]
    std::vector<double> distance_sq;  // |X - v_j|² [candidate]
    double moved_sq = 0;              // |r|²
};

class Elimination {
public:
    // values [n][d]; candidates ascending.
    Elimination(std::span<const float> values, size_t d, std::vector<int32_t> candidates,
                std::vector<std::vector<double>> weights)
        : candidates_(std::move(candidates)), n_(candidates_.size()), d_(d), columns_(n_ * d_), gone_(n_, 0) {
        for (size_t i = 0; i < n_; ++i) {
            const auto entry = values.subspan(static_cast<size_t>(candidates_[i]) * d, d);
            for (size_t c = 0; c < d; ++c) { columns_[c * n_ + i] = entry[c]; }
        }
        for (std::vector<double> & of_head : weights) { add_head(values, std::move(of_head)); }
    }

    // The entry whose going leaves the output nearest to X goes. Returns its index in the lane. REQUIRES: one is left.
    int32_t evict() {
        compute_errors();
        size_t out = n_;
        for (size_t i = 0; i < n_; ++i) {
            if (gone_[i] == 0 && (out == n_ || errors_[i] < errors_[out])) { out = i; }
        }
        for (Head & head : heads_) { remove(head, out); }
        gone_[out] = 1;
        return candidates_[out];
    }

    // Those left, the most costly to evict first; of equals the newer.
    std::vector<int32_t> left() {
        compute_errors();
        std::vector<size_t> order;
        for (size_t i = 0; i < n_; ++i) {
            if (gone_[i] == 0) { order.push_back(i); }
        }
        std::sort(order.begin(), order.end(),
                  [&](size_t a, size_t b) { return errors_[a] != errors_[b] ? errors_[a] > errors_[b] : a > b; });
        std::vector<int32_t> entries;
        for (const size_t i : order) { entries.push_back(candidates_[i]); }
        return entries;
    }

private:
    void add_head(std::span<const float> values, std::vector<double> weights) {
        Head head;
        const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
        head.mean.assign(d_, 0.0);
        for (size_t j = 0; j < weights.size(); ++j) {
            for (size_t c = 0; c < d_; ++c) { head.mean[c] += weights[j] * values[j * d_ + c]; }
        }
        for (double & x : head.mean) { x /= sum; }
        head.along.assign(n_, 0.0);
        head.distance_sq.assign(n_, 0.0);
        for (size_t c = 0; c < d_; ++c) {
            const double * column = columns_.data() + c * n_;
            const double mean = head.mean[c];
            for (size_t i = 0; i < n_; ++i) { head.distance_sq[i] += (mean - column[i]) * (mean - column[i]); }
        }
        head.weights = std::move(weights);
        heads_.push_back(std::move(head));
    }

    static double moved_sq_without(const Head & head, size_t i, double weight) {
        return std::max(0.0, head.moved_sq + weight * (2 * head.along[i] + weight * head.distance_sq[i]));
    }

    void compute_errors() {
        std::vector<double> sums(n_, 0.0);
        for (const Head & head : heads_) {
            const std::vector<double> others = sums_of_others(head.weights);  // 1 - s - a_j, without cancellation
            for (size_t i = 0; i < n_; ++i) {
                const auto j = static_cast<size_t>(candidates_[i]);
                // The last entry that weighs anything cannot be missed at all.
                sums[i] += others[j] > 0 ? moved_sq_without(head, i, head.weights[j]) / (others[j] * others[j])
                                         : std::numeric_limits<double>::infinity();
            }
        }
        errors_.resize(n_);
        for (size_t i = 0; i < n_; ++i) { errors_[i] = static_cast<float>(std::sqrt(sums[i])); }
    }

    // r += a_i·(X - v_i), and with it every r·(X - v_j).
    void remove(Head & head, size_t i) {
        const auto j = static_cast<size_t>(candidates_[i]);
        const double weight = head.weights[j];
        if (weight == 0) { return; }
        head.moved_sq = moved_sq_without(head, i, weight);
        for (size_t c = 0; c < d_; ++c) {
            const double * column = columns_.data() + c * n_;
            const double mean = head.mean[c];
            const double step = weight * (mean - column[i]);
            double * along = head.along.data();
            for (size_t k = 0; k < n_; ++k) { along[k] += step * (mean - column[k]); }
        }
        head.weights[j] = 0;
    }

    std::vector<int32_t> candidates_;
    size_t n_;
    size_t d_;
    std::vector<double> columns_;  // candidates' values, [d][n]: the inner loops run along n
    std::vector<char> gone_;
    std::vector<Head> heads_;
    std::vector<float> errors_;
};

class Joint final : public Selector {
public:
    EvidenceNeeds needs() const override { return {.values = true}; }
    bool wants_evidence() const override { return true; }

    Status select(const LayerView & layer, std::span<const int> shares, const RunTasks & run,
                  LayerChoice & choice) const override {
        PITH_RETURN_IF_ERROR(require_values("joint", *layer.evidence));
        const ValueSource & source = *layer.evidence->values;
        const bool per_head = layer.head_scores != nullptr;
        const int n_rows = per_head ? layer.evidence->n_group : 1;
        const Ragged<float> & scores = per_head ? *layer.head_scores : *layer.base_scores;
        const auto d = static_cast<size_t>(source.head_dim_v());
        std::vector<std::vector<float>> values(static_cast<size_t>(layer.n_lanes()));  // read in turn: the source is one
        for (int h = 0; h < layer.n_lanes(); ++h) {
            std::vector<float> & lane = values[static_cast<size_t>(h)];
            PITH_RETURN_IF_ERROR(source.lane_values(h, lane));
            if (std::ranges::all_of(lane, [](float x) { return std::isfinite(x); })) { continue; }
            return {ErrorCode::kNotFinite, "joint: values of layer " + std::to_string(layer.evidence->layer) + ", head " +
                                               std::to_string(h) +
                                               " are no numbers: the model's weights or its evidence are broken"};
        }
        const auto choose = [&](int h, LaneChoice & lane) {
            std::vector<int32_t> candidates;
            for_each_candidate_run(layer.positions.length(h), layer.protected_ranges.row(h), [&](int begin, int end) {
                for (int j = begin; j < end; ++j) { candidates.push_back(j); }
            });
            std::vector<std::vector<double>> weights;
            for (int g = 0; g < n_rows; ++g) { weights.push_back(eviction_weights(scores.row(h * n_rows + g))); }

            const auto share = shares[static_cast<size_t>(h)];
            const auto n_candidates = static_cast<int>(candidates.size());
            Elimination elimination(values[static_cast<size_t>(h)], d, std::move(candidates), std::move(weights));
            for (int n_left = n_candidates; n_left > share; --n_left) {
                if (layer.cancelled()) { return; }
                elimination.evict();
            }
            std::vector<int32_t> next_to_go;
            for (int i = 0; i < std::min(share, kRankedBeyond); ++i) { next_to_go.push_back(elimination.evict()); }
            std::vector<int32_t> ranked = elimination.left();
            ranked.insert(ranked.end(), next_to_go.rbegin(), next_to_go.rend());
            lane = ranked_lane(layer.protected_ranges.row(h), ranked);
        };
        return choose_by_lane(layer.n_lanes(), run, choose, choice);
    }
};

}  // namespace

SelectorInfo joint_selector() {
    return {"joint",
            "evicts one by one what keeps the attention output nearest (for chunks: costs evictions times entries)",
            "what is left when entries are evicted one by one, each time the one whose loss changes the output least",
            "beyond CAOTE: Optimizing KV Cache Memory through Attention Output Error-based Token Eviction",
            {},
            [](const Options &) -> std::shared_ptr<const Selector> { return std::make_shared<Joint>(); }};
}

}  // namespace pith
