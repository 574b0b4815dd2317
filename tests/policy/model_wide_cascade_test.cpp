// model_wide_cascade_test.cpp - the policies that rank across layers (CAKE, LAVa, SCORE, LaProx), layer by layer, against a
// slow simulation of what they are said to do; LaProx also against all layers at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <string>

#include "policy/evidence_maker.h"
#include "policy/reference_parts.h"
#include "policy/registry.h"
#include "policy/run_cascade.h"
#include "policy/score/scorer.h"

namespace pith::test::model_wide_cascade_test {
namespace {

template <class Part>
std::vector<PartVariant> variants(std::span<const PartInfo<Part>> parts, std::string_view name) {
    const auto info = std::find_if(parts.begin(), parts.end(), [&](const auto & p) { return p.name == name; });
    return variants_of(info->name, info->options);
}

PolicyVariant policy_of(const PartVariant & allocator, const PartVariant & selector) {
    PartVariant scorer = variants<Scorer>(scorers(), "snapkv")[0];
    scorer.options.at("window") = allocator.window_beside("3");  // lanes here are short
    return {scorer, {}, allocator, selector};
}

std::vector<std::vector<int32_t>> lanes_of(const Ragged<int32_t> & layer) {
    std::vector<std::vector<int32_t>> lanes;
    for (int h = 0; h < layer.n_rows(); ++h) lanes.emplace_back(layer.row(h).begin(), layer.row(h).end());
    return lanes;
}

struct Case {
    EvictionTarget target;
    int n = 0;  // entries of every lane
    std::vector<LayerEvidence> layers;
};

// Lanes of a prompt: all equally long.
Case random_case(uint32_t seed) {
    Rng rng(seed);
    Case c;
    c.target.shape = {random_int(rng, 1, 6), random_int(rng, 1, 4), random_int(rng, 1, 2), 8};
    c.n = random_int(rng, 12, 70);
    c.target.budget = random_int(rng, 6, c.n + 1);
    if (seed % 2 == 0) c.target.pinned = {{2, 4}};
    c.layers = make_equal(rng, c.target.shape, c.n);
    return c;
}

std::vector<LayerScores> scores_by(const Policy & policy, const std::vector<LayerEvidence> & layers) {
    std::vector<LayerScores> all;
    for (const LayerEvidence & layer : layers) {
        Ragged<float> rows;
        EXPECT_TRUE(policy.scorer().score(layer, rows).ok());
        LayerScores scores;
        for (int h = 0; h < rows.n_rows(); ++h) scores.base.emplace_back(rows.row(h).begin(), rows.row(h).end());
        scores.refined = scores.base;
        all.push_back(scores);
    }
    return all;
}

// Every stage in order: weights of the layers that have come; shares rounded up; the new layer is ranked once, the layers
// before it lose the tail of their ranking; rounded at the end.
Cache simulate(const PolicyVariant & policy, const Case & c, const std::vector<LayerScores> & scores) {
    const ReferenceCase all = reference_case(policy, c.target, c.layers, scores);
    const CacheShape & shape = c.target.shape;
    std::vector<std::vector<int32_t>> kept(static_cast<size_t>(shape.n_lanes()));  // candidates, the best first
    std::vector<int> lengths = all.net_lengths;
    const auto cut = [&](size_t lane, int share) {
        if (share < std::ssize(kept[lane])) kept[lane].resize(static_cast<size_t>(share));
        lengths[lane] = static_cast<int>(kept[lane].size());
    };
    for (int layer = 0; layer < shape.n_layers; ++layer) {
        const auto weights = reference_cascade_weights(policy.allocator, all, layer + 1);
        const auto real = real_shares(weights, lengths, all.net_total);
        std::vector<int> shares;
        for (size_t lane = 0; lane < real.size(); ++lane) shares.push_back(std::min(ceil_of(real[lane]), lengths[lane]));
        const auto first = shares.begin() + shape.lane(layer, 0);
        const Lanes priority = reference_priority(policy.selector, all, layer, {first, first + shape.n_kv_heads});
        for (int h = 0; h < shape.n_kv_heads; ++h) {
            const auto lane = static_cast<size_t>(shape.lane(layer, h));
            const auto & own = priority[static_cast<size_t>(h)];
            for (int32_t j = 0; j < static_cast<int32_t>(own.size()); ++j) {
                if (!all.is_protected[lane][static_cast<size_t>(j)]) kept[lane].push_back(j);
            }
            std::sort(kept[lane].begin(), kept[lane].end(), [&](int32_t a, int32_t b) {
                const float x = own[static_cast<size_t>(a)];
                const float y = own[static_cast<size_t>(b)];
                return x != y ? x > y : a > b;
            });
        }
        for (size_t lane = 0; lane < static_cast<size_t>(shape.lane(layer + 1, 0)); ++lane) cut(lane, shares[lane]);
    }
    const auto weights = reference_cascade_weights(policy.allocator, all, shape.n_layers);
    const auto shares = whole_shares(real_shares(weights, lengths, all.net_total), lengths, all.net_total);
    Cache cache;
    for (int layer = 0; layer < shape.n_layers; ++layer) {
        Ragged<int32_t> lanes;
        for (int h = 0; h < shape.n_kv_heads; ++h) {
            const auto lane = static_cast<size_t>(shape.lane(layer, h));
            cut(lane, shares[lane]);
            std::vector<int32_t> positions = kept[lane];
            for (size_t j = 0; j < all.is_protected[lane].size(); ++j) {
                if (all.is_protected[lane][j]) positions.push_back(static_cast<int32_t>(j));
            }
            std::sort(positions.begin(), positions.end());  // positions are the indices: lanes are whole
            lanes.push_row(positions);
        }
        cache.push_back(lanes);
    }
    return cache;
}

TEST(ModelWideCascade, DoesWhatItsSlowSimulationDoes) {
    uint32_t seed = 0;
    for (const char * allocator : {"preference", "entropy", "novelty", "global"}) {
        for (const PartVariant & a : variants<Allocator>(allocators(), allocator)) {
            if (allocator == std::string("global") && !a.is("flatten", "both")) continue;    // no ranking across layers
            if (allocator == std::string("novelty") && a.is("exact", "two-pass")) continue;  // no cascade
            for (const char * selector : {"topk", "diverse"}) {
                for (const PartVariant & s : variants<Selector>(selectors(), selector)) {
                    for (int repeat = 0; repeat < 12; ++repeat) {
                        const Case c = random_case(++seed);
                        const PolicyVariant variant = policy_of(a, s);
                        const Policy policy = Policy::parse(variant.text()).value();
                        SCOPED_TRACE(variant.text() + ", seed " + std::to_string(seed) + ", budget " +
                                     std::to_string(c.target.budget));
                        Cache cache;
                        ASSERT_NO_FATAL_FAILURE(run_cascade(policy, c.target, c.layers, c.n, cache));
                        const Cache expected = simulate(variant, c, scores_by(policy, c.layers));
                        for (size_t l = 0; l < cache.size(); ++l)
                            ASSERT_EQ(lanes_of(cache[l]), lanes_of(expected[l])) << "layer " << l;
                    }
                }
            }
        }
    }
}

// An entry outside the best of the layers so far is outside the best of all.
TEST(ModelWideCascade, OfLaProxEndsWhereAllLayersAtOnceEndAndHoldsNoMoreThanTheBudgetAndALayer) {
    for (uint32_t seed = 1; seed <= 300; ++seed) {
        for (const char * name :
             {"matprod:window=3+global", "snapkv:window=2+global:normalise=off", "keydiff:recent=2+global"}) {
            Rng rng(seed);
            const CacheShape shape{random_int(rng, 1, 8), random_int(rng, 1, 4), random_int(rng, 1, 2), 8};
            const bool equal = seed % 2 == 0;
            const int n = random_int(rng, 30, 70);
            std::vector<LayerEvidence> layers;
            int longest = n;
            if (equal) {
                layers = make_equal(rng, shape, n);
            } else {  // lanes no shorter than the window, so that what is protected is known beforehand
                longest = 0;
                for (int l = 0; l < shape.n_layers; ++l) {
                    std::vector<std::vector<int32_t>> lanes;
                    for (int h = 0; h < shape.n_kv_heads; ++h) {
                        const int keep_of_8 = random_int(rng, 2, 8);
                        std::vector<int32_t> lane;
                        for (int32_t p = 0; p < n; ++p) {
                            if (p >= n - 3 || random_int(rng, 1, 8) <= keep_of_8) lane.push_back(p);
                        }
                        longest = std::max(longest, static_cast<int>(lane.size()));
                        lanes.push_back(lane);
                    }
                    layers.push_back(make_evidence(rng, shape, l, n, lanes));
                }
            }
            int64_t there_is = 0;
            int64_t largest_layer = 0;
            for (const LayerEvidence & layer : layers) {
                there_is += std::ssize(layer.positions.flat());
                largest_layer = std::max<int64_t>(largest_layer, std::ssize(layer.positions.flat()));
            }
            const int64_t most_budget = there_is / shape.n_lanes();
            const EvictionTarget target{shape, random_int(rng, 4, static_cast<int>(std::max<int64_t>(most_budget, 4))), {}};
            if (target.budget * shape.n_lanes() > there_is) continue;
            const Policy policy = Policy::parse(name).value();
            SCOPED_TRACE(std::string(name) + ", seed " + std::to_string(seed));
            Cache at_once;
            Cache cascade;
            int64_t most = 0;
            ASSERT_NO_FATAL_FAILURE(run_at_once(policy, target, layers, at_once));
            ASSERT_NO_FATAL_FAILURE(run_cascade(policy, target, layers, longest, cascade, &most));
            ASSERT_EQ(cascade, at_once);
            ASSERT_EQ(n_entries(cascade), target.budget * shape.n_lanes());
            ASSERT_LE(most, target.budget * shape.n_lanes() + largest_layer);
        }
    }
}

// Greedy choices are not nested, and a lane's part is fixed before the later layers are known.
TEST(ModelWideCascade, OfScoreIsNearToWhatTwoPassesKeep) {
    const Policy cascade = Policy::parse("snapkv:window=3+novelty+diverse").value();
    const Policy two_pass = Policy::parse("snapkv:window=3+novelty:exact=two-pass+diverse").value();
    double sum = 0;
    double least = 1;
    int n_cases = 0;
    for (uint32_t seed = 1; seed <= 200; ++seed) {
        const Case c = random_case(seed);
        if (c.target.budget >= c.n) continue;
        Cache by_layer;
        Cache in_two;
        Cache at_once;
        int64_t most = 0;
        ASSERT_NO_FATAL_FAILURE(run_cascade(cascade, c.target, c.layers, c.n, by_layer));
        ASSERT_NO_FATAL_FAILURE(run_cascade(two_pass, c.target, c.layers, c.n, in_two, &most));
        ASSERT_NO_FATAL_FAILURE(run_at_once(cascade, c.target, c.layers, at_once));
        EXPECT_EQ(in_two, at_once) << "all layers are known to both";
        EXPECT_EQ(most, int64_t{c.n} * c.target.shape.n_lanes()) << "two passes hold everything";
        ASSERT_EQ(n_entries(by_layer), n_entries(in_two));
        int64_t n_common = 0;
        for (size_t l = 0; l < by_layer.size(); ++l) {
            for (int h = 0; h < by_layer[l].n_rows(); ++h) {
                const auto a = by_layer[l].row(h);
                const auto b = in_two[l].row(h);
                n_common +=
                    std::count_if(a.begin(), a.end(), [&](int32_t p) { return std::binary_search(b.begin(), b.end(), p); });
            }
        }
        const double overlap = static_cast<double>(n_common) / static_cast<double>(n_entries(in_two));
        sum += overlap;
        least = std::min(least, overlap);
        ++n_cases;
    }
    RecordProperty("mean_overlap", std::to_string(sum / n_cases));
    RecordProperty("least_overlap", std::to_string(least));
    std::cout << "SCORE's cascade keeps " << 100 * sum / n_cases << " % of what two passes keep (least " << 100 * least
              << " %, " << n_cases << " random cases)\n";
    EXPECT_GT(sum / n_cases, 0.9);
}

}  // namespace
}  // namespace pith::test::model_wide_cascade_test
