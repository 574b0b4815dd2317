// matprod.cpp - how much of the layer's output an entry makes up: its attention column times its value through W_O.
// Stage: score.   Pure C++: no ggml, no I/O.
//
//   group=mean     score[h,j] = pool( |mean over g of A[g,W,j]|₂ ) · mean over g of |v_j·W_O^g|₂
//   group=product  score[h,j] = mean over g of pool( |A[g,W,j]|₂ ) · |v_j·W_O^g|₂
// |·|₂ of a column runs over the window's queries. The window's own entries are cut off before the pooling and protected; they
// keep the unpooled norm, times the same factor.   value=v: |v_j|₂ instead of |v_j·W_O|₂; value=none: 1.
// Scores per query head exist with group=product only: group=mean mixes the heads before the norm.
// Paper:   Reformulating KV Cache Eviction Problem for Long-Context LLM Inference (LaProx).
// Differs: the paper says "average, 7" and not where: the column norms are pooled, before the value's norm comes in; an average
//          divides by the entries under the kernel. Under grouped heads the paper leaves the value's norm open: both readings.
#include <cmath>
#include <functional>

#include "score/attention_scorer.h"
#include "score/window_pool.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    kWindowOption,
    word_option("value", "vo", "vo|v|none", "what multiplies attention: the value through W_O, the value itself, nothing"),
    word_option("group", "mean", "mean|product", "mean of A over the group first, or each query head's product, then the mean"),
    pool_option("avg7"),
    kPoolEdgesOption,
};

class MatProd final : public AttentionScorer {
public:
    explicit MatProd(const Options & options)
        : AttentionScorer(GroupReduction::kMean),
          pool_(options),
          product_(options.is("group", "product")),
          output_norm_(options.is("value", "vo")),
          value_norm_(options.is("value", "v")) {}

    EvidenceNeeds needs() const override {
        return {.window = pool_.window(),
                .window_sq = !product_,
                .window_head_sq = product_,
                .value_l2 = value_norm_,
                .output_l2 = output_norm_};
    }
    int n_recent(int64_t /*budget*/) const override { return pool_.window(); }
    bool has_head_scores() const override { return product_; }

    Status score(const LayerEvidence & evidence, Ragged<float> & scores) const override {
        if (product_) return AttentionScorer::score(evidence, scores);
        PITH_RETURN_IF_ERROR(check(evidence));
        scores = make_lane_scores(evidence);
        std::vector<float> factor;
        for (int h = 0; h < evidence.n_kv_heads; ++h) {
            factor.assign(scores.row(h).size(), output_norm_ ? 0.0F : 1.0F);
            for (int g = 0; output_norm_ && g < evidence.n_group; ++g) {
                add(evidence.output_l2.row(h * evidence.n_group + g), factor);
            }
            if (output_norm_) {
                for (float & x : factor) x /= static_cast<float>(evidence.n_group);
            }
            if (value_norm_) factor.assign(evidence.value_l2.row(h).begin(), evidence.value_l2.row(h).end());
            multiply(evidence.window_sq.row(h), factor, scores.row(h));
        }
        return {};
    }

protected:
    Status check(const LayerEvidence & evidence) const override {
        PITH_RETURN_IF_ERROR(product_ ? require_rows("matprod", "window_head_sq", evidence.window_head_sq, evidence, true)
                                      : require_rows("matprod", "window_sq", evidence.window_sq, evidence, false));
        if (value_norm_) return require_rows("matprod", "value_l2", evidence.value_l2, evidence, false);
        return output_norm_ ? require_rows("matprod", "output_l2", evidence.output_l2, evidence, true) : Status{};
    }

    void score_head(const LayerEvidence & evidence, int head, std::span<float> out) const override {
        const std::vector<float> ones(value_norm_ || output_norm_ ? 0 : out.size(), 1.0F);
        multiply(evidence.window_head_sq.row(head),
                 output_norm_  ? evidence.output_l2.row(head)
                 : value_norm_ ? evidence.value_l2.row(head / evidence.n_group)
                               : std::span<const float>(ones),
                 out);
    }

private:
    static void add(std::span<const float> row, std::span<float> sum) {
        for (size_t j = 0; j < sum.size(); ++j) sum[j] += row[j];
    }

    // out = pool(sqrt(squares)) · factor
    void multiply(std::span<const float> squares, std::span<const float> factor, std::span<float> out) const {
        std::vector<float> norms(squares.size());
        for (size_t j = 0; j < norms.size(); ++j) norms[j] = std::sqrt(squares[j]);
        pool_.apply(norms, out);
        for (size_t j = 0; j < out.size(); ++j) out[j] *= factor[j];
    }

    WindowPool pool_;
    bool product_;
    bool output_norm_;
    bool value_norm_;
};

}  // namespace

ScorerInfo matprod_scorer() {
    return {"matprod", "an entry's part of the layer's output: attention column times value through W_O",
            "Reformulating KV Cache Eviction Problem for Long-Context LLM Inference (LaProx)", kOptions,
            [](const Options & options) -> std::shared_ptr<const Scorer> { return std::make_shared<MatProd>(options); }};
}

}  // namespace pith
