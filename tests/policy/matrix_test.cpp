// matrix_test.cpp - what every policy must hold, for every composition the registry allows. A new part joins by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>

#include "every_case.h"
#include "policy/eviction.h"
#include "policy/evidence_maker.h"
#include "policy/reference.h"
#include "policy/refine/refiner.h"
#include "policy/registry.h"
#include "policy/score/scorer.h"

namespace pith::test::matrix_test {
namespace {

// Names only: the parts' options vary inside a test.
struct Composition {
    const ScorerInfo * scorer;
    const RefinerInfo * refiner;  // may be null

    std::string name() const {
        std::string text(scorer->name);
        if (refiner != nullptr) text.append("_").append(refiner->name);
        return text;
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
            if (is_allowed(scorer.name, refiner != nullptr ? refiner->name : "", "uniform", "topk")) {
                all.push_back({&scorer, refiner});
            }
        }
    }
    return all;
}

// Every variant of the scorer, and of the refiner, beside the others' defaults; every variant of each allocator and selector
// where there is no refiner; and of every allocator with every selector a few draws of all parts' variants together.
std::vector<PolicyVariant> policy_variants(const Composition & c, Rng & rng) {
    const auto s = variants_of(c.scorer->name, c.scorer->options);
    const auto r = c.refiner != nullptr ? variants_of(c.refiner->name, c.refiner->options) : std::vector<PartVariant>(1);
    const auto draw = [&](const auto & from) { return from[rng() % from.size()]; };
    std::vector<PolicyVariant> all;
    for (const AllocatorInfo & allocator : allocators()) {
        for (const SelectorInfo & selector : selectors()) {
            if (!is_allowed(c.scorer->name, c.refiner != nullptr ? c.refiner->name : "", allocator.name, selector.name))
                continue;
            const auto a = variants_of(allocator.name, allocator.options);
            const auto t = variants_of(selector.name, selector.options);
            const bool default_allocator = &allocator == allocators().data();
            const bool default_selector = &selector == selectors().data();
            if (default_allocator && default_selector) {
                for (const auto & x : s) all.push_back({x, r[0], a[0], t[0]});
                for (size_t i = 1; i < r.size(); ++i) all.push_back({s[0], r[i], a[0], t[0]});
            }
            for (size_t i = 0; i < a.size() && c.refiner == nullptr && default_selector; ++i) {
                all.push_back({s[0], r[0], a[i], t[0]});
            }
            for (size_t i = 0; i < t.size() && c.refiner == nullptr && default_allocator; ++i) {
                all.push_back({s[0], r[0], a[0], t[i]});
            }
            for (int i = 0; i < 3; ++i) all.push_back({draw(s), draw(r), draw(a), draw(t)});
        }
    }
    // A policy has one window: what asks for two is refused (parse_test.cpp).
    std::erase_if(all, [](const PolicyVariant & variant) {
        const auto window = variant.scorer.options.find("window");
        return window != variant.scorer.options.end() && variant.allocator.window_beside(window->second) != window->second;
    });
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
    c.target.importance = make_importance(rng, c.target.shape);
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

Lanes lanes_of(const Ragged<float> & rows) {
    Lanes lanes;
    for (int r = 0; r < rows.n_rows(); ++r) lanes.emplace_back(rows.row(r).begin(), rows.row(r).end());
    return lanes;
}

void expect_near(const char * what, const Lanes & got, const Lanes & expected, double tolerance) {
    ASSERT_EQ(got.size(), expected.size()) << what;
    for (size_t r = 0; r < got.size(); ++r) {
        ASSERT_EQ(got[r].size(), expected[r].size()) << what << ", row " << r;
        double scale = 0;
        for (const float x : expected[r]) {
            if (std::abs(x) < 1e30F) scale = std::max(scale, std::abs(static_cast<double>(x)));
        }
        for (size_t j = 0; j < got[r].size(); ++j) {
            if (got[r][j] == expected[r][j]) continue;
            ASSERT_NEAR(got[r][j], expected[r][j], tolerance * scale) << what << ", row " << r << ", entry " << j;
        }
    }
}

// What each lane of a layer keeps beside what is protected, where all keep as many.
std::vector<int64_t> net_budgets_of(const PolicyVariant & variant, const Case & c, int layer) {
    const Protected what = reference_protection(variant.scorer, c.target, c.layers);
    std::vector<int64_t> budgets;
    for (int h = 0; h < c.target.shape.n_kv_heads; ++h) {
        const auto & lane = what.is_protected[static_cast<size_t>(c.target.shape.lane(layer, h))];
        budgets.push_back(std::max<int64_t>(c.target.budget - std::count(lane.begin(), lane.end(), true), 0));
    }
    return budgets;
}

// The policy's own scores, each stage compared with the formulas.
void check_scores(const PolicyVariant & variant, const Policy & policy, const Case & c, std::vector<LayerScores> & all) {
    all.clear();
    for (const LayerEvidence & layer : c.layers) {
        LayerScores scores;
        Ragged<float> rows;
        ASSERT_TRUE(policy.scorer().score(layer, rows).ok());
        scores.base = lanes_of(rows);
        expect_near("scores", scores.base, reference_scores(variant.scorer, layer), score_tolerance(variant.scorer));
        Ragged<float> heads;
        if (policy.scorer().has_head_scores()) {
            ASSERT_TRUE(policy.scorer().score_heads(layer, heads).ok());
            scores.heads = lanes_of(heads);
            expect_near("head scores", scores.heads, reference_head_scores(variant.scorer, layer),
                        score_tolerance(variant.scorer));
        }
        if (policy.refiner() != nullptr) {
            const std::vector<int64_t> budgets = net_budgets_of(variant, c, layer.layer);
            const Status status = policy.refiner()->refine(layer, scores.heads.empty() ? nullptr : &heads, budgets, rows);
            ASSERT_TRUE(status.ok()) << status.message();
            expect_near("refined scores", lanes_of(rows),
                        reference_refine(variant.refiner, layer, scores.base, scores.heads, budgets),
                        refined_tolerance(variant.refiner));
        }
        scores.refined = lanes_of(rows);
        all.push_back(std::move(scores));
    }
}

void expect_unchanged(const LayerEvidence & now, const LayerEvidence & before) {
    EXPECT_EQ(now.positions, before.positions);
    EXPECT_EQ(now.window_mean, before.window_mean);
    EXPECT_EQ(now.window_max, before.window_max);
    EXPECT_EQ(now.window_sq, before.window_sq);
    EXPECT_EQ(now.window_head_sq, before.window_head_sq);
    EXPECT_EQ(now.window_entropy, before.window_entropy);
    EXPECT_EQ(now.last_query, before.last_query);
    EXPECT_EQ(now.running_sum, before.running_sum);
    EXPECT_EQ(now.key_norm, before.key_norm);
    EXPECT_EQ(now.key_cosine, before.key_cosine);
    EXPECT_EQ(now.key_leverage, before.key_leverage);
    EXPECT_EQ(now.block_attention, before.block_attention);
    EXPECT_EQ(now.expected, before.expected);
    EXPECT_EQ(now.value_l1, before.value_l1);
    EXPECT_EQ(now.value_l2, before.value_l2);
    EXPECT_EQ(now.output_l1, before.output_l1);
    EXPECT_EQ(now.output_l2, before.output_l2);
    EXPECT_EQ(now.profile, before.profile);
    EXPECT_EQ(now.sampled_rows, before.sampled_rows);
}

void check_case(const PolicyVariant & variant, const Policy & policy, const Case & c, const std::vector<LayerScores> & scores) {
    const Protected what = reference_protection(variant.scorer, c.target, c.layers);
    const std::vector<LayerEvidence> before = c.layers;
    const auto plans = evict_at_once(policy, c);
    if (what.too_small) {
        ASSERT_FALSE(plans.ok());
        EXPECT_EQ(plans.status().code(), ErrorCode::kBudget) << plans.status().message();
        return;
    }
    ASSERT_TRUE(plans.ok()) << plans.status().message();
    for (size_t l = 0; l < before.size(); ++l) expect_unchanged(c.layers[l], before[l]);

    const KeptLanes kept = kept_by(*plans, c);
    int64_t n_kept = 0;
    for (size_t lane = 0; lane < kept.size(); ++lane) {
        const std::vector<bool> & is_protected = what.is_protected[lane];
        n_kept += std::ssize(kept[lane]);
        EXPECT_TRUE(std::is_sorted(kept[lane].begin(), kept[lane].end(), std::less_equal<>())) << "strictly ascending";
        for (const int32_t j : kept[lane]) {
            EXPECT_GE(j, 0);
            EXPECT_LT(j, std::ssize(is_protected));
        }
        for (size_t j = 0; j < is_protected.size(); ++j) {
            if (!is_protected[j]) continue;
            EXPECT_TRUE(std::binary_search(kept[lane].begin(), kept[lane].end(), static_cast<int32_t>(j))) << "protected " << j;
        }
    }
    if (policy.keeps_less()) {
        EXPECT_LE(n_kept, what.total);
    } else {
        EXPECT_EQ(n_kept, what.total);
    }
    EXPECT_EQ(kept, reference_eviction(variant, c.target, c.layers, scores));
    for (const LayerPlan & plan : *plans) {
        const auto & lanes = before[static_cast<size_t>(plan.layer)].positions;
        EXPECT_LT(plan.keep.size(), lanes.size()) << "a plan is only for a layer that shrinks";
    }
    const auto again = evict_at_once(policy, c);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(kept_by(*again, c), kept) << "deterministic";
}

// From what cannot hold the protected entries, over what just can, to more than there is.
std::vector<int64_t> budgets_for(const PolicyVariant & variant, const Case & c) {
    int64_t first = 0;
    int longest = 0;
    for (const auto & layer : c.layers) {
        for (int h = 0; h < layer.n_kv_heads; ++h) longest = std::max(longest, layer.length(h));
    }
    for (int64_t budget = 1; budget <= longest + 1 && first == 0; ++budget) {
        EvictionTarget target = c.target;
        target.budget = budget;
        if (!reference_protection(variant.scorer, target, c.layers).too_small) first = budget;
    }
    return {std::max<int64_t>(first - 1, 1), std::max<int64_t>(first, 1), first + 1, (first + longest) / 2 + 1, longest + 1};
}

class PolicyMatrix : public ::testing::TestWithParam<Composition> {};

TEST_P(PolicyMatrix, KeepsTheBudgetTheProtectedEntriesAndWhatTheFormulasSay) {
    uint32_t seed = 1;
    Rng draws(seed);
    for (const PolicyVariant & variant : policy_variants(GetParam(), draws)) {
        const auto policy = Policy::parse(variant.text());
        ASSERT_TRUE(policy.ok()) << policy.status().message();
        for (const int n_group : {1, 2, 4, 7}) {
            Rng rng(++seed);
            if (!testing::in_turn(variant.text(), seed, 4)) { continue; }  // a size of groups for each variant
            Case c = random_case(rng, n_group);
            SCOPED_TRACE(variant.text() + ", seed " + std::to_string(seed));
            std::vector<LayerScores> scores;
            ASSERT_NO_FATAL_FAILURE(check_scores(variant, *policy, c, scores));
            for (const int64_t budget : budgets_for(variant, c)) {
                c.target.budget = budget;
                SCOPED_TRACE("budget " + std::to_string(budget));
                if (policy->refiner() != nullptr && policy->refiner()->wants_budgets()) {
                    ASSERT_NO_FATAL_FAILURE(check_scores(variant, *policy, c, scores));
                }
                ASSERT_NO_FATAL_FAILURE(check_case(variant, *policy, c, scores));
                if (HasFailure()) return;  // one failing case says enough
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Registry, PolicyMatrix, ::testing::ValuesIn(all_compositions()),
                         [](const auto & test) { return test.param.name(); });

}  // namespace
}  // namespace pith::test::matrix_test
