// random_weights.cpp - see random_weights.h.
#include "model/random/random_weights.h"

#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <vector>

#include "core/on_threads.h"
#include "device/cpu_count.h"

namespace pith {
namespace {

constexpr int64_t kBlock = 1 << 19;        // normals in each of the two blocks: 2 MiB, so that both stay in cache
constexpr int64_t kRun = 1 << 16;          // longest run read from one offset
constexpr int64_t kBandWeights = 1 << 21;  // weights a thread makes before it hands them over: 8 MiB
constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ULL;

uint64_t mix(uint64_t x) {  // SplitMix64's finaliser
    x += kGolden;
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31U);
}

uint64_t hash_name(std::string_view name) {  // FNV-1a
    uint64_t hash = 0xCBF29CE484222325ULL;
    for (const char c : name) { hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL; }
    return hash;
}

double uniform(uint64_t bits) {
    return (static_cast<double>(bits >> 11U) + 0.5) * 0x1.0p-53;
}

}  // namespace

RandomWeights::RandomWeights(uint64_t seed) : seed_(seed), block_(2 * kBlock) {
    for (size_t i = 0; i < block_.size(); i += 2) {  // Box-Muller
        const double radius = std::sqrt(-2.0 * std::log(uniform(mix(seed ^ mix(i)))));
        const double angle = 2.0 * std::numbers::pi * uniform(mix(seed ^ mix(i + 1)));
        block_[i] = static_cast<float>(radius * std::cos(angle));
        block_[i + 1] = static_cast<float>(radius * std::sin(angle));
    }
}

void RandomWeights::fill(const RandomTensor & tensor, int64_t first_row, int64_t n_rows, float * out) const {
    const uint64_t key = mix(seed_ ^ hash_name(tensor.name));
    const float scale = tensor.std_dev / std::numbers::sqrt2_v<float>;
    const float mean = tensor.mean;
    for (int64_t row = first_row; row < first_row + n_rows; ++row) {
        for (int64_t begin = 0; begin < tensor.n_per_row; begin += kRun) {
            const int64_t n = std::min(kRun, tensor.n_per_row - begin);
            const uint64_t bits = mix(key + static_cast<uint64_t>(row) * kGolden + mix(static_cast<uint64_t>(begin)));
            const auto n_starts = static_cast<uint64_t>(kBlock - n + 1);
            const float * a = block_.data() + (bits & 0xFFFFFFFFU) % n_starts;
            const float * b = block_.data() + kBlock + (bits >> 32U) % n_starts;
            for (int64_t i = 0; i < n; ++i) { out[i] = mean + scale * (a[i] + b[i]); }
            out += n;
        }
    }
}

Status RandomWeights::write(const RandomTensor & tensor, const Sink & sink) const {
    const auto type = static_cast<ggml_type>(tensor.ggml_type);
    const size_t row_bytes = ggml_row_size(type, tensor.n_per_row);
    const int64_t rows_per_band = std::max<int64_t>(1, std::min(tensor.n_rows, kBandWeights / tensor.n_per_row));
    const int n_threads = available_cpus();
    const std::vector<float> importance(ggml_quantize_requires_imatrix(type) ? tensor.n_per_row : 0, 1.0F);
    ggml_quantize_init(type);

    struct Band {
        std::vector<float> values;
        std::vector<char> bytes;
        int64_t first_row = 0;
        int64_t n_rows = 0;
    };
    std::vector<Band> bands(static_cast<size_t>(n_threads));
    const auto make_band = [&](Band & band) {
        band.values.resize(static_cast<size_t>(band.n_rows * tensor.n_per_row));
        band.bytes.resize(static_cast<size_t>(band.n_rows) * row_bytes);
        fill(tensor, band.first_row, band.n_rows, band.values.data());
        ggml_quantize_chunk(type, band.values.data(), band.bytes.data(), 0, band.n_rows, tensor.n_per_row,
                            importance.empty() ? nullptr : importance.data());
    };
    for (int64_t row = 0; row < tensor.n_rows;) {
        int n_bands = 0;
        while (n_bands < n_threads && row < tensor.n_rows) {
            Band & band = bands[static_cast<size_t>(n_bands++)];
            band.first_row = row;
            band.n_rows = std::min(rows_per_band, tensor.n_rows - row);
            row += band.n_rows;
        }
        PITH_RETURN_IF_ERROR(on_threads(n_bands, [&](int i) -> Status {
            make_band(bands[static_cast<size_t>(i)]);
            return {};
        }));
        for (const Band & band : std::span(bands).first(static_cast<size_t>(n_bands))) {
            PITH_RETURN_IF_ERROR(sink(band.bytes.data(), static_cast<size_t>(band.n_rows) * row_bytes));
        }
    }
    return {};
}

}  // namespace pith
