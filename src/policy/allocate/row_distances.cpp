// row_distances.cpp - all pairs of sampled rows, four by four.
#include "policy/allocate/row_distances.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/simd.h"

namespace pith {
namespace {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

constexpr size_t kTile = SampledRows::kTile;
constexpr size_t kGrid = SampledRows::kGrid;
constexpr size_t kColumns = 512;    // at a time: sums of so many are f32, all others f64
constexpr size_t kTilesBlock = 32;  // of either head: their columns stay in the second cache
static_assert(kColumns % kGrid == 0 && kGrid % kFloatLanes == 0);

struct SquaredDifference {
    template <class V>
    static PITH_ALWAYS_INLINE void add(const V & x, const V & y, V & sum) {
        const V difference = x - y;
        sum += difference * difference;
    }
};

struct SumTimesLog {
    template <class V>
    static PITH_ALWAYS_INLINE void add(const V & x, const V & y, V & sum) {
        const V both = x + y;
        V log;
        log2_of(both, log);
        sum += both * log;
    }
};

template <class V>
PITH_ALWAYS_INLINE double sum_in_double(const V & x) {
    double sum = 0;
    for (size_t l = 0; l < sizeof(V) / sizeof(float); ++l) { sum += double{x[l]}; }
    return sum;
}

// Columns [0, n) of four rows and of four others.
struct TilePair {
    const float * a;
    size_t a_stride;
    const float * b;
    size_t b_stride;
    size_t n;
};

// sums [kTile] rows, `stride` apart, of [kTile] += the term of every pair, added up over the columns.
template <class Term, class V>
PITH_ALWAYS_INLINE void add_pairs(const TilePair & tiles, double * sums, size_t stride) {
    constexpr size_t kRows = 2;  // eight sums in registers
    for (size_t first = 0; first < kTile; first += kRows) {
        const float * a = tiles.a + first * tiles.a_stride;
        V parts[kRows][kTile] = {};
        for (size_t i = 0; i < tiles.n; i += sizeof(V) / sizeof(float)) {
            V x[kRows];
            for (size_t s = 0; s < kRows; ++s) { load(x[s], a + s * tiles.a_stride + i); }
            for (size_t t = 0; t < kTile; ++t) {
                V y;
                load(y, tiles.b + t * tiles.b_stride + i);
                for (size_t s = 0; s < kRows; ++s) { Term::add(x[s], y, parts[s][t]); }
            }
        }
        for (size_t s = 0; s < kRows; ++s) {
            for (size_t t = 0; t < kTile; ++t) { sums[(first + s) * stride + t] += sum_in_double(parts[s][t]); }
        }
    }
}

// Eight sums fit the registers where these are as wide as the vectors.
PITH_CLONES void add_squared_differences(const TilePair & tiles, double * sums, size_t stride) {
    add_pairs<SquaredDifference, EightFloats>(tiles, sums, stride);
}
PITH_CLONES void add_squared_differences_wide(const TilePair & tiles, double * sums, size_t stride) {
    add_pairs<SquaredDifference, FloatVec>(tiles, sums, stride);
}
PITH_CLONES void add_sums_times_logs(const TilePair & tiles, double * sums, size_t stride) {
    add_pairs<SumTimesLog, EightFloats>(tiles, sums, stride);
}
PITH_CLONES void add_sums_times_logs_wide(const TilePair & tiles, double * sums, size_t stride) {
    add_pairs<SumTimesLog, FloatVec>(tiles, sums, stride);
}
auto adding(bool euclidean) {
    if (has_wide_registers()) { return euclidean ? add_squared_differences_wide : add_sums_times_logs_wide; }
    return euclidean ? add_squared_differences : add_sums_times_logs;
}

// Of kGrid columns of a row: Σ x² and nothing, or Σ x log₂ x and Σ x.
PITH_CLONES void measure_squares(const float * row, double * squares) {
    FloatVec sum = {};
    for (size_t i = 0; i < kGrid; i += kFloatLanes) {
        FloatVec x;
        load(x, row + i);
        sum += x * x;
    }
    *squares = sum_in_double(sum);
}
PITH_CLONES void measure_entropy(const float * row, double * logs, double * mass) {
    FloatVec sum_logs = {};
    FloatVec sum = {};
    for (size_t i = 0; i < kGrid; i += kFloatLanes) {
        FloatVec x;
        FloatVec log;
        load(x, row + i);
        log2_of(x, log);
        sum_logs += x * log;
        sum += x;
    }
    *logs = sum_in_double(sum_logs);
    *mass = sum_in_double(sum);
}

#pragma GCC diagnostic pop

// alone [n_blocks + 1] of a row of n_blocks · kGrid columns.
void measure_alone(const float * row, size_t n_blocks, HeadDistance distance, double * alone) {
    // Squares or masses behind a border first, from the end; then, for logarithms, what lies before it.
    alone[n_blocks] = 0;
    std::vector<double> before(n_blocks, 0.0);
    for (size_t block = n_blocks; block-- > 0;) {
        double behind = 0;
        if (distance == HeadDistance::kEuclidean) {
            measure_squares(row + block * kGrid, &behind);
        } else {
            measure_entropy(row + block * kGrid, &before[block], &behind);
            before[block] += behind;
        }
        alone[block] = alone[block + 1] + behind;
    }
    double sum = 0;
    for (size_t block = 0; block < n_blocks; ++block) {
        sum += before[block];
        alone[block + 1] += sum;
    }
}

// The mean over all pairs of rows of head g of `a` and head o of `b`.
double mean_of_pair(const SampledRows & a, size_t g, const SampledRows & b, size_t o, HeadDistance distance) {
    const bool euclidean = distance == HeadDistance::kEuclidean;
    const auto add = adding(euclidean);
    constexpr size_t kStride = kTilesBlock * kTile;
    std::vector<double> sums(kStride * kStride);
    double total = 0;
    for (size_t first_a = 0; first_a < a.n_tiles(); first_a += kTilesBlock) {
        const size_t end_a = std::min(first_a + kTilesBlock, a.n_tiles());
        for (size_t first_b = 0; first_b < b.n_tiles(); first_b += kTilesBlock) {
            const size_t end_b = std::min(first_b + kTilesBlock, b.n_tiles());
            std::fill(sums.begin(), sums.end(), 0.0);
            bool more = true;
            for (size_t column = 0; more; column += kColumns) {
                more = false;
                for (size_t s = first_a; s < end_a; ++s) {
                    for (size_t t = first_b; t < end_b; ++t) {
                        const size_t end = std::min(a.length(g, s), b.length(o, t));
                        if (end <= column) { continue; }
                        more = more || end > column + kColumns;
                        add({a.tile(g, s) + column, a.length(g, s), b.tile(o, t) + column, b.length(o, t),
                             std::min(kColumns, end - column)},
                            sums.data() + (s - first_a) * kTile * kStride + (t - first_b) * kTile, kStride);
                    }
                }
            }
            for (size_t s = first_a * kTile; s < std::min(end_a * kTile, a.n_sampled()); ++s) {
                for (size_t t = first_b * kTile; t < std::min(end_b * kTile, b.n_sampled()); ++t) {
                    const size_t end = std::min(a.length(g, s / kTile), b.length(o, t / kTile));
                    const double common = sums[(s - first_a * kTile) * kStride + t - first_b * kTile];
                    const double rest = a.alone(g, s, end) + b.alone(o, t, end);
                    const bool itself = &a == &b && g == o && s == t;  // 0, or not a number
                    const double square = itself ? 0 * common : euclidean ? rest + common : (rest - common) / 2;
                    total += std::sqrt(square < 0 ? 0 : square);  // a NaN passes, and is reported
                }
            }
        }
    }
    return total / static_cast<double>(a.n_sampled() * b.n_sampled());
}

}  // namespace

SampledRows::SampledRows(const LayerEvidence & evidence, HeadDistance distance)
    : n_heads_(static_cast<size_t>(evidence.n_kv_heads * evidence.n_group)),
      n_sampled_(static_cast<size_t>(evidence.n_sampled)) {
    const auto lane_of = [&](size_t head) { return static_cast<int>(head) / evidence.n_group; };
    const auto row_of = [&](size_t head, size_t query) {
        return evidence.sampled_rows.row(static_cast<int>(head * n_sampled_ + query));
    };
    // One past the last position at which a row is not 0.
    const auto end_of = [&](size_t head, size_t query) {
        const auto row = row_of(head, query);
        size_t n = row.size();
        while (n > 0 && row[n - 1] == 0) { --n; }
        return n == 0 ? size_t{0} : static_cast<size_t>(evidence.positions.row(lane_of(head))[n - 1]) + 1;
    };
    size_t n_values = 0;
    size_t n_alone = 0;
    for (size_t head = 0; head < n_heads_; ++head) {
        for (size_t tile = 0; tile < n_tiles(); ++tile) {
            size_t end = 0;
            for (size_t s = tile * kTile; s < std::min((tile + 1) * kTile, n_sampled_); ++s) {
                end = std::max(end, end_of(head, s));
            }
            lengths_.push_back((end + kGrid - 1) / kGrid * kGrid);
            offsets_.push_back(n_values);
            grid_offsets_.push_back(n_alone);
            n_values += kTile * lengths_.back();
            n_alone += kTile * (lengths_.back() / kGrid + 1);
        }
    }
    values_.assign(n_values, 0.0F);
    alone_.resize(n_alone);
    for (size_t i = 0; i < lengths_.size(); ++i) {
        const size_t head = i / n_tiles();
        const auto positions = evidence.positions.row(lane_of(head));
        const size_t n_blocks = lengths_[i] / kGrid;
        for (size_t s = 0; s < kTile; ++s) {
            float * out = values_.data() + offsets_[i] + s * lengths_[i];
            const size_t query = i % n_tiles() * kTile + s;
            if (query < n_sampled_) {
                const auto row = row_of(head, query);
                for (size_t j = 0; j < row.size() && static_cast<size_t>(positions[j]) < lengths_[i]; ++j) {
                    out[positions[j]] = row[j];
                }
            }
            measure_alone(out, n_blocks, distance, alone_.data() + grid_offsets_[i] + s * (n_blocks + 1));
        }
    }
}

Status mean_row_distances(const SampledRows & a, const SampledRows & b, HeadDistance distance, const RunTasks & run,
                          std::vector<double> & means) {
    means.assign(a.n_heads() * b.n_heads(), 1.0);
    if (a.n_sampled() == 0 || b.n_sampled() == 0) { return {}; }
    const bool same = &a == &b;
    std::vector<std::pair<size_t, size_t>> pairs;
    for (size_t g = 0; g < a.n_heads(); ++g) {
        for (size_t o = same ? g : 0; o < b.n_heads(); ++o) { pairs.emplace_back(g, o); }
    }
    PITH_RETURN_IF_ERROR(run(static_cast<int>(pairs.size()), [&](int i) {
        const auto [g, o] = pairs[static_cast<size_t>(i)];
        const double mean = mean_of_pair(a, g, b, o, distance);
        means[g * b.n_heads() + o] = mean;
        if (same) { means[o * b.n_heads() + g] = mean; }
    }));
    return {};
}

}  // namespace pith
