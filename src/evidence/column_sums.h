// column_sums.h - sums over the queries of a block of probabilities, by ggml's operations. Stage: attention → evidence.
#pragma once

#include "ggml.h"

namespace pith {

// [n_entries, n, …] → [n, n_entries, …].
inline ggml_tensor * queries_first(ggml_context * ctx, ggml_tensor * p) {
    return ggml_cont(ctx, ggml_permute(ctx, p, 1, 0, 2, 3));
}

// [n_entries, n, …] → [1, n_entries, …].
inline ggml_tensor * sum_over_queries(ggml_context * ctx, ggml_tensor * p) {
    return ggml_sum_rows(ctx, queries_first(ctx, p));
}

}  // namespace pith
