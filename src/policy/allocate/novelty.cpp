// novelty.cpp - layers get entries by how much their heads differ from each other and from the layers before. Stage: allocate.
// Pure C++: no ggml, no I/O.
//
// IR_l, μ_l, HD_{l,h}: distances of the heads' attention patterns (head_profiles.h).
//   TD_0 = IR_0, TD_l = |μ_l - E_{l-1}|;  E_0 = IR_0 (start=zero: 0), E_l = γ·E_{l-1} + (1-γ)·μ_l;  N_l = λ1·IR_l + λ2·TD_l
//   B_l ∝ N_l over the layers seen so far;  T_{l,h} = how many of the layer's top-⌈K·B_l⌉ candidates lane h holds
//   weight of a lane = N_l · HD_{l,h}·T_{l,h} / Σ_h HD_{l,h}·T_{l,h}   (evenly where that sum is 0)
// Layer by layer, HD·T / Σ is fixed when a layer arrives, with B_l as known then. exact=two-pass waits for all layers and uses
// the final B_l: a one-shot prefill then holds the whole cache. Where all layers are there anyway (after a chunk, in decode)
// the two are the same.
// Cost:    O(candidates) per layer; where all layers come at once their scores are held until the last.
// Paper:   SCORE, equations (5) to (12) and Algorithm 1.
// Differs: (7) starts at E_0 = IR_0, which leaves little of TD_1 where neighbouring layers differ as much as the heads of one,
//          or at 0, as moving averages do without more (the paper starts it nowhere); (10) sums over the layers seen, as
//          Algorithm 1 cascades; (12) as printed does not add up to B_l: the product is normalised; λ1 = λ2 = 1 (the paper
//          prints no choice).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "policy/allocate/allocator.h"
#include "policy/allocate/layer_top.h"
#include "policy/allocate/shares.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    integer_option("k", "200", 1, 65536, "queries whose attention is compared"),
    word_option(
        "sample", "middle", "middle|random|topk",
        "which queries: none of the first nor of the last window (32 where the scorer has none), any, or those of the highest "
        "window attention"),
    word_option("distance", "cos", "cos|pearson|bc|jsd|l2",
                "how two heads are compared; jsd and l2 take every pair of queries: minutes, a tenth of it with k=64"),
    real_option("gamma", "0.5", 0, 1, "how slowly the memory of earlier layers follows"),
    real_option("lambda1", "1", 0, 1e6, "weight of the distances within a layer"),
    real_option("lambda2", "1", 0, 1e6, "weight of the change from layer to layer"),
    word_option("start", "ir", "ir|zero",
                "what the memory of earlier layers begins with: the first layer's own distances, or 0"),
    word_option("exact", "cascade", "cascade|two-pass",
                "two-pass: allocate once, when all layers are known; a one-shot prefill then holds the whole cache"),
    integer_option("seed", "1", 0, 2147483647, "another number, other queries"),
};

HeadDistance parse_distance(const Options & options) {
    if (options.is("distance", "pearson")) { return HeadDistance::kPearson; }
    if (options.is("distance", "bc")) { return HeadDistance::kBhattacharyya; }
    if (options.is("distance", "jsd")) { return HeadDistance::kJensenShannon; }
    return options.is("distance", "l2") ? HeadDistance::kEuclidean : HeadDistance::kCosine;
}

ProfileNeeds parse_profile(const Options & options) {
    ProfileNeeds profile;
    profile.n_queries = static_cast<int>(options.integer("k"));
    profile.seed = static_cast<uint64_t>(options.integer("seed"));
    profile.distance = parse_distance(options);
    if (options.is("sample", "random")) { profile.sample = QuerySample::kAny; }
    if (options.is("sample", "topk")) { profile.sample = QuerySample::kTopWindow; }
    return profile;
}

class State final : public AllocatorState {
public:
    double average = 0;                          // E of the layer before
    std::vector<double> novelties;               // N_l of the layers seen
    std::vector<int> lengths;                    // candidates of each, when it arrived
    std::vector<Candidates> candidates;          // of layers that have no head shares yet
    std::vector<std::vector<double>> distances;  // HD of the same
};

