// evidence_attention_test.cpp - what observed and sampled queries say, against plain f64 code, over ragged lanes and in every
// K/V type; and that it does not depend on how the prompt was cut.
#include <gtest/gtest.h>

#include <algorithm>

#include "attention/cpu/cpu_lane_attention.h"
#include "attention/random_lanes.h"
#include "attention/rounding.h"
#include "evidence/evidence_state.h"
#include "evidence/lane_tiles.h"
#include "evidence/observe.h"

namespace pith::evidence_attention_test {
namespace {

using testing::LaneCase;
using testing::norm;
using testing::RandomLanes;
using testing::Vector;

constexpr int kFirst = 110;  // evicted at random once, then
constexpr int kLast = 40;

class EvidenceAttention : public ::testing::TestWithParam<LaneCase> {
protected:
    int n_heads() const { return lanes_.shape().n_heads(); }
    int lane_of(int head) const { return head / lanes_.shape().n_group; }

    // A state that has seen all queries, `step` at a time.
    EvidenceState state_of(const std::vector<EvidenceNeeds> & needs, int step) {
        EvidenceState state(lanes_.shape(), needs);
        for (int first = 0; first < lanes_.n_seen(); first += step) {
            state.remember(0, lanes_.queries(first), std::min(step, lanes_.n_seen() - first), first);
        }
        return state;
    }
    // The same, told all the while how many are to come.
    EvidenceState told_state_of(const std::vector<EvidenceNeeds> & needs, int step) {
        EvidenceState state(lanes_.shape(), needs);
        for (int first = 0; first < lanes_.n_seen(); first += step) {
            const int n = std::min(step, lanes_.n_seen() - first);
            const int n_to_come = lanes_.n_seen() - first - n;
            const int n_read = state.n_remembered(n, n_to_come);
            state.remember(0, lanes_.queries(first + n - n_read), n_read, first + n - n_read, n_to_come);
        }
        return state;
    }
    Result<LayerEvidence> gather(const EvidenceState & state, const EvidenceNeeds & needs) {
        return state.gather(lanes_.runner(), lanes_.cache(), 0, 0, lanes_.n_seen(), needs);
    }
    static std::vector<int> sampled(const ProfileNeeds & needs, int n_seen);

