// mass.cpp - what attention is nearly all paid to stays; of the rest, scores times what the value does to the output.
// Stage: refine.   Pure C++: no ggml, no I/O.
//
// u[h,j] = s[h,j] · ν[h,j] / Σ_{h'} ν[h',j], ν the mean over the group of |v_j·W_O^g|₁, the sum over the lanes that hold the
// position (norm=lane: over the lane's entries; norm=none: 1). Scores that can be negative are first lowered by the layer's
// minimum.
// Then the entries before the window in descending order of the window's mean attention, normalised over them, while its sum
// stays below share - b, at most as many as the lane keeps, get the layer's largest u. b = mean over the layer's lanes of the
// attention paid to the n_window entries just before the window (bias=window: to the window's own).
// Ties: the newer entry. Sums in f64.
// Cost:    O(entries · log entries).
// Paper:   Taming the Fragility of KV Cache Eviction in LLM Inference (DefensiveKV), as its authors' code has it: what it calls
//          the window's bias is of the entries before the window, which was cut off already.
// Differs: ragged lanes.
#include <algorithm>
#include <vector>

#include "policy/evidence/require_rows.h"
#include "policy/refine/refiner.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    real_option("share", "0.9", 0, 1, "the share of attention whose entries stay by attention alone"),
    word_option("bias", "before", "before|window",
                "whose attention is taken off that share: of the entries before the window, or its own"),
    word_option("norm", "heads", "heads|lane|none",
                "what the value's norm is divided by: its sum over the layer's heads, over the lane, or nothing"),
};

class Mass final : public Refiner {
public:
    explicit Mass(const Options & options)
        : share_(options.real("share")),
          of_window_(options.is("bias", "window")),
          over_heads_(options.is("norm", "heads")),
          over_lane_(options.is("norm", "lane")) {}

    EvidenceNeeds needs() const override { return {.window_mean = true, .output_l1 = true}; }
    bool wants_budgets() const override { return true; }

    Status refine(const LayerEvidence & evidence, const Ragged<float> * /*head_scores*/, std::span<const int64_t> net_budgets,
                  Ragged<float> & scores) const override {
        PITH_RETURN_IF_ERROR(require_rows("mass", "window_mean", evidence.window_mean, evidence, true));
        PITH_RETURN_IF_ERROR(require_rows("mass", "output_l1", evidence.output_l1, evidence, true));
        PITH_RETURN_IF_ERROR(require_finite("mass", "window_mean", evidence.window_mean, evidence, true));
        std::vector<Lane> lanes(static_cast<size_t>(evidence.n_kv_heads));
        for (int h = 0; h < evidence.n_kv_heads; ++h) { lanes[static_cast<size_t>(h)] = lane_of(evidence, h); }
        multiply(evidence, lanes, scores);
        float largest = 0;
        for (int h = 0; h < scores.n_rows(); ++h) {
            for (const float score : scores.row(h).first(lanes[static_cast<size_t>(h)].n_past)) {
                largest = std::max(largest, score);
            }
        }
        const double below = share_ - bias(evidence, lanes);
        for (int h = 0; h < scores.n_rows(); ++h) {
            const auto at = static_cast<size_t>(h);
            const size_t most = net_budgets.empty() ? lanes[at].n_past : static_cast<size_t>(net_budgets[at]);
            for (const size_t j : mostly_attended(lanes[at], below, most)) { scores.row(h)[j] = largest; }
        }
        return {};
    }

private:
    struct Lane {
        size_t n_past = 0;              // entries before the window
        std::vector<double> attention;  // the window's mean, of the group's mean
        std::vector<double> norm;       // ν
    };

