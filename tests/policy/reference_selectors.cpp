// reference_selectors.cpp - the selectors' formulas: the entries that each lane keeps.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "policy/formulas.h"

namespace pith::test {
namespace {

std::vector<int32_t> top_of(const std::vector<float> & scores, const std::vector<bool> & is_protected, int share) {
    std::vector<int32_t> order;
    std::vector<int32_t> kept;
    for (int32_t j = 0; j < static_cast<int32_t>(scores.size()); ++j) {
        (is_protected[static_cast<size_t>(j)] ? kept : order).push_back(j);
    }
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        const float x = scores[static_cast<size_t>(a)];
        const float y = scores[static_cast<size_t>(b)];
        return x != y ? x > y : a > b;
    });
    kept.insert(kept.end(), order.begin(), order.begin() + share);
    std::sort(kept.begin(), kept.end());
    return kept;
}

// CriticalKV's Algorithm 1 over the candidates of one lane.
std::vector<int32_t> critical_of(const PartVariant & selector, const ReferenceCase & c, size_t lane, int share) {
    const LayerEvidence & evidence = c.layers[lane / static_cast<size_t>(c.shape.n_kv_heads)];
    const Ragged<float> & norms = selector.is("norm", "1") ? evidence.output_l1 : evidence.output_l2;
    const int h = static_cast<int>(lane) % c.shape.n_kv_heads;
    const std::vector<float> & scores = c.scores[lane];
    std::vector<bool> is_out = c.is_protected[lane];  // no candidate, or taken
    double least = 0;
    for (size_t j = 0; j < scores.size(); ++j) least = is_out[j] ? least : std::min<double>(least, scores[j]);
    std::vector<int32_t> kept;
    const auto take_best = [&](const auto & value) {
        int best = -1;
        for (int j = 0; j < static_cast<int>(scores.size()); ++j) {
            if (!is_out[static_cast<size_t>(j)] && (best < 0 || value(j) >= value(best))) best = j;
        }
        is_out[static_cast<size_t>(best)] = true;
        kept.push_back(best);
    };
    int n_first = static_cast<int>(selector.number("alpha") * share + 1e-9);
    if (selector.is("stage1", "window")) {  // the window is in the budget and among the first
        const int n_window = std::min(c.n_recent, static_cast<int>(scores.size()));
        n_first = std::max(0, static_cast<int>(selector.number("alpha") * (share + n_window) + 1e-9) - n_window);
    }
    for (int i = 0; i < n_first; ++i) take_best([&](int j) { return double{scores[static_cast<size_t>(j)]}; });
    for (int i = n_first; i < share; ++i) {
        take_best([&](int j) {
            double norm = 0;
            for (int g = 0; g < c.shape.n_group; ++g) norm += norms.row(h * c.shape.n_group + g)[static_cast<size_t>(j)];
            return (scores[static_cast<size_t>(j)] - least + selector.number("eps")) * (norm / c.shape.n_group);
        });
    }
    for (int32_t j = 0; j < static_cast<int32_t>(scores.size()); ++j) {
        if (c.is_protected[lane][static_cast<size_t>(j)]) kept.push_back(j);
    }
    std::sort(kept.begin(), kept.end());
    return kept;
}

// One after another, the candidate whose going leaves the outputs of the group nearest to what they were at first.
std::vector<int32_t> joint_of(const ReferenceCase & c, size_t lane, int share) {
    const size_t layer = lane / static_cast<size_t>(c.shape.n_kv_heads);
    const size_t h = lane % static_cast<size_t>(c.shape.n_kv_heads);
    const LayerScores & scores = c.layer_scores[layer];
    const size_t n_rows = scores.heads.empty() ? 1 : static_cast<size_t>(c.shape.n_group);
    std::vector<float> values;
    if (!c.layers[layer].values->lane_values(static_cast<int>(h), values).ok()) no_values(h);
    std::vector<std::vector<double>> a;
    std::vector<std::vector<double>> first;
    std::vector<bool> left(scores.base[h].size(), true);
    for (size_t g = 0; g < n_rows; ++g) {
        a.push_back(reference_attention(scores.heads.empty() ? scores.base[h] : scores.heads[h * n_rows + g]));
        first.push_back(mean_value(a[g], values, left));
    }
    std::vector<std::vector<double>> sums(n_rows);  // Σ a_i·v_i of what is left
    const auto error_without = [&](size_t j) {
        double sum = 0;
        for (size_t g = 0; g < n_rows; ++g) {
            double weight = 0;
            for (size_t i = 0; i < left.size(); ++i) weight += left[i] && i != j ? a[g][i] : 0;
            const size_t d = sums[g].size();
            for (size_t k = 0; k < d; ++k) {
                sum += std::pow((sums[g][k] - a[g][j] * values[j * d + k]) / weight - first[g][k], 2);
            }
            if (weight == 0) return std::numeric_limits<float>::infinity();
        }
        return static_cast<float>(std::sqrt(sum));  // f32: what is nearer than that is a tie
    };
    for (int n = c.net_lengths[lane]; n > share; --n) {
        for (size_t g = 0; g < n_rows; ++g) {
            sums[g].assign(first[g].size(), 0.0);
            for (size_t i = 0; i < left.size(); ++i) {
                for (size_t k = 0; k < sums[g].size(); ++k)
                    sums[g][k] += left[i] ? a[g][i] * values[i * sums[g].size() + k] : 0;
            }
        }
        size_t worst = left.size();
        float least = 0;
        for (size_t j = 0; j < left.size(); ++j) {
            if (!left[j] || c.is_protected[lane][j]) continue;
            const float error = error_without(j);
            if (worst == left.size() || error < least) worst = j, least = error;
        }
        left[worst] = false;
    }
    std::vector<int32_t> kept;
    for (size_t j = 0; j < left.size(); ++j) {
        if (left[j]) kept.push_back(static_cast<int32_t>(j));
    }
    return kept;
}

