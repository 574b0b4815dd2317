// bench_setup.h - what the attention benchmarks share: their options, a cache of random lanes, and how times and results are
// compared.
//
// 8 lanes of 4 query heads, as in a model of 1 B parameters.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cache/ragged_cache.h"
#include "ggml.h"

namespace pith {

inline constexpr int kLanes = 8;
inline constexpr int kGroup = 4;

struct BenchOptions {
    ggml_type type = GGML_TYPE_F16;
    int head_dim = 64;
    int length = 8192;
    int n_queries = 512;
    int n_threads = 2;
    int repeats = 7;
};

// Reads one option. Returns what is wrong with it; nothing: it was read.
inline std::string read_option(const std::string & name, const std::string & value, BenchOptions & o) {
    if (name == "--type") {
        const ggml_type types[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0};
        const auto * type = std::ranges::find_if(types, [&](ggml_type one) { return value == ggml_type_name(one); });
        if (type == std::end(types)) { return "no type '" + value + "'"; }
        o.type = *type;
        return {};
    }
    const int number = std::atoi(value.c_str());
    int * to = name == "--dim"       ? &o.head_dim
               : name == "--length"  ? &o.length
               : name == "--queries" ? &o.n_queries
               : name == "--threads" ? &o.n_threads
               : name == "--repeats" ? &o.repeats
                                     : nullptr;
    if (to == nullptr || number <= 0) { return "unknown, or out of range: " + name + " " + value; }
    *to = number;
    return {};
}

inline CacheLayout bench_layout(const BenchOptions & o, int n_layers) {
    CacheLayout layout;
    layout.shape = {n_layers, kLanes, kGroup, o.head_dim};
    layout.head_dim_v = o.head_dim;
    layout.attention_scale = usual_attention_scale(o.head_dim);
    layout.type_k = layout.type_v = o.type;
    return layout;
}

inline std::vector<float> normal_floats(size_t n, std::mt19937 & random) {
    std::normal_distribution<float> normal;
    std::vector<float> values(n);
    for (float & value : values) { value = normal(random); }
    return values;
}

// Lanes of `length` entries: one of normal numbers, copied to all others.
inline void fill_lanes(RaggedCache & cache, const BenchOptions & o, std::mt19937 & random) {
    std::vector<int32_t> positions(static_cast<size_t>(o.length));
    std::iota(positions.begin(), positions.end(), 0);
    for (int l = 0; l < cache.layout().shape.n_layers; ++l) {
        cache.append(0, l, positions);
        for (ggml_tensor * flat : {cache.k(l), cache.v(l)}) {
            const ggml_tensor * first = flat == cache.k(l) ? cache.k(0) : cache.v(0);
            const size_t lane_bytes = flat->nb[1] * static_cast<size_t>(o.length);
            for (int h = 0; h < kLanes; ++h) {
                auto * lane = static_cast<uint8_t *>(flat->data) + flat->nb[1] * static_cast<size_t>(cache.cell(0, l, h, 0));
                if (l > 0 || h > 0) {
                    std::memcpy(lane, first->data, lane_bytes);
                    continue;
                }
                const std::vector<float> rows =
                    normal_floats(static_cast<size_t>(o.length) * static_cast<size_t>(o.head_dim), random);
                if (o.type == GGML_TYPE_F32) {
                    std::memcpy(lane, rows.data(), lane_bytes);
                } else {
                    ggml_quantize_chunk(o.type, rows.data(), lane, 0, o.length, o.head_dim, nullptr);
                }
            }
        }
    }
}

inline double seconds(const std::function<void()> & run) {
    const auto start = std::chrono::steady_clock::now();
    run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
}

// The largest difference, as a share of the largest number expected; 1 where there are not as many.
inline double largest_difference(std::span<const float> got, std::span<const float> expected) {
    if (got.size() != expected.size()) { return 1; }
    double worst = 0;
    double largest = 1e-30;
    for (size_t i = 0; i < got.size(); ++i) {
        worst = std::max(worst, static_cast<double>(std::abs(got[i] - expected[i])));
        largest = std::max(largest, static_cast<double>(std::abs(expected[i])));
    }
    return worst / largest;
}

}  // namespace pith