// HD·T, divided by its sum.
std::vector<double> head_parts(const Candidates & candidates, std::span<const double> distances, double layer_share) {
    const std::vector<int64_t> counts = count_top(candidates, ceil_share(layer_share));
    std::vector<double> parts(counts.size());
    for (size_t h = 0; h < parts.size(); ++h) { parts[h] = distances[h] * static_cast<double>(counts[h]); }
    const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
    for (double & part : parts) { part = sum > 0 ? part / sum : 1.0 / static_cast<double>(parts.size()); }
    return parts;
}

class Novelty final : public Allocator {
public:
    explicit Novelty(const Options & options)
        : profile_(parse_profile(options)),
          gamma_(options.real("gamma")),
          lambda1_(options.real("lambda1")),
          lambda2_(options.real("lambda2")),
          from_zero_(options.is("start", "zero")),
          two_pass_(options.is("exact", "two-pass")) {}

    EvidenceNeeds needs() const override {
        EvidenceNeeds needs;
        needs.profile = profile_;
        return needs;
    }
    bool wants_all_layers() const override { return two_pass_; }
    std::unique_ptr<AllocatorState> begin() const override { return std::make_unique<State>(); }

    void expect(const NetBudget & /*budget*/, std::span<double> weights) const override {
        std::fill(weights.begin(), weights.end(), 0.0);
    }

    Status weigh(const LayerView & layer, const NetBudget & budget, AllocatorState * state,
                 std::span<double> weights) const override {
        if (layer.profile == nullptr) {
            return {ErrorCode::kMissingEvidence, "novelty needs head profiles, and layer " + std::to_string(layer.layer) +
                                                     " has none: capture what the policy's needs() ask for"};
        }
        State & seen = static_cast<State &>(*state);
        add_novelty(*layer.profile, seen);
        seen.candidates.push_back(gather_candidates(layer));
        seen.distances.push_back(layer.profile->head_distance);
        seen.lengths.push_back(static_cast<int>(seen.candidates.back().scores.size()));
        if (!budget.cascade && layer.layer + 1 < budget.shape.n_layers) { return {}; }

        const int64_t room = std::accumulate(seen.lengths.begin(), seen.lengths.end(), int64_t{0});
        const std::vector<double> shares = divide_real(seen.novelties, seen.lengths, std::min(budget.total, room));
        const size_t first = seen.lengths.size() - seen.candidates.size();
        for (size_t i = 0; i < seen.candidates.size(); ++i) {
            const size_t l = first + i;
            const std::vector<double> parts = head_parts(seen.candidates[i], seen.distances[i], shares[l]);
            for (int h = 0; h < layer.n_lanes(); ++h) {
                weights[static_cast<size_t>(budget.shape.lane(static_cast<int>(l), h))] =
                    seen.novelties[l] * parts[static_cast<size_t>(h)];
            }
        }
        seen.candidates.clear();
        seen.distances.clear();
        return {};
    }

private:
    void add_novelty(const LayerProfile & profile, State & seen) const {
        const bool is_first = seen.novelties.empty();
        const double deviation = is_first ? profile.within : std::abs(profile.to_previous - seen.average);
        seen.average =
            is_first ? (from_zero_ ? 0 : profile.within) : gamma_ * seen.average + (1 - gamma_) * profile.to_previous;
        seen.novelties.push_back(lambda1_ * profile.within + lambda2_ * deviation);
    }

    ProfileNeeds profile_;
    double gamma_;
    double lambda1_;
    double lambda2_;
    bool from_zero_;
    bool two_pass_;
};

}  // namespace

AllocatorInfo novelty_allocator() {
    return {"novelty",
            "layers and heads get entries as their attention differs from that of others",
            "layer ∝ λ1·IR + λ2·TD; in it ∝ HD·T",
            "SCORE: Similarity-Aware Contextual Overlap-Redundancy Eviction for Efficient KV Cache Compression in LLMs",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Allocator> { return std::make_shared<Novelty>(options); }};
}

}  // namespace pith
