// compactor.cpp - keys that stand apart, and tokens to which the tokens around them pay attention. Stage: score.
// Pure C++: no ggml, no I/O.
//
// c[h,j] = pool( mean over the group of the attention that j's block pays to j · |v_j|₂ ), ℓ[h,j] = the leverage of k_j before
// RoPE among the lane's keys; score = z(c) + blend · z(ℓ), z: less the mean, over the deviation, of all entries of the layer
// but the first tokens, which evidence leaves out. Of a question's queries none takes part, but for those that stand in the
// prompt's last block, which is not full.
// Paper:   Compactor: Calibrated Query-Agnostic KV Cache Compression with Approximate Leverage Scores.
// Differs: blend 0.5 as in the authors' engine (kvpress: the evicted share); averages at the ends divide by the entries under
//          the kernel; in chunks, leverage is among what the lane holds then.
#include <algorithm>
#include <cmath>

#include "policy/score/recent.h"
#include "policy/score/scorer.h"
#include "policy/score/window_pool.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    real_option("blend", "0.5", 0, 100, "weight of the leverage beside the attention"),
    pool_option("avg3"),
    integer_option("sinks", "8", 0, 1 << 24, "first positions that are protected"),
    integer_option("recent", "4", 0, 1 << 24, "newest entries of each head that are protected; half: half of the budget",
                   "half"),
};

// Adds weight · z(rows) to the scores.
void add_standardised(const Ragged<float> & rows, const LayerEvidence & evidence, double weight, Ragged<float> & scores) {
    double sum = 0;
    double squares = 0;
    int64_t n = 0;
    const auto each = [&](auto visit) {
        for (int h = 0; h < rows.n_rows(); ++h) {
            const auto positions = evidence.positions.row(h);
            const auto row = rows.row(h);
            const auto first = std::lower_bound(positions.begin(), positions.end(), kFirstTokens) - positions.begin();
            for (size_t j = static_cast<size_t>(first); j < row.size(); ++j) { visit(double{row[j]}); }
        }
    };
    each([&](double x) { sum += x, ++n; });
    const double mean = n == 0 ? 0.0 : sum / static_cast<double>(n);
    each([&](double x) { squares += (x - mean) * (x - mean); });
    const double deviation = n < 2 ? 0.0 : std::sqrt(squares / static_cast<double>(n - 1));
    const double scale = weight / std::max(deviation, 1e-6);
    const auto from = rows.flat();
    const auto to = scores.flat();
    for (size_t i = 0; i < to.size(); ++i) { to[i] += static_cast<float>((from[i] - mean) * scale); }
}

class Compactor final : public Scorer {
public:
    explicit Compactor(const Options & options)
        : blend_(options.real("blend")),
          pooling_(parse_pooling(options.word("pool"))),
          sinks_(static_cast<int>(options.integer("sinks"))),
          recent_(options) {}

    EvidenceNeeds needs() const override { return {.key_leverage = blend_ > 0, .block_attention = true, .value_l2 = true}; }
    int n_sinks() const override { return sinks_; }
    int n_recent(int64_t budget) const override { return recent_.count(budget); }

    Status score(const LayerEvidence & evidence, Ragged<float> & scores) const override {
        if (blend_ > 0) {
            PITH_RETURN_IF_ERROR(require_rows("compactor", "key_leverage", evidence.key_leverage, evidence, false));
        }
        PITH_RETURN_IF_ERROR(require_rows("compactor", "block_attention", evidence.block_attention, evidence, true));
        PITH_RETURN_IF_ERROR(require_rows("compactor", "value_l2", evidence.value_l2, evidence, false));
        Ragged<float> attention = make_lane_scores(evidence);
        for (int h = 0; h < evidence.n_kv_heads; ++h) { pooled_attention(evidence, h, attention.row(h)); }
        scores = make_lane_scores(evidence);
        add_standardised(attention, evidence, 1.0, scores);
        if (blend_ > 0) { add_standardised(evidence.key_leverage, evidence, blend_, scores); }
        return {};
    }

private:
    void pooled_attention(const LayerEvidence & evidence, int h, std::span<float> out) const {
        const auto norms = evidence.value_l2.row(h);
        std::vector<float> weighed(norms.size(), 0.0F);
        for (int g = 0; g < evidence.n_group; ++g) {
            const auto sums = evidence.block_attention.row(h * evidence.n_group + g);
            for (size_t j = 0; j < weighed.size(); ++j) { weighed[j] += sums[j]; }
        }
        for (size_t j = 0; j < weighed.size(); ++j) { weighed[j] *= norms[j] / static_cast<float>(evidence.n_group); }
        const int reach = pooling_.width / 2;
        const PoolKernel kernel{.before = reach, .after = reach};
        pooling_.largest ? pool_max(weighed, kernel, out) : pool_avg(weighed, kernel, PoolEdges::kCount, out);
    }

    double blend_;
    Pooling pooling_;
    int sinks_;
    RecentRule recent_;
};

}  // namespace

ScorerInfo compactor_scorer() {
    return {"compactor",
            "keys that stand apart, and tokens that the tokens around them attend to; no question need be known",
            "z(pool(mean_g Σ_i softmax(q_i·k_j) within a block · ‖v_j‖₂)) + blend · z(leverage of k_j)",
            "Compactor: Calibrated Query-Agnostic KV Cache Compression with Approximate Leverage Scores",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Scorer> { return std::make_shared<Compactor>(options); }};
}

}  // namespace pith
