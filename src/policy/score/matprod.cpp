// matprod.cpp - how much of the layer's output an entry makes up: its attention column times its value through W_O.
// Stage: score.   Pure C++: no ggml, no I/O.
//
//   group=mean     score[h,j] = pool( |mean over g of A[g,W,j]|₂ ) · mean over g of |v_j·W_O^g|₂
//   group=product  score[h,j] = mean over g of pool( |A[g,W,j]|₂ ) · |v_j·W_O^g|₂
//   group=exact    score[h,j] = |Σ_g A[g,W,j] ⊗ v_j·W_O^g|_F / G
//                             = sqrt( Σ_{g,g'} ⟨A[g,W,j], A[g',W,j]⟩ · ⟨v_j·W_O^g, v_j·W_O^g'⟩ ) / G
// group=exact is what the entry adds to the layer's output over the window, whatever the query heads have in common; the
// columns' norms are pooled as in the other two, and their angles are not. G = 1: all three are the same. |·|₂ of a column runs
// over the window's queries. The window's own entries are cut off before the pooling and protected; they keep the unpooled
// norm, times the same factor.   value=v: v_j instead of v_j·W_O; value=none: 1. Scores per query head exist with group=product
// only: group=mean mixes the heads before the norm. Paper:   Reformulating KV Cache Eviction Problem for Long-Context LLM
// Inference (LaProx). Differs: the paper says "average, 7" and not where: the column norms are pooled, before the value's norm
// comes in; an average
//          divides by the entries under the kernel. Under grouped heads the paper leaves the value's norm open: three readings.
#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/score/attention_scorer.h"
#include "policy/score/window_pool.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    kWindowOption,
    word_option("value", "vo", "vo|v|none", "what multiplies attention: the value through W_O, the value itself, nothing"),
    word_option("group", "mean", "mean|product|exact",
                "mean of A over the group first; each query head's product, then the mean; or the norm of their sum"),
    pool_option("avg7"),
    kPoolOverOption,
    kPoolEdgesOption,
};

class MatProd final : public AttentionScorer {
public:
    explicit MatProd(const Options & options)
        : AttentionScorer(GroupReduction::kMean),
          pool_(options),
          product_(options.is("group", "product")),
          exact_(options.is("group", "exact")),
          output_norm_(options.is("value", "vo")),
          value_norm_(options.is("value", "v")) {}

    EvidenceNeeds needs() const override {
        return {.window = pool_.window(),
                .window_sq = !product_ && !exact_,
                .window_head_sq = product_,
                .window_pairs = exact_,
                .value_l2 = value_norm_,
                .output_l2 = output_norm_ && !exact_,
                .output_pairs = output_norm_ && exact_};
    }
    int n_recent(int64_t /*budget*/) const override { return pool_.window(); }
    bool has_head_scores() const override { return product_; }

    Status score(const LayerEvidence & evidence, Ragged<float> & scores) const override {
        if (product_) { return AttentionScorer::score(evidence, scores); }
        if (exact_) { return score_sums(evidence, scores); }
        PITH_RETURN_IF_ERROR(check(evidence));
        scores = make_lane_scores(evidence);
        std::vector<float> factor;
        for (int h = 0; h < evidence.n_kv_heads; ++h) {
            factor.assign(scores.row(h).size(), output_norm_ ? 0.0F : 1.0F);
            for (int g = 0; output_norm_ && g < evidence.n_group; ++g) {
                add(evidence.output_l2.row(h * evidence.n_group + g), factor);
            }
            if (output_norm_) {
                for (float & x : factor) { x /= static_cast<float>(evidence.n_group); }
            }
            if (value_norm_) { factor.assign(evidence.value_l2.row(h).begin(), evidence.value_l2.row(h).end()); }
            multiply(evidence, h, evidence.window_sq.row(h), factor, scores.row(h));
        }
        return {};
    }

protected:
    Status check(const LayerEvidence & evidence) const override {
        PITH_RETURN_IF_ERROR(product_ ? require_rows("matprod", "window_head_sq", evidence.window_head_sq, evidence, true)
                                      : require_rows("matprod", "window_sq", evidence.window_sq, evidence, false));
        if (value_norm_) { return require_rows("matprod", "value_l2", evidence.value_l2, evidence, false); }
        return output_norm_ ? require_rows("matprod", "output_l2", evidence.output_l2, evidence, true) : Status{};
    }

