// made_rows_test.cpp - rows are rounded as ggml rounds them.
#include "cache/made_rows.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

namespace pith::made_rows_test {
namespace {

TEST(MadeRows, AreRoundedToTheBitsThatGgmlRoundsTo) {
    constexpr int64_t kLength = 64;
    constexpr int64_t kRows = 4000;
    std::mt19937 random(9);
    std::normal_distribution<float> normal;
    std::vector<float> rows;
    for (int64_t i = 0; i < kLength * kRows; ++i) {  // of ordinary size, and of any
        const auto any = std::bit_cast<float>(static_cast<uint32_t>(random()));
        rows.push_back(i < kLength * kRows / 2 || !std::isfinite(any) || std::abs(any) > 1e30F ? normal(random) : any);
    }
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0}) {
        std::vector<uint8_t> ours(ggml_row_size(type, kLength * kRows));
        std::vector<uint8_t> theirs(ours.size());
        round_rows(type, rows, kLength, ours.data());
        ggml_quantize_chunk(type, rows.data(), theirs.data(), 0, kRows, kLength, nullptr);
        EXPECT_EQ(ours, theirs) << ggml_type_name(type);
    }
}

}  // namespace
}  // namespace pith::made_rows_test
