// critical.cpp - half of a lane's share by score, the rest by score times what the value does to the output. Stage: select.
// Pure C++: no ggml, no I/O.
//
// With a share of b: the ⌊α·b⌋ highest scores, then from the others the highest (score_j + ε)·ν_j, where ν is the mean over the
// group of |v_j·W_O|₁ (norm=2: |·|₂). Scores are those the allocator saw; where a candidate's is negative, all are shifted by
// the candidates' minimum first (decision: else a large value would speak against an entry). Ties: the newer entry.
// The sets for b and b + 1 differ by one entry, so the choice is grown one by one and ranked in that order: cutting the tail
// later leaves what the smaller share would have chosen.
// The first norm comes through products of bytes where the processor has them (evidence/output_norms.h): a few parts in ten
// thousand off, so that only entries worth the same to that may change places.
// Cost:    O(candidates + share · log share) per lane (partial selection).
// Paper:   Identify Critical KV Cache in LLM Inference from an Output Perturbation Perspective (CriticalKV).
// stage1=window: the newest protected entries count in the share and take their places in stage 1, as in the authors' code:
// with w of them stage 1 takes ⌊α·(b + w)⌋ - w others.
// Differs: protected entries use up nothing of stage 1 by default; α is the text's 0.5 (Algorithm 1 prints 0.25).
#include <algorithm>
#include <vector>

#include "policy/score/scorer.h"
#include "policy/select/ranked_lane.h"
#include "policy/select/selector.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    real_option("alpha", "0.5", 0, 1, "the part of the share that goes by score alone"),
    real_option("eps", "0.0001", 0, 1, "added to the score before it meets the value"),
    word_option("norm", "1", "1|2", "the norm of the value through W_O"),
    word_option("stage1", "past", "past|window",
                "window: protected recent entries use up places of the part that goes by score"),
};

// The first n candidates (all, if there are fewer) by descending value, of equals the newer first.
std::vector<int32_t> ranking(const std::vector<int32_t> & candidates, const std::vector<double> & values, int n) {
    std::vector<int32_t> order = candidates;
    const auto better = [&](int32_t a, int32_t b) {
        const double x = values[static_cast<size_t>(a)];
        const double y = values[static_cast<size_t>(b)];
        return x != y ? x > y : a > b;
    };
    const auto end = order.begin() + std::min<int64_t>(n, std::ssize(order));
    if (end != order.end()) { std::nth_element(order.begin(), end, order.end(), better); }
    std::sort(order.begin(), end, better);
    order.erase(end, order.end());
    return order;
}

class Critical final : public Selector {
public:
    explicit Critical(const Options & options)
        : alpha_(options.real("alpha")),
          eps_(options.real("eps")),
          l1_(options.is("norm", "1")),
          counts_window_(options.is("stage1", "window")) {}

    EvidenceNeeds needs() const override { return {.output_l1 = l1_, .output_l2 = !l1_}; }
    bool wants_evidence() const override { return true; }

    Status select(const LayerView & layer, std::span<const int> shares, const RunTasks & run,
                  LayerChoice & choice) const override {
        const LayerEvidence & evidence = *layer.evidence;
        const Ragged<float> & norms = l1_ ? evidence.output_l1 : evidence.output_l2;
        PITH_RETURN_IF_ERROR(require_rows("critical", l1_ ? "output_l1" : "output_l2", norms, evidence, true));
        // A score may be finite where the value is not; nothing can be ranked by what comes of it.
        PITH_RETURN_IF_ERROR(require_finite("critical", l1_ ? "output_l1" : "output_l2", norms, evidence, true));
        const auto choose = [&](int h, LaneChoice & lane) {
            const std::vector<int32_t> grown = grow(layer, norms, evidence.n_group, h, shares[static_cast<size_t>(h)]);
            lane = ranked_lane(layer.protected_ranges.row(h), grown);
        };
        return choose_by_lane(layer.n_lanes(), run, choose, choice);
    }

private:
    // The share's entries in the order in which a growing share takes them.
    std::vector<int32_t> grow(const LayerView & layer, const Ragged<float> & norms, int n_group, int h, int share) const {
        const auto scores = layer.scores.row(h);
        std::vector<int32_t> candidates;
        double shift = 0;  // the least score, if negative
        for_each_candidate_run(static_cast<int>(scores.size()), layer.protected_ranges.row(h), [&](int begin, int end) {
            for (int j = begin; j < end; ++j) {
                candidates.push_back(j);
                shift = std::min(shift, static_cast<double>(scores[static_cast<size_t>(j)]));
            }
        });
        std::vector<double> values(scores.begin(), scores.end());
        // A share of b looks at no more than the first b of either ranking: stage 2 passes over at most what stage 1 took.
        const std::vector<int32_t> by_score = ranking(candidates, values, share);
        for (const int32_t j : candidates) {
            double norm = 0;
            for (int g = 0; g < n_group; ++g) { norm += norms.row(h * n_group + g)[static_cast<size_t>(j)]; }
            double & value = values[static_cast<size_t>(j)];
            value = (value - shift + eps_) * (norm / n_group);
        }
        const std::vector<int32_t> by_value = ranking(candidates, values, share);

        std::vector<int32_t> grown;
        std::vector<bool> is_in(scores.size(), false);
        const auto add = [&](int32_t j) {
            if (is_in[static_cast<size_t>(j)]) { return false; }
            is_in[static_cast<size_t>(j)] = true;
            grown.push_back(j);
            return true;
        };
        const int n_window = counts_window_ ? std::min(layer.n_recent, static_cast<int>(scores.size())) : 0;
        int n_first = 0;
        size_t next = 0;
        for (int b = 1; b <= share; ++b) {
            const auto n_first_now =
                std::max(0, static_cast<int>(alpha_ * (b + n_window) + 1e-9) - n_window);  // 0.29 · 100 is 29
            const bool first_grows = n_first_now > n_first;
            n_first = n_first_now;
            // An entry that stage 2 had taken already moves to stage 1 and leaves its place there free.
            if (first_grows && add(by_score[static_cast<size_t>(n_first) - 1])) { continue; }
            while (!add(by_value[next])) { ++next; }
        }
        return grown;
    }

    double alpha_;
    double eps_;
    bool l1_;
    bool counts_window_;
};

}  // namespace

SelectorInfo critical_selector() {
    return {"critical",
            "half of the share by score, the rest by score times what the value does to the output",
            "⌊α·share⌋ by score, the rest by (score + ε)·mean_g ‖v·W_O^g‖₁",
            "Identify Critical KV Cache in LLM Inference from an Output Perturbation Perspective (CriticalKV)",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Selector> { return std::make_shared<Critical>(options); }};
}

}  // namespace pith
