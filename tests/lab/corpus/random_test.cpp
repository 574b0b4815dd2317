#include "tasks/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace pith::corpus::random_test {
namespace {

TEST(CorpusRandom, GivesTheSameNumbersOnEveryPlatform) {
    // Fixed once: a change here would silently change the training text of the reference model.
    Random random(SeedSpace::kTraining, 1, 2);
    EXPECT_EQ(random.next(), 3341415523484840639ULL);
    EXPECT_EQ(random.next(), 13605571176331344371ULL);
    EXPECT_EQ(random.below(1000), 655);
}

TEST(CorpusRandom, SeedSpacesNeverShareAStream) {
    std::set<uint64_t> states;
    size_t n = 0;
    for (const auto space : {SeedSpace::kTraining, SeedSpace::kValidation, SeedSpace::kTask, SeedSpace::kVocabulary}) {
        for (const uint64_t seed : {0ULL, 1ULL, 2ULL, 0x3FFFFFULL}) {
            for (const uint64_t index : {0ULL, 1ULL, 4096ULL, 0xFFFFFFFFFFULL}) {
                states.insert(pack_seed(space, seed, index));
                ++n;
            }
        }
    }
    EXPECT_EQ(states.size(), n);
    // Bits that do not fit are dropped before they could reach the space.
    EXPECT_EQ(pack_seed(SeedSpace::kTraining, ~0ULL, ~0ULL) >> 62, 0U);
    EXPECT_EQ(pack_seed(SeedSpace::kTask, ~0ULL, ~0ULL) >> 62, 2U);
}

TEST(CorpusRandom, DrawsDifferentNumbers) {
    Random random(SeedSpace::kTask, 0, 0);
    for (int n = 0; n <= 20; ++n) {
        auto drawn = random.draw(n, 20);
        std::sort(drawn.begin(), drawn.end());
        EXPECT_EQ(std::unique(drawn.begin(), drawn.end()), drawn.end());
        ASSERT_EQ(drawn.size(), static_cast<size_t>(n));
        if (n > 0) {
            EXPECT_GE(drawn.front(), 0);
            EXPECT_LT(drawn.back(), 20);
        }
    }
}

TEST(CorpusRandom, StaysInsideItsBoundsAndReachesThem) {
    Random random(SeedSpace::kTask, 3, 0);
    std::set<int> seen;
    for (int i = 0; i < 400; ++i) { seen.insert(random.between(-2, 3)); }
    EXPECT_EQ(seen, (std::set<int>{-2, -1, 0, 1, 2, 3}));
}

}  // namespace
}  // namespace pith::corpus::random_test