// SCORE (13): a lane's scores, lowered for every lane before it in the order that chose the same position.
Lanes diverse_priority(const PartVariant & selector, const ReferenceCase & c, int layer, const std::vector<int> & shares) {
    const std::vector<double> & distances = c.profiles[static_cast<size_t>(layer)].head_distance;
    std::vector<int> order;
    for (int h = 0; h < c.shape.n_kv_heads; ++h) order.push_back(h);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
        return selector.is("order", "hd") && distances[static_cast<size_t>(a)] > distances[static_cast<size_t>(b)];
    });
    std::map<int32_t, int> n_chosen;  // by position
    Lanes priority(static_cast<size_t>(c.shape.n_kv_heads));
    for (const int h : order) {
        const auto lane = static_cast<size_t>(c.shape.lane(layer, h));
        const auto positions = c.layers[static_cast<size_t>(layer)].positions.row(h);
        double least = 0;
        for (const Candidate & x : c.lanes[lane]) least = std::min<double>(least, x.score);
        std::vector<float> & own = priority[static_cast<size_t>(h)];
        for (size_t j = 0; j < c.scores[lane].size(); ++j) {
            const double rate = selector.number("alpha") / distances[static_cast<size_t>(h)];
            own.push_back(static_cast<float>((c.scores[lane][j] - least) * std::exp(-rate * n_chosen[positions[j]])));
        }
        for (const int32_t j : top_of(own, c.is_protected[lane], shares[static_cast<size_t>(h)])) {
            const auto entry = static_cast<size_t>(j);
            if (!c.is_protected[lane][entry]) ++n_chosen[positions[entry]];
        }
    }
    return priority;
}

KeptLanes diverse(const PartVariant & selector, const ReferenceCase & c, const std::vector<int> & shares) {
    KeptLanes kept;
    for (int layer = 0; layer < c.shape.n_layers; ++layer) {
        const auto first = shares.begin() + c.shape.lane(layer, 0);
        const std::vector<int> own(first, first + c.shape.n_kv_heads);
        const Lanes priority = diverse_priority(selector, c, layer, own);
        for (size_t h = 0; h < own.size(); ++h) kept.push_back(top_of(priority[h], c.is_protected[kept.size()], own[h]));
    }
    return kept;
}

// Each lane by itself.
template <class KeepOne>
KeptLanes by_lane(const std::vector<int> & shares, const KeepOne & keep_one) {
    KeptLanes kept;
    for (size_t lane = 0; lane < shares.size(); ++lane) kept.push_back(keep_one(lane, shares[lane]));
    return kept;
}

KeptLanes topk(const PartVariant & /*selector*/, const ReferenceCase & c, const std::vector<int> & shares) {
    return by_lane(shares, [&](size_t lane, int share) { return top_of(c.scores[lane], c.is_protected[lane], share); });
}

KeptLanes critical(const PartVariant & selector, const ReferenceCase & c, const std::vector<int> & shares) {
    return by_lane(shares, [&](size_t lane, int share) { return critical_of(selector, c, lane, share); });
}

KeptLanes joint(const PartVariant & /*selector*/, const ReferenceCase & c, const std::vector<int> & shares) {
    return by_lane(shares, [&](size_t lane, int share) { return joint_of(c, lane, share); });
}

const Known<SelectorFormula> kSelectors[] = {
    Known<SelectorFormula>({"topk", topk, /*compares_scores=*/false}),
    Known<SelectorFormula>({"critical", critical}),
    Known<SelectorFormula>({"joint", joint}),
    Known<SelectorFormula>({"diverse", diverse}),
};

}  // namespace

Lanes reference_priority(const PartVariant & selector, const ReferenceCase & c, int layer, const std::vector<int> & shares) {
    if (selector.name == "diverse") return diverse_priority(selector, c, layer, shares);
    if (selector.name != "topk") missing(selector.name);
    const auto first = c.scores.begin() + c.shape.lane(layer, 0);
    return {first, first + c.shape.n_kv_heads};
}

KeptLanes reference_select(const PartVariant & selector, const ReferenceCase & c, const std::vector<int> & shares) {
    return Known<SelectorFormula>::of(selector).keep(selector, c, shares);
}

}  // namespace pith::test
