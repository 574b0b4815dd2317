// cache_corpus_test.cpp - what the fuzzer of cache files begins with, and changes where numbers are.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cache/cache_file.h"
#include "engine/rest/read_cache.h"

namespace pith::cache_corpus_test {
namespace {

using testing::cache_seeds;
using testing::read_cache;

TEST(CacheCorpus, SeedsAreFilesThatOpen) {
    for (const auto & seed : cache_seeds()) {
        ASSERT_GT(seed.size(), 1000U);
        EXPECT_LT(seed.size(), 65536U);
        EXPECT_TRUE(CacheFileView::parse(testing::cache_file_of(seed), "a.pith").ok());
        EXPECT_EQ(read_cache(seed), "");
    }
}

// The first bytes of every section, where lengths and kinds are, at their extremes.
TEST(CacheCorpus, ChangedNumbersAreRefusedOrWork) {
    for (const auto & seed : cache_seeds()) {
        for (size_t at = 1; at + 2 <= seed.size();) {
            const size_t n = seed[at] + size_t{256} * seed[at + 1];
            for (size_t i = 0; i < std::min<size_t>(n, 8); ++i) {
                std::vector<uint8_t> changed = seed;
                changed[at + 2 + i] = i % 2 == 0 ? 0xFF : 0x7F;
                ASSERT_EQ(read_cache(changed), "") << at << " + " << i;
            }
            at += 2 + n;
        }
    }
}

}  // namespace
}  // namespace pith::cache_corpus_test