    void score_head(const LayerEvidence & evidence, int head, std::span<float> out) const override {
        const std::vector<float> ones(value_norm_ || output_norm_ ? 0 : out.size(), 1.0F);
        multiply(evidence, head / evidence.n_group, evidence.window_head_sq.row(head),
                 output_norm_  ? evidence.output_l2.row(head)
                 : value_norm_ ? evidence.value_l2.row(head / evidence.n_group)
                               : std::span<const float>(ones),
                 out);
    }

private:
    // group=exact
    Status score_sums(const LayerEvidence & evidence, Ragged<float> & scores) const {
        const int n_pairs = n_head_pairs(evidence.n_group);
        PITH_RETURN_IF_ERROR(require_pairs("window_pairs", evidence.window_pairs, evidence));
        if (output_norm_) { PITH_RETURN_IF_ERROR(require_pairs("output_pairs", evidence.output_pairs, evidence)); }
        if (value_norm_) { PITH_RETURN_IF_ERROR(require_rows("matprod", "value_l2", evidence.value_l2, evidence, false)); }
        scores = make_lane_scores(evidence);
        std::vector<std::vector<float>> norms(static_cast<size_t>(evidence.n_group));  // of the columns
        std::vector<std::vector<float>> pooled(norms.size());
        std::vector<double> sums;
        for (int h = 0; h < evidence.n_kv_heads; ++h) {
            const std::span<float> out = scores.row(h);
            const auto row = [&](const Ragged<float> & pairs, int g, int other) {
                return pairs.row(h * n_pairs + head_pair(g, other, evidence.n_group));
            };
            for (int g = 0; g < evidence.n_group; ++g) {
                const auto squares = row(evidence.window_pairs, g, g);
                auto & norm = norms[static_cast<size_t>(g)];
                norm.resize(out.size());
                for (size_t j = 0; j < norm.size(); ++j) { norm[j] = std::sqrt(squares[j]); }
                pooled[static_cast<size_t>(g)].resize(out.size());
                pool_.apply(evidence, h, norm, pooled[static_cast<size_t>(g)]);
            }
            sums.assign(out.size(), 0.0);
            for (int g = 0; g < evidence.n_group; ++g) {
                for (int other = g; other < evidence.n_group; ++other) {
                    add_pair(row(evidence.window_pairs, g, other), g == other ? 1.0 : 2.0, norms[static_cast<size_t>(g)],
                             norms[static_cast<size_t>(other)], pooled[static_cast<size_t>(g)],
                             pooled[static_cast<size_t>(other)],
                             output_norm_ ? row(evidence.output_pairs, g, other) : std::span<const float>(), sums);
                }
            }
            for (size_t j = 0; j < out.size(); ++j) {
                const double norm = std::sqrt(sums[j] < 0 ? 0 : sums[j]) / evidence.n_group;  // a NaN passes, and is reported
                out[j] = static_cast<float>(value_norm_ ? norm * evidence.value_l2.row(h)[j] : norm);
            }
        }
        return {};
    }

    // sums += times · (pooled norms) · cosine of the two columns · (product behind W_O). A head that pays nothing in the window
    // has no direction of its own: what pooling gives it counts as the other's direction.
    static void add_pair(std::span<const float> products, double times, std::span<const float> norms_a,
                         std::span<const float> norms_b, std::span<const float> pooled_a, std::span<const float> pooled_b,
                         std::span<const float> outputs, std::span<double> sums) {
        for (size_t j = 0; j < sums.size(); ++j) {
            const double product = double{norms_a[j]} * norms_b[j];
            const double cosine = product > 0 ? products[j] / product : 1.0;
            sums[j] += times * cosine * pooled_a[j] * pooled_b[j] * (outputs.empty() ? 1.0 : outputs[j]);
        }
    }

    static Status require_pairs(std::string_view name, const Ragged<float> & pairs, const LayerEvidence & evidence) {
        const int n_pairs = n_head_pairs(evidence.n_group);
        bool whole = pairs.n_rows() == evidence.n_kv_heads * n_pairs;
        for (int r = 0; whole && r < pairs.n_rows(); ++r) { whole = pairs.length(r) == evidence.length(r / n_pairs); }
        if (whole) { return {}; }
        return {ErrorCode::kMissingEvidence, "matprod needs " + std::string(name) + ", and the evidence of layer " +
                                                 std::to_string(evidence.layer) +
                                                 " lacks it: capture what the policy's needs() ask for"};
    }

    static void add(std::span<const float> row, std::span<float> sum) {
        for (size_t j = 0; j < sum.size(); ++j) { sum[j] += row[j]; }
    }

    // out = pool(sqrt(squares)) · factor
    void multiply(const LayerEvidence & evidence, int kv_head, std::span<const float> squares, std::span<const float> factor,
                  std::span<float> out) const {
        std::vector<float> norms(squares.size());
        for (size_t j = 0; j < norms.size(); ++j) { norms[j] = std::sqrt(squares[j]); }
        pool_.apply(evidence, kv_head, norms, out);
        for (size_t j = 0; j < out.size(); ++j) { out[j] *= factor[j]; }
    }

    WindowPool pool_;
    bool product_;
    bool exact_;
    bool output_norm_;
    bool value_norm_;
};

}  // namespace

ScorerInfo matprod_scorer() {
    return {"matprod",
            "an entry's part of the layer's output: attention column times value through W_O",
            "pool(‖Ā[h,W,j]‖₂) · mean_g ‖v_j·W_O^g‖₂",
            "Reformulating KV Cache Eviction Problem for Long-Context LLM Inference (LaProx)",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Scorer> { return std::make_shared<MatProd>(options); }};
}

}  // namespace pith
