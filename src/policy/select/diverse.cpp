// diverse.cpp - the highest scores, lowered where other lanes of the layer chose the position already. Stage: select.
// Pure C++: no ggml, no I/O.
//
// Ã = score · exp(-α/HD_h · r_j), r_j = how many lanes of this layer have chosen position j before (as candidates: protected
// entries are not counted), HD_h the lane's distinctness (head_profiles.h). Lanes choose one after another.
//   order=hd     the most distinct first, of equals the lower head
//   order=index  by head, as the paper loops
// A lane gives back its lowest Ã first; Ã is fixed when the layer is ranked.
// Scores that can be negative are first lowered by the minimum of their lane's candidates (a factor must not raise them).
// Cost:    O(entries of the layer), one counter per position.
// Paper:   SCORE, equation (13).
// Differs: the order of the lanes.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "policy/lane/top.h"
#include "policy/select/selector.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    real_option("alpha", "0.004", 0, 1e6, "how much less a position counts for each head that has it already"),
    word_option("order", "hd", "hd|index", "which head chooses first: the most distinct one, or the one of lowest index"),
};

constexpr int kQueries = kDefaultProfileQueries;  // where no other part says how many

std::vector<int> lane_order(std::span<const double> distances, bool by_distance) {
    std::vector<int> order(distances.size());
    std::iota(order.begin(), order.end(), 0);
    if (by_distance) {
        std::stable_sort(order.begin(), order.end(),
                         [&](int a, int b) { return distances[static_cast<size_t>(a)] > distances[static_cast<size_t>(b)]; });
    }
    return order;
}

class Diverse final : public Selector {
public:
    explicit Diverse(const Options & options) : alpha_(options.real("alpha")), by_distance_(options.is("order", "hd")) {}

    EvidenceNeeds needs() const override {
        EvidenceNeeds needs;
        needs.profile.n_queries = kQueries;
        return needs;
    }

    // Lanes choose in turn: each must know what those before it have.
    Status select(const LayerView & layer, std::span<const int> shares, const RunTasks & /*run*/,
                  LayerChoice & choice) const override {
        if (layer.profile == nullptr) {
            return {ErrorCode::kMissingEvidence, "diverse needs head profiles, and layer " + std::to_string(layer.layer) +
                                                     " has none: capture what the policy's needs() ask for"};
        }
        choice = {};
        const std::vector<double> & distances = layer.profile->head_distance;
        std::vector<int> n_chosen;  // r, by position
        std::vector<LaneChoice> lanes(distances.size());
        TopSelector top;
        std::vector<float> lowered;
        for (const int h : lane_order(distances, by_distance_)) {
            LaneChoice & lane = lanes[static_cast<size_t>(h)];
            const auto positions = layer.positions.row(h);
            const auto ranges = layer.protected_ranges.row(h);
            if (!positions.empty() && std::ssize(n_chosen) <= positions.back()) {
                n_chosen.resize(static_cast<size_t>(positions.back()) + 1, 0);
            }
            lower(layer, h, n_chosen, lowered);
            top.with_protected(lowered, ranges, shares[static_cast<size_t>(h)], lane.keep);
            auto range = ranges.begin();
            for (const int32_t j : lane.keep) {
                lane.priority.push_back(lowered[static_cast<size_t>(j)]);
                while (range != ranges.end() && range->end <= j) { ++range; }
                if (range != ranges.end() && range->begin <= j) { continue; }
                ++n_chosen[static_cast<size_t>(positions[static_cast<size_t>(j)])];
            }
        }
        for (const LaneChoice & lane : lanes) { choice.push_lane(lane); }
        return {};
    }

private:
    // Ã of a lane's candidates; 0 where an entry is protected.
    void lower(const LayerView & layer, int h, const std::vector<int> & n_chosen, std::vector<float> & out) const {
        const auto scores = layer.scores.row(h);
        const auto positions = layer.positions.row(h);
        const auto ranges = layer.protected_ranges.row(h);
        const double rate = alpha_ / layer.profile->head_distance[static_cast<size_t>(h)];
        out.assign(scores.size(), 0.0F);
        double shift = 0;
        for_each_candidate_run(layer.positions.length(h), ranges, [&](int begin, int end) {
            shift = std::min(shift, double{*std::min_element(scores.begin() + begin, scores.begin() + end)});
        });
        for_each_candidate_run(layer.positions.length(h), ranges, [&](int begin, int end) {
            for (auto j = static_cast<size_t>(begin); j < static_cast<size_t>(end); ++j) {
                const int r = n_chosen[static_cast<size_t>(positions[j])];
                const double score = scores[j] - shift;
                out[j] = static_cast<float>(r == 0 ? score : score * std::exp(-rate * r));
            }
        });
    }

    double alpha_;
    bool by_distance_;
};

}  // namespace

SelectorInfo diverse_selector() {
    return {"diverse",
            "the highest scores, with less weight for what other heads of the layer keep already",
            "the highest score·exp(−α/HD · r), r = how many lanes of the layer chose the position before",
            "SCORE: Similarity-Aware Contextual Overlap-Redundancy Eviction for Efficient KV Cache Compression in LLMs",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Selector> { return std::make_shared<Diverse>(options); }};
}

}  // namespace pith
