// chunks_test.cpp - stretches of text that are kept whole or not at all.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "policy/formulas.h"
#include "policy/policy.h"
#include "policy/select/selector.h"

namespace pith::test::chunks_test {
namespace {

// Entry by entry: of the best chunk that has any left the best that is left.
std::vector<int32_t> chunks_of(const PartVariant & selector, const ReferenceCase & c, size_t lane, int share) {
    const auto layer = lane / static_cast<size_t>(c.shape.n_kv_heads);
    const auto positions = c.layers[layer].positions.row(static_cast<int>(lane) % c.shape.n_kv_heads);
    const auto length = static_cast<int32_t>(selector.number("length"));
    std::map<int32_t, std::pair<double, int>> sums;  // of each chunk's candidates
    std::set<int32_t> left;
    std::set<int32_t> kept;
    for (int32_t j = 0; j < static_cast<int32_t>(positions.size()); ++j) {
        const auto i = static_cast<size_t>(j);
        if (c.is_protected[lane][i]) {
            kept.insert(j);
            continue;
        }
        left.insert(j);
        sums[positions[i] / length].first += double{c.scores[lane][i]};
        sums[positions[i] / length].second += 1;
    }
    const auto mean = [&](int32_t j) {
        const auto & [sum, n] = sums[positions[static_cast<size_t>(j)] / length];
        return sum / n;
    };
    const auto is_better = [&](int32_t a, int32_t b) {
        const int32_t chunk_a = positions[static_cast<size_t>(a)] / length;
        const int32_t chunk_b = positions[static_cast<size_t>(b)] / length;
        if (chunk_a != chunk_b) { return mean(a) != mean(b) ? mean(a) > mean(b) : chunk_a > chunk_b; }
        const float x = c.scores[lane][static_cast<size_t>(a)];
        const float y = c.scores[lane][static_cast<size_t>(b)];
        return x != y ? x > y : a > b;
    };
    for (int i = 0; i < share; ++i) {
        int32_t best = *left.begin();
        for (const int32_t j : left) { best = is_better(j, best) ? j : best; }
        left.erase(best);
        kept.insert(best);
    }
    return {kept.begin(), kept.end()};
}

KeptLanes chunks(const PartVariant & selector, const ReferenceCase & c, const std::vector<int> & shares) {
    KeptLanes kept;
    for (size_t lane = 0; lane < shares.size(); ++lane) { kept.push_back(chunks_of(selector, c, lane, shares[lane])); }
    return kept;
}
const Known<SelectorFormula> kChunks({"chunks", chunks});

using Indices = std::vector<int32_t>;

Indices kept(const char * policy, const Indices & at, const std::vector<float> & of, std::vector<IndexRange> is_protected,
             int share) {
    Ragged<int32_t> positions;
    positions.push_row(at);
    Ragged<float> scores;
    scores.push_row(of);
    Ragged<IndexRange> ranges;
    ranges.push_row(is_protected);
    const LayerView view{.positions = positions, .scores = scores, .protected_ranges = ranges};
    LayerChoice choice;
    const Status status = Policy::parse(policy).value().selector().select(view, std::vector<int>{share}, run_in_turn, choice);
    EXPECT_TRUE(status.ok()) << status.message();
    return {choice.keep.row(0).begin(), choice.keep.row(0).end()};
}

TEST(Chunks, KeepsTheBetterStretchWholeThoughASingleEntryOfTheOtherIsTheBest) {
    const Indices at{0, 1, 2, 3, 4, 5};
    const std::vector<float> scores{9, 0, 0, 4, 1, 5};
    EXPECT_EQ(kept("snapkv+topk", at, scores, {}, 3), (Indices{0, 3, 5}));
    EXPECT_EQ(kept("snapkv+chunks:length=3", at, scores, {}, 3), (Indices{3, 4, 5})) << "10 thirds beside 9";
    EXPECT_EQ(kept("snapkv+chunks:length=3", at, scores, {}, 4), (Indices{0, 3, 4, 5})) << "of the next the best";
    EXPECT_EQ(kept("snapkv+chunks:length=3", at, scores, {}, 2), (Indices{3, 5})) << "a part, where no chunk fits";
}

TEST(Chunks, LieOnAGridOfPositionsAndGoAroundWhatIsProtected) {
    EXPECT_EQ(kept("snapkv+chunks:length=10", {3, 9, 10, 11, 25}, {2, 2, 1, 8, 4}, {}, 2), (Indices{2, 3})) << "4.5, 4, 2";
    EXPECT_EQ(kept("snapkv+chunks:length=10", {3, 9, 10, 11, 25}, {2, 2, 1, 8, 4}, {{3, 4}}, 1), (Indices{3, 4}))
        << "the 8 counts for nobody";
    EXPECT_EQ(kept("snapkv+chunks:length=2", {0, 1, 2, 3}, {1, 1, 1, 1}, {}, 2), (Indices{2, 3})) << "of equals the newer";
}

TEST(Chunks, OfOneEntryEachAreTheHighestScores) {
    EXPECT_EQ(kept("snapkv+chunks:length=1", {0, 1, 2, 3}, {3, 1, 3, 2}, {}, 2), (Indices{0, 2}));
}

}  // namespace
}  // namespace pith::test::chunks_test