    // What each number of a row may be off by. observe_test.cpp has the path that multiplies in the type's precision.
    static double off(const Vector & row) {
        const KvFormat format = format_of(GetParam().type).value();
        return testing::most_off(row, testing::attention_rounding(format, format, GetParam().head_dim, kMaxDotRows + 1, false));
    }
    RandomLanes lanes_{GetParam().type, GetParam().n_kv_heads, GetParam().n_group, GetParam().head_dim, kFirst, kLast};
};

TEST_P(EvidenceAttention, WindowSquaresAndEntropyEqualPlainCode) {
    EvidenceNeeds needs;
    needs.window = 24;
    needs.window_head_sq = needs.window_entropy = needs.window_mean = needs.last_query = true;
    const EvidenceState state = state_of({needs}, 17);
    const auto evidence = gather(state, needs);
    ASSERT_TRUE(evidence.ok()) << evidence.status().message();
    ASSERT_EQ(evidence->n_window, 24);
    EXPECT_EQ(evidence->window_sq.n_rows(), 0);  // nobody asked
    EXPECT_EQ(evidence->key_norm.n_rows(), 0);
    EXPECT_EQ(evidence->values, nullptr);
    for (int head = 0; head < n_heads(); ++head) {
        Vector squares(static_cast<size_t>(lanes_.length(lane_of(head))), 0.0);
        Vector mean = squares;
        double entropy = 0;
        for (int i = lanes_.n_seen() - 24; i < lanes_.n_seen(); ++i) {
            const Vector p = lanes_.probabilities(head, i);
            for (size_t j = 0; j < p.size(); ++j) {
                squares[j] += p[j] * p[j];
                mean[j] += p[j] / 24;
                const bool past = lanes_.cache().positions(lane_of(head))[j] < lanes_.n_seen() - 24;
                if (p[j] > 0 && past) { entropy -= p[j] * std::log(p[j]); }
            }
        }
        for (size_t j = 0; j < squares.size(); ++j) {
            EXPECT_NEAR(evidence->window_head_sq.row(head)[j], squares[j], 2 * off(squares));
            EXPECT_NEAR(evidence->window_mean.row(head)[j], mean[j], off(mean));
        }
        EXPECT_NEAR(evidence->window_entropy[static_cast<size_t>(head)], entropy, off({1 + entropy}));
    }
}

// Rows are pooled before the window, each brought back to its sum, before their maximum is taken. More of them than are looked
// at together.
TEST_P(EvidenceAttention, TheMaximumOfPooledRowsEqualsPlainCode) {
    for (const int window : {24, 40}) {
        const EvidenceNeeds needs{.window = window, .window_max = true, .window_max_pool = 5};
        const auto evidence = gather(state_of({needs}, 17), needs);
        ASSERT_TRUE(evidence.ok()) << evidence.status().message();
        for (int head = 0; head < n_heads(); ++head) {
            const auto positions = lanes_.cache().positions(lane_of(head));
            const auto n = static_cast<int>(positions.size());
            int n_past = 0;
            while (n_past < n && positions[static_cast<size_t>(n_past)] < lanes_.n_seen() - window) { ++n_past; }
            Vector most(static_cast<size_t>(n), 0.0);
            for (int i = lanes_.n_seen() - window; i < lanes_.n_seen(); ++i) {
                const Vector p = lanes_.probabilities(head, i);
                Vector pooled = p;
                double before = 0;
                double after = 0;
                for (int j = 0; j < n_past; ++j) {
                    pooled[static_cast<size_t>(j)] = 0;
                    for (int k = std::max(0, j - 2); k <= std::min(n_past - 1, j + 2); ++k) {
                        pooled[static_cast<size_t>(j)] += p[static_cast<size_t>(k)] / 5;
                    }
                    before += p[static_cast<size_t>(j)];
                    after += pooled[static_cast<size_t>(j)];
                }
                for (int j = 0; j < n; ++j) {
                    const auto at = static_cast<size_t>(j);
                    most[at] = std::max(most[at], j < n_past && after > 0 ? pooled[at] * before / after : pooled[at]);
                }
            }
            for (size_t j = 0; j < most.size(); ++j) { ASSERT_NEAR(evidence->window_max.row(head)[j], most[j], off(most)); }
        }
    }
}

TEST_P(EvidenceAttention, OneStateServesPoliciesWithDifferentWindowsAsStatesOfTheirOwn) {
    EvidenceNeeds small;
    small.window = 5;
    small.window_mean = small.window_sq = true;
    EvidenceNeeds large;
    large.window = 32;
    large.window_mean = large.window_entropy = true;
    EvidenceNeeds tail;
    tail.running_sum = true;
    tail.running_last = 50;
    const EvidenceState shared = state_of({small, large, tail}, 30);
    for (const EvidenceNeeds & needs : {small, large, tail}) {
        const auto own = gather(state_of({needs}, 30), needs);
        const auto of_shared = gather(shared, needs);
        ASSERT_TRUE(own.ok() && of_shared.ok());
        EXPECT_EQ(own->window_mean, of_shared->window_mean);
        EXPECT_EQ(own->window_sq, of_shared->window_sq);
        EXPECT_EQ(own->window_entropy, of_shared->window_entropy);
        EXPECT_EQ(own->running_sum, of_shared->running_sum);
        EXPECT_EQ(own->n_window, of_shared->n_window);
    }
}

// The n smallest hashes among the eligible positions, by sorting all of them.
std::vector<int> EvidenceAttention::sampled(const ProfileNeeds & needs, int n_seen) {
    std::vector<std::pair<uint64_t, int>> all;
    const bool any = needs.sample == QuerySample::kAny;
    for (int p = any ? 0 : needs.margin; p < (any ? n_seen : n_seen - needs.margin); ++p) {
        all.emplace_back(sample_hash(needs.seed, p), p);
    }
    std::ranges::sort(all);
    all.resize(std::min(all.size(), static_cast<size_t>(needs.n_queries)));
    std::vector<int> positions;
    for (const auto & [hash, p] : all) { positions.push_back(p); }
    std::ranges::sort(positions);
    return positions;
}

// A row as the distance wants it, over the whole lane.
Vector unit_row(Vector p, HeadDistance distance) {
    if (distance == HeadDistance::kBhattacharyya) {
        for (double & one : p) { one = std::sqrt(one); }
    }
    if (distance == HeadDistance::kPearson) {
        double mean = 0;
        for (const double one : p) { mean += one / static_cast<double>(p.size()); }
        for (double & one : p) { one -= mean; }
    }
    if (distance == HeadDistance::kPearson || distance == HeadDistance::kCosine) {
        const double size = norm(p);
        for (double & one : p) { one = size > 0 ? one / size : 0.0; }
    }
    return p;
}

TEST_P(EvidenceAttention, ProfilesEqualPlainCodeForEveryDistanceAndSample) {
    for (const HeadDistance distance : {HeadDistance::kCosine, HeadDistance::kPearson, HeadDistance::kBhattacharyya,
                                        HeadDistance::kJensenShannon, HeadDistance::kEuclidean}) {
        for (const QuerySample sample : {QuerySample::kMiddle, QuerySample::kAny}) {
            EvidenceNeeds needs;
            needs.profile = {.n_queries = 70, .margin = 16, .seed = 9, .sample = sample, .distance = distance};
            const auto evidence = gather(state_of({needs}, 41), needs);
            ASSERT_TRUE(evidence.ok()) << evidence.status().message();
            const std::vector<int> positions = sampled(needs.profile, lanes_.n_seen());
            ASSERT_EQ(evidence->n_sampled, 70);
            ASSERT_EQ(positions.size(), 70U);
            for (int head = 0; head < n_heads(); ++head) {
                Vector mean(static_cast<size_t>(lanes_.length(lane_of(head))), 0.0);
                for (size_t i = 0; i < positions.size(); ++i) {
                    const Vector p = lanes_.probabilities(head, positions[i]);
                    const Vector unit = unit_row(p, distance);
                    for (size_t j = 0; j < mean.size(); ++j) { mean[j] += unit[j] / 70; }
                    if (!needs.profile.wants_rows()) { continue; }
                    const auto row = evidence->sampled_rows.row(head * 70 + static_cast<int>(i));
                    for (size_t j = 0; j < mean.size(); ++j) { ASSERT_NEAR(row[j], p[j], off(p)); }
                }
                for (size_t j = 0; j < mean.size(); ++j) {
                    ASSERT_NEAR(evidence->profile.row(head)[j], mean[j], off(mean))
                        << "distance " << static_cast<int>(distance);
                }
            }
            EXPECT_EQ(evidence->sampled_rows.n_rows(), needs.profile.wants_rows() ? 70 * n_heads() : 0);
        }
    }
}

TEST_P(EvidenceAttention, ProfilesDoNotDependOnHowTheQueriesArrived) {
    EvidenceNeeds needs;
    needs.profile = {.n_queries = 40, .margin = 20, .seed = 3};
    EvidenceNeeds fewer = needs;
    fewer.profile.n_queries = 12;
    const auto whole = gather(state_of({needs}, lanes_.n_seen()), needs);
    for (const int step : {1, 7, 64}) {
        const EvidenceState state = state_of({needs}, step);
        const auto evidence = gather(state, needs);
        ASSERT_TRUE(evidence.ok());
        EXPECT_EQ(evidence->profile, whole->profile) << step;
        ASSERT_TRUE(state.covers(fewer));  // a larger sample holds the smaller one
        EXPECT_EQ(gather(state, fewer)->profile, gather(state_of({fewer}, step), fewer)->profile);
        EXPECT_LE(state.n_kept_queries(), 20);
    }
}

// Queries that will not be asked for are not even copied; what is gathered, now and after later tokens, is the same.
TEST_P(EvidenceAttention, KnowingHowMuchIsToComeChangesNothingThatIsGathered) {
    EvidenceNeeds window;
    window.window = 24;
    window.window_mean = window.last_query = true;
    EvidenceNeeds profile;
    profile.profile = {.n_queries = 40, .margin = 20, .seed = 3};
    EvidenceNeeds any = profile;
    any.profile = {.n_queries = 30, .margin = 5, .seed = 4, .sample = QuerySample::kAny};
    EvidenceNeeds top = window;
    top.profile = {.n_queries = 6, .margin = 10, .sample = QuerySample::kTopWindow};
    for (const std::vector<EvidenceNeeds> & needs :
         {std::vector{window}, std::vector{window, profile}, std::vector{any}, std::vector{top}}) {
        for (const int step : {1, 7, 64, lanes_.n_seen()}) {
            EvidenceState told = told_state_of(needs, step);
            EvidenceState plain = state_of(needs, step);
            for (const bool later : {false, true}) {
                for (const EvidenceNeeds & one : needs) {
                    const auto got = gather(told, one);
                    const auto expected = gather(plain, one);
                    ASSERT_TRUE(got.ok() && expected.ok()) << got.status().message() << expected.status().message();
                    EXPECT_EQ(got->window_mean, expected->window_mean) << step;
                    EXPECT_EQ(got->last_query, expected->last_query) << step;
                    EXPECT_EQ(got->profile, expected->profile) << step;
                    EXPECT_EQ(got->n_sampled, expected->n_sampled) << step;
                }
                if (later) { continue; }
                for (EvidenceState * state : {&told, &plain}) { state->remember(0, lanes_.queries(), 30, lanes_.n_seen()); }
            }
        }
    }
}

TEST(QuerySampler, ASampleWhoseEndIsKnownIsTheSameAndTakesInNoOtherQuery) {
    const ProfileNeeds needs{.n_queries = 16, .margin = 10, .seed = 7};
    QuerySampler plain(needs, 1);
    QuerySampler told(needs, 1);
    const auto offer = [](QuerySampler & sampler, int32_t end) {
        for (int32_t p = sampler.next(); p < end; ++p) {
            const auto query = static_cast<float>(p);
            sampler.offer(p, &query);
        }
    };
    const auto take = [](const QuerySampler & sampler) {
        std::pair<std::vector<float>, std::vector<int32_t>> taken;
        sampler.take(16, taken.first, taken.second);
        return taken;
    };
    told.expect(500);
    for (const int64_t n_seen : {500, 500 + 90, 2000}) {  // grows past what was expected, then is told again
        if (n_seen == 2000) { told.expect(n_seen); }
        offer(plain, static_cast<int32_t>(plain.end_of_eligible(n_seen)));
        offer(told, static_cast<int32_t>(told.end_of_eligible(n_seen)));
        EXPECT_EQ(take(told), take(plain)) << n_seen;
        ASSERT_EQ(take(told).second.size(), 16U);
    }
    // Before the end, only positions that the whole sample has are in it.
    QuerySampler half(needs, 1);
    half.expect(2000);
    offer(half, 1000);
    const std::vector<int32_t> all = take(plain).second;
    for (const int32_t position : take(half).second) { EXPECT_TRUE(std::ranges::binary_search(all, position)) << position; }
    EXPECT_LT(take(half).second.size(), 16U);
}

TEST_P(EvidenceAttention, TheTopWindowSampleIsThePositionsTheWindowAttendsToMost) {
    EvidenceNeeds needs;
    needs.window = 8;
    needs.window_mean = true;
    needs.profile = {.n_queries = 6, .margin = 10, .sample = QuerySample::kTopWindow};
    // Only what came since the eviction counts: the state is compacted after the first part.
    EvidenceState state(lanes_.shape(), needs);
    state.remember(0, lanes_.queries(), kFirst, 0);
    state.compact(0, Ragged<int32_t>());
    const int n_kept = state.n_kept_queries();
    state.remember(0, lanes_.queries(kFirst), kLast, kFirst);
    const auto evidence = gather(state, needs);
    ASSERT_TRUE(evidence.ok()) << evidence.status().message();
    std::vector<std::pair<double, int>> attention;
    for (int p = kFirst - n_kept; p < lanes_.n_seen() - 10; ++p) {
        double sum = 0;
        for (int head = 0; head < n_heads(); ++head) {
            const auto lane = lanes_.cache().positions(lane_of(head));
            const auto at = std::ranges::find(lane, p);
            if (at != lane.end()) { sum += evidence->window_mean.row(head)[static_cast<size_t>(at - lane.begin())]; }
        }
        attention.emplace_back(-sum, p);
    }
    std::ranges::sort(attention);
    ASSERT_EQ(evidence->n_sampled, 6);
    for (int head = 0; head < n_heads(); ++head) {
        Vector mean(static_cast<size_t>(lanes_.length(lane_of(head))), 0.0);
        for (int i = 0; i < 6; ++i) {
            const Vector unit =
                unit_row(lanes_.probabilities(head, attention[static_cast<size_t>(i)].second), HeadDistance::kCosine);
            for (size_t j = 0; j < mean.size(); ++j) { mean[j] += unit[j] / 6; }
        }
        for (size_t j = 0; j < mean.size(); ++j) { ASSERT_NEAR(evidence->profile.row(head)[j], mean[j], off(mean)); }
    }
}

TEST_P(EvidenceAttention, BeforeAnyPositionIsEligibleTheNewestQueriesStandIn) {
    EvidenceNeeds needs;
    needs.profile = {.n_queries = 4, .margin = 100};
    const auto evidence = gather(state_of({needs}, 50), needs);
    ASSERT_TRUE(evidence.ok()) << evidence.status().message();
    ASSERT_EQ(evidence->n_sampled, 4);
    for (int head = 0; head < n_heads(); ++head) {
        Vector mean(static_cast<size_t>(lanes_.length(lane_of(head))), 0.0);
        for (int p = lanes_.n_seen() - 4; p < lanes_.n_seen(); ++p) {
            const Vector unit = unit_row(lanes_.probabilities(head, p), HeadDistance::kCosine);
            for (size_t j = 0; j < mean.size(); ++j) { mean[j] += unit[j] / 4; }
        }
        for (size_t j = 0; j < mean.size(); ++j) { ASSERT_NEAR(evidence->profile.row(head)[j], mean[j], off(mean)); }
    }
}

TEST_P(EvidenceAttention, ALaneWhoseEntriesAreAllNewerThanAQueryGetsNothingFromIt) {
    Ragged<int32_t> keep;
    std::vector<int32_t> newest;
    for (int h = 0; h < lanes_.shape().n_kv_heads; ++h) {
        newest.assign(1, lanes_.length(h) - 1);
        keep.push_row(newest);
    }
    lanes_.cache().compact(0, 0, keep);
    EvidenceNeeds needs;
    needs.window = 20;
    needs.window_mean = needs.window_head_sq = needs.window_entropy = needs.last_query = true;
    needs.profile = {.n_queries = 20, .margin = 4, .distance = HeadDistance::kPearson};
    const auto evidence = gather(state_of({needs}, 50), needs);
    ASSERT_TRUE(evidence.ok()) << evidence.status().message();
    for (int head = 0; head < n_heads(); ++head) {
        EXPECT_FLOAT_EQ(evidence->window_mean.row(head)[0], 1.0F / 20);  // the newest query sees itself
        EXPECT_FLOAT_EQ(evidence->last_query.row(head)[0], 1.0F);
        EXPECT_EQ(evidence->window_entropy[static_cast<size_t>(head)], 0.0);
        EXPECT_EQ(evidence->profile.row(head)[0], 0.0F);
    }
}

INSTANTIATE_TEST_SUITE_P(TypesAndGroups, EvidenceAttention, testing::lane_cases());

TEST(EvidenceState, SaysWhatItWasNotMadeFor) {
    RandomLanes lanes(GGML_TYPE_F32, 1, 1, 32, 20, 10);
    EvidenceNeeds window;
    window.window = 4;
    window.window_mean = true;
    EvidenceState state(lanes.shape(), window);
    const auto code = [&](const EvidenceNeeds & needs) {
        return state.gather(lanes.runner(), lanes.cache(), 0, 0, 30, needs).status().code();
    };
    EXPECT_EQ(code(window), ErrorCode::kMissingEvidence);  // nothing seen yet
    state.remember(0, lanes.queries(), 30, 0);
    EXPECT_EQ(code(window), ErrorCode::kOk);
    EvidenceNeeds wider = window;
    wider.window = 5;
    EvidenceNeeds running;
    running.running_sum = true;
    EvidenceNeeds profile;
    profile.profile.n_queries = 3;
    EvidenceNeeds expected;
    expected.expected_future = 8;
    EvidenceNeeds output;
    output.output_l2 = true;
    for (const EvidenceNeeds & needs : {wider, running, profile, expected, output}) {
        EXPECT_FALSE(state.covers(needs));
        EXPECT_EQ(code(needs), ErrorCode::kMissingEvidence);
    }
    EXPECT_TRUE(state.covers(window));
}

// A long prompt: what is kept is the sample and the margin, however long the prompt was.
TEST(EvidenceState, KeepsNoMoreThanTheSampleTheMarginAndTheWindow) {
    const CacheShape shape{1, 1, 2, 4};
    EvidenceNeeds needs;
    needs.window = 8;
    needs.window_mean = true;
    needs.profile = {.n_queries = 10, .margin = 16};
    EvidenceState state(shape, needs);
    const std::vector<float> queries(static_cast<size_t>(100 * 8), 1.0F);
    for (int i = 0; i < 5; ++i) { state.remember(0, queries.data(), 100, 100 * i); }
    const size_t bytes = state.size_bytes();
    for (int i = 5; i < 50; ++i) { state.remember(0, queries.data(), 100, 100 * i); }
    EXPECT_EQ(state.size_bytes(), bytes);
    EXPECT_LE(bytes, 2 * (10 + 16) * 8 * sizeof(float) + 2 * 26 * 32);
}

}  // namespace
}  // namespace pith::evidence_attention_test
