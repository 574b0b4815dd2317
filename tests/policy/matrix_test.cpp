// matrix_test.cpp - what every policy must hold, for every composition the registry allows. A new part joins by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <ostream>

#include "policy/eviction.h"
#include "policy/evidence_maker.h"
#include "policy/reference.h"
#include "policy/registry.h"

namespace pith::test {
namespace {

// Names only: the parts' options vary inside a test.
struct Composition {
    const ScorerInfo * scorer;
    const RefinerInfo * refiner;  // may be null
    const AllocatorInfo * allocator;
    const SelectorInfo * selector;

    std::string name() const {
        std::string text(scorer->name);
        if (refiner != nullptr) text.append("_").append(refiner->name);
        return text.append("_").append(allocator->name).append("_").append(selector->name);
    }
};
std::ostream & operator<<(std::ostream & out, const Composition & composition) {
    return out << composition.name();
}

std::vector<Composition> all_compositions() {
    std::vector<const RefinerInfo *> some_refiners = {nullptr};
    for (const RefinerInfo & refiner : refiners()) some_refiners.push_back(&refiner);
    std::vector<Composition> all;
    for (const ScorerInfo & scorer : scorers()) {
        for (const RefinerInfo * refiner : some_refiners) {
            for (const AllocatorInfo & allocator : allocators()) {
                for (const SelectorInfo & selector : selectors()) all.push_back({&scorer, refiner, &allocator, &selector});
            }
        }
    }
    return all;
}

// Each part's variants beside the others' defaults, and the last variants of all together.
std::vector<PolicyVariant> policy_variants(const Composition & c) {
    const auto s = variants_of(c.scorer->name, c.scorer->options);
    const auto r = c.refiner != nullptr ? variants_of(c.refiner->name, c.refiner->options) : std::vector<PartVariant>(1);
    const auto a = variants_of(c.allocator->name, c.allocator->options);
    const auto t = variants_of(c.selector->name, c.selector->options);
    std::vector<PolicyVariant> all;
    for (const auto & x : s) all.push_back({x, r[0], a[0], t[0]});
    for (size_t i = 1; i < r.size(); ++i) all.push_back({s[0], r[i], a[0], t[0]});
    for (size_t i = 1; i < a.size(); ++i) all.push_back({s[0], r[0], a[i], t[0]});
    for (size_t i = 1; i < t.size(); ++i) all.push_back({s[0], r[0], a[0], t[i]});
    all.push_back({s.back(), r.back(), a.back(), t.back()});
    return all;
}

struct Case {
    EvictionTarget target;
    std::vector<LayerEvidence> layers;
};

Case random_case(Rng & rng, int n_group) {
    Case c;
    c.target.shape = {
        .n_layers = random_int(rng, 1, 4), .n_kv_heads = random_int(rng, 1, 4), .n_group = n_group, .head_dim = 8};
    const int n_seen = random_int(rng, 1, 90);
    c.layers = random_int(rng, 0, 3) > 0 ? make_ragged(rng, c.target.shape, n_seen) : make_equal(rng, c.target.shape, n_seen);
    for (int i = random_int(rng, 0, 2); i > 0; --i) {
        const int begin = random_int(rng, 0, n_seen);
        c.target.pinned.push_back({begin, begin + random_int(rng, 0, 6)});
    }
    return c;
}

Result<std::vector<LayerPlan>> evict_at_once(const Policy & policy, const Case & c) {
    EvictionPass pass(policy, c.target, false, 0);
    for (const LayerEvidence & layer : c.layers) PITH_RETURN_IF_ERROR(pass.add_layer(layer));
    return pass.finish();
}

KeptLanes kept_by(const std::vector<LayerPlan> & plans, const Case & c) {
    KeptLanes kept;
    for (const LayerEvidence & layer : c.layers) {
        const auto plan = std::find_if(plans.begin(), plans.end(), [&](const LayerPlan & p) { return p.layer == layer.layer; });
        for (int h = 0; h < layer.n_kv_heads; ++h) {
            std::vector<int32_t> lane(static_cast<size_t>(layer.length(h)));
            std::iota(lane.begin(), lane.end(), 0);
            if (plan != plans.end()) lane.assign(plan->keep.row(h).begin(), plan->keep.row(h).end());
            kept.push_back(lane);
        }
    }
    return kept;
}

void check_case(const PolicyVariant & variant, const Policy & policy, const Case & c) {
    const Reference reference = reference_eviction(variant, c.target, c.layers);
    const std::vector<Ragged<int32_t>> positions_before = [&] {
        std::vector<Ragged<int32_t>> all;
        for (const auto & layer : c.layers) all.push_back(layer.positions);
        return all;
    }();
    const std::vector<LayerEvidence> before = c.layers;
    const auto plans = evict_at_once(policy, c);
    if (reference.too_small) {
        ASSERT_FALSE(plans.ok());
        EXPECT_EQ(plans.status().code(), ErrorCode::kBudget) << plans.status().message();
        return;
    }
    ASSERT_TRUE(plans.ok()) << plans.status().message();
    for (size_t l = 0; l < before.size(); ++l) {
        EXPECT_EQ(c.layers[l].positions, before[l].positions);
        EXPECT_EQ(c.layers[l].window_mean, before[l].window_mean);
        EXPECT_EQ(c.layers[l].last_query, before[l].last_query);
        EXPECT_EQ(c.layers[l].running_sum, before[l].running_sum);
        EXPECT_EQ(c.layers[l].key_norm, before[l].key_norm);
    }

    const KeptLanes kept = kept_by(*plans, c);
    int64_t n_kept = 0;
    for (size_t lane = 0; lane < kept.size(); ++lane) {
        n_kept += std::ssize(kept[lane]);
        EXPECT_TRUE(std::is_sorted(kept[lane].begin(), kept[lane].end(), std::less_equal<>())) << "strictly ascending";
        for (const int32_t j : kept[lane]) {
            EXPECT_GE(j, 0);
            EXPECT_LT(j, std::ssize(reference.is_protected[lane]));
        }
        for (size_t j = 0; j < reference.is_protected[lane].size(); ++j) {
            if (!reference.is_protected[lane][j]) continue;
            EXPECT_TRUE(std::binary_search(kept[lane].begin(), kept[lane].end(), static_cast<int32_t>(j))) << "protected " << j;
        }
    }
    EXPECT_EQ(n_kept, reference.total);
    EXPECT_EQ(kept, reference.kept);
    for (const LayerPlan & plan : *plans) {
        const auto & lanes = positions_before[static_cast<size_t>(plan.layer)];
        EXPECT_LT(plan.keep.size(), lanes.size()) << "a plan is only for a layer that shrinks";
    }
    const auto again = evict_at_once(policy, c);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(kept_by(*again, c), kept) << "deterministic";
}

// From what cannot hold the protected entries, over what just can, to more than there is.
std::vector<int64_t> budgets_for(const PolicyVariant & variant, const Case & c) {
    std::vector<int64_t> feasible;
    int64_t first = 0;
    int longest = 0;
    for (const auto & layer : c.layers) {
        for (int h = 0; h < layer.n_kv_heads; ++h) longest = std::max(longest, layer.length(h));
    }
    for (int64_t budget = 1; budget <= longest + 1 && first == 0; ++budget) {
        EvictionTarget target = c.target;
        target.budget = budget;
        if (!reference_eviction(variant, target, c.layers).too_small) first = budget;
    }
    return {std::max<int64_t>(first - 1, 1), std::max<int64_t>(first, 1), first + 1, (first + longest) / 2 + 1, longest + 1};
}

class PolicyMatrix : public ::testing::TestWithParam<Composition> {};

TEST_P(PolicyMatrix, KeepsTheBudgetTheProtectedEntriesAndWhatTheFormulasSay) {
    uint32_t seed = 1;
    for (const PolicyVariant & variant : policy_variants(GetParam())) {
        const auto policy = Policy::parse(variant.text());
        ASSERT_TRUE(policy.ok()) << policy.status().message();
        for (const int n_group : {1, 2, 4}) {
            for (int repeat = 0; repeat < 3; ++repeat) {
                Rng rng(++seed);
                Case c = random_case(rng, n_group);
                for (const int64_t budget : budgets_for(variant, c)) {
                    c.target.budget = budget;
                    SCOPED_TRACE(variant.text() + ", seed " + std::to_string(seed) + ", budget " + std::to_string(budget));
                    ASSERT_NO_FATAL_FAILURE(check_case(variant, *policy, c));
                    if (HasFailure()) return;  // one failing case says enough
                }
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Registry, PolicyMatrix, ::testing::ValuesIn(all_compositions()),
                         [](const auto & test) { return test.param.name(); });

}  // namespace
}  // namespace pith::test
