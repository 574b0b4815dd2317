// preference.cpp - layers get entries by how spread and how changing their attention is. Stage: allocate.
// Pure C++: no ggml, no I/O.
//
// P = E^(1/τ1) · V^(1/τ2);  E = -Σ A log A over query heads, window and past entries;  V = Σ over query heads and past entries
// of the unbiased variance of A over the window. The window's own entries are in neither: what queries so near pay to each
// other says nothing of the past, and would be most of V. B_l ∝ P_l over the layers seen so far, evenly over a layer's lanes.
// V comes from sums (Σ A² - w·mean²), so it is not taken below 0; of one query it is 0. A layer of P = 0 gets what the others
// cannot hold. The authors tune τ1 and τ2 for each model and cache size: preset=MODEL takes theirs (cake_presets.h).
// Paper:   CAKE: Cascading and Adaptive KV Cache Eviction with Layer Preferences.   Source: its authors' code (cakekv).
// Differs: B is net of protected entries; exact in sum.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

#include "policy/allocate/allocator.h"
#include "policy/allocate/cake_presets.h"
#include "policy/score/scorer.h"

namespace pith {
namespace {

constexpr std::string_view kPresetWords = "none|llama2-7b|llama2-13b|llama3.1-8b|mistral0.3-7b|qwen2.5-7b";
static_assert(kPresetWords.substr(std::string_view("none|").size()) == kCakePresets);

constexpr OptionSpec kOptions[] = {
    {"tau1", "preset", OptionType::kReal, 0.1, 100, "preset", "the higher, the less the entropy of attention counts"},
    {"tau2", "preset", OptionType::kReal, 0.1, 100, "preset", "the higher, the less its variance counts"},
    word_option("preset", "none", kPresetWords,
                "tau1 and tau2 of CAKE's authors for this model, at 128 or 1,024 entries, whichever is nearer to the budget; "
                "none: both 1"),
    integer_option("window", kAsOtherParts, 1, 65536, "last queries observed; same: as many as the scorer does, else 32",
                   kAsOtherParts),
};

double total_variance(const LayerEvidence & evidence) {
    if (evidence.n_window < 2) { return 0; }
    const double w = evidence.n_window;
    double sum = 0;
    for (int head = 0; head < evidence.window_mean.n_rows(); ++head) {
        const auto positions = evidence.positions.row(head / evidence.n_group);
        const auto mean = evidence.window_mean.row(head);
        const auto sq = evidence.window_head_sq.row(head);
        for (size_t j = 0; j < mean.size() && positions[j] < evidence.window_begin(); ++j) {
            const double m = mean[j];
            const double squares = sq[j] - w * m * m;
            sum += squares < 0 ? 0 : squares;  // a NaN passes, and is reported
        }
    }
    return sum / (w - 1);
}

class Preference final : public Allocator {
public:
    explicit Preference(const Options & options)
        : preset_(options.word("preset")),
          tau1_(given(options, "tau1")),
          tau2_(given(options, "tau2")),
          window_(static_cast<int>(options.integer("window"))) {}

    EvidenceNeeds needs() const override {
        EvidenceNeeds needs;
        needs.window = window_;
        needs.window_mean = true;
        needs.window_head_sq = true;
        needs.window_entropy = true;
        return needs;
    }
    bool wants_evidence() const override { return true; }

    void expect(const NetBudget & /*budget*/, std::span<double> weights) const override {
        std::fill(weights.begin(), weights.end(), 0.0);
    }

    Status weigh(const LayerView & layer, const NetBudget & budget, AllocatorState * /*state*/,
                 std::span<double> weights) const override {
        const LayerEvidence & evidence = *layer.evidence;
        PITH_RETURN_IF_ERROR(require_rows("preference", "window_mean", evidence.window_mean, evidence, true));
        PITH_RETURN_IF_ERROR(require_rows("preference", "window_head_sq", evidence.window_head_sq, evidence, true));
        if (std::ssize(evidence.window_entropy) != budget.shape.n_heads()) {
            return {ErrorCode::kMissingEvidence,
                    "preference needs window_entropy of every query head, and the evidence of layer " +
                        std::to_string(layer.layer) + " lacks it: capture what the policy's needs() ask for"};
        }
        const double entropy = std::accumulate(evidence.window_entropy.begin(), evidence.window_entropy.end(), 0.0);
        const auto preset = cake_constants(preset_, gross_mean(budget)).value_or(CakeConstants{});
        const double preference = std::pow(entropy < 0 ? 0 : entropy, 1 / tau1_.value_or(preset.tau1)) *
                                  std::pow(total_variance(evidence), 1 / tau2_.value_or(preset.tau2));
        const auto first = static_cast<size_t>(budget.shape.lane(layer.layer, 0));
        std::fill_n(weights.begin() + static_cast<std::ptrdiff_t>(first), layer.n_lanes(), preference);
        return {};
    }

private:
    static std::optional<double> given(const Options & options, std::string_view name) {
        return options.is(name, "preset") ? std::nullopt : std::optional(options.real(name));
    }
    // The budget as the user gave it: what is protected is in it.
    static double gross_mean(const NetBudget & budget) {
        const auto n_protected = std::accumulate(budget.n_protected.begin(), budget.n_protected.end(), int64_t{0});
        return static_cast<double>(budget.total + n_protected) / budget.shape.n_lanes();
    }

    std::string preset_;
    std::optional<double> tau1_;  // nothing: the preset's
    std::optional<double> tau2_;
    int window_;
};

}  // namespace

AllocatorInfo preference_allocator() {
    return {"preference",
            "layers get entries by the entropy and the variance of their attention",
            "layer ∝ E^(1/τ1)·V^(1/τ2): entropy and variance of its window attention",
            "CAKE: Cascading and Adaptive KV Cache Eviction with Layer Preferences",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Allocator> { return std::make_shared<Preference>(options); }};
}

}  // namespace pith