    static Lane lane_of(const LayerEvidence & evidence, int h) {
        const auto positions = evidence.positions.row(h);
        Lane lane;
        lane.n_past = static_cast<size_t>(std::ranges::lower_bound(positions, evidence.window_begin()) - positions.begin());
        lane.attention.assign(positions.size(), 0.0);
        lane.norm.assign(positions.size(), 0.0);
        for (int g = 0; g < evidence.n_group; ++g) {
            const auto attention = evidence.window_mean.row(h * evidence.n_group + g);
            const auto norm = evidence.output_l1.row(h * evidence.n_group + g);
            for (size_t j = 0; j < positions.size(); ++j) {
                lane.attention[j] += double{attention[j]} / evidence.n_group;
                lane.norm[j] += double{norm[j]} / evidence.n_group;
            }
        }
        return lane;
    }

    void multiply(const LayerEvidence & evidence, const std::vector<Lane> & lanes, Ragged<float> & scores) const {
        float least = 0;
        for (const float score : scores.flat()) { least = std::min(least, score); }
        std::vector<double> at_position(over_heads_ ? static_cast<size_t>(evidence.n_seen) : 0, 0.0);
        for (int h = 0; over_heads_ && h < scores.n_rows(); ++h) {
            const auto positions = evidence.positions.row(h);
            for (size_t j = 0; j < positions.size(); ++j) {
                at_position[static_cast<size_t>(positions[j])] += lanes[static_cast<size_t>(h)].norm[j];
            }
        }
        for (int h = 0; h < scores.n_rows(); ++h) {
            const Lane & lane = lanes[static_cast<size_t>(h)];
            const auto positions = evidence.positions.row(h);
            double of_lane = 0;
            for (const double norm : lane.norm) { of_lane += norm; }
            const auto out = scores.row(h);
            for (size_t j = 0; j < out.size(); ++j) {
                const double sum = over_heads_ ? at_position[static_cast<size_t>(positions[j])] : over_lane_ ? of_lane : 1.0;
                const double share = sum > 0 ? lane.norm[j] / sum : lane.norm[j];  // norms that add up to 0 are 0, or none
                out[j] = static_cast<float>((double{out[j]} - least) * share);
            }
        }
    }

    double bias(const LayerEvidence & evidence, const std::vector<Lane> & lanes) const {
        double sum = 0;
        for (const Lane & lane : lanes) {
            const size_t n_before = std::min(lane.n_past, static_cast<size_t>(evidence.n_window));
            const size_t begin = of_window_ ? lane.n_past : lane.n_past - n_before;
            const size_t end = of_window_ ? lane.attention.size() : lane.n_past;
            for (size_t j = begin; j < end; ++j) { sum += lane.attention[j]; }
        }
        return lanes.empty() ? 0 : sum / static_cast<double>(lanes.size());
    }

    static std::vector<size_t> mostly_attended(const Lane & lane, double below, size_t most) {
        double all = 0;
        std::vector<size_t> order;
        for (size_t j = 0; j < lane.n_past; ++j) {
            all += lane.attention[j];
            order.push_back(j);
        }
        std::ranges::sort(order, [&](size_t a, size_t b) {
            return lane.attention[a] != lane.attention[b] ? lane.attention[a] > lane.attention[b] : a > b;
        });
        size_t n = 0;
        for (double sum = 0; all > 0 && n < std::min(most, order.size()); ++n) {
            sum += lane.attention[order[n]] / all;
            if (sum >= below) { break; }
        }
        order.resize(n);
        return order;
    }

    double share_;
    bool of_window_;
    bool over_heads_;
    bool over_lane_;
};

}  // namespace

RefinerInfo mass_refiner() {
    return {"mass",
            "what attention is nearly all paid to stays; the rest by score times what the value does to the output",
            "s · mean_g ‖v_j·W_O^g‖₁ over its sum over the layer's heads; what nearly all of the window's attention goes to "
            "gets the largest",
            "Taming the Fragility of KV Cache Eviction in LLM Inference (DefensiveKV)",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Refiner> { return std::make_shared<Mass>(options); }};
}

}  // namespace pith
