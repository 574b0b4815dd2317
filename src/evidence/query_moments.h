// query_moments.h - mean and covariance of the queries before RoPE, and the attention a Gaussian of such queries is expected
// to pay at the next positions. Stage: attention → evidence.
//
// Every query counts but those at the first four positions (sinks; public code leaves them out too), unless there are no
// others. Chunks are merged by their means and centred second moments (Chan, Golub and LeVeque 1979), so that a large mean does
// not swallow the covariance. The covariance is the biased one: divided by n.
//
// With R̄ the mean over the next `future` positions of the model's rotation (YaRN's magnitude included, as the keys have it):
// μ̄ = R̄·μ, Σ̄ = R̄·Σ·R̄ᵀ, exponent of entry j = s·k_j·μ̄ + s²·k_j·Σ̄·k_j/2,
// s the scale of attention: 1/sqrt(d) in the paper. A model's temperature of positions counts as part of the rotation; where
// queries are normed behind it, q is what is left of them before the norm's weight w, and w ⊙ k takes the place of k.
// Paper:   Expected Attention: KV Cache Compression by Estimating Attention from Future Queries Distribution.
// Cost:    O(H·d²) per query; per entry of a gather O(group·d²).   Threads: one at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/ragged_cache.h"
#include "core/ragged.h"
#include "device/graph_runner.h"
#include "model/model_file.h"

namespace pith {

inline constexpr int kSinkQueries = 4;
inline bool is_sink(int32_t position) {
    return position < kSinkQueries;
}

// Of one run of queries, as a graph gives them.
struct QueryMoments {
    int64_t n = 0;
    bool only_sinks = false;     // nothing but the first positions so far
    std::vector<float> mean;     // [H][d]
    std::vector<float> squares;  // [H][d][d] Σ (q - mean)(q - mean)ᵀ; empty for a single query, where all are 0
    size_t size_bytes() const { return (mean.capacity() + squares.capacity()) * sizeof(float); }
};

// Of all queries so far, as a sequence keeps them: of the symmetric matrices half, since these are most of what is kept beside
// the entries (22 MB whole for 28 layers of 12 heads of 128).
struct KeptMoments {
    int64_t n = 0;
    bool only_sinks = false;
    std::vector<float> mean;     // [H][d]
    std::vector<float> squares;  // [H][d · (d + 1) / 2]: of row r its first r + 1 columns
    static constexpr size_t n_squares(size_t d) { return d * (d + 1) / 2; }
    size_t size_bytes() const { return (mean.capacity() + squares.capacity()) * sizeof(float); }
};

// Adds the moments of one run of queries to a graph: q f32 [d, H, n] before RoPE, at positions first_position, …; read into
// `out` when the graph runs, `out` must stay where it is until then.
void build_query_moments(GraphBuild & build, ggml_tensor * q, int32_t first_position, QueryMoments & out);

// Cost: O(H·d²); allocates only where `to` was empty.
void merge(const QueryMoments & from, int head_dim, KeptMoments & to);

// Row r of R̄: its elements that are not 0.
struct MeanRotation {
    struct Element {
        int column;
        double value;
    };
    int64_t first = -1;  // position of the first query to come
    int future = 0;
    std::vector<std::vector<Element>> rows;
};
// That of layer `layer`, and of all that rotate as it does.
Status make_mean_rotation(GraphRunner & runner, const ModelFile & model, int layer, int64_t first, int future,
                          MeanRotation & out);

// The exponent of every entry of (seq, layer): [H].   query_weight [d]: what queries are multiplied by once they are rotated;
// empty: nothing.
Status expected_exponents(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, const KeptMoments & moments,
                          const MeanRotation & rotation, std::span<const float> query_weight, Ragged<float> & out);

}  // namespace pith
