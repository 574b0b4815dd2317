// output_factors.h - the output projection as evidence needs it: its rows, and a small factor of them. Stage: model.
//
// |v·W_O^g|₂ = |v·C_g|₂ for any C_g with C_g·C_gᵀ = W_O^g·W_O^gᵀ: a dv × dv factor per query head stands for its dv × D slice.
// The Gram matrix is formed in f64 and factored by Cholesky with pivoting, which ends at the rank of the slice.
// Made layer by layer when first asked for, from the model file's bytes; kept as long as the object, which all sessions of a
// model share. What is there is read without a lock; who asks for what another is just making waits for that, and for nothing
// else. Where making fails (no memory), the next who asks tries again.   Threads: safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/tasks.h"
#include "model/model_file.h"
#include "pith/status.h"

namespace pith {

// The output projection of one layer, dequantised: [D][H·dv], as the file has it.
//   W_O^g[c][r] = rows[r][g·dv + c]
using OutputProjection = std::vector<float>;

// What evidence takes for the output projection: its rows, each times the weight of the norm behind it where the layer has one
// (Hparams' form.attn_post_norm). That norm also divides by what all entries of a token, seen together, come to: norms of one
// layer's entries are compared as they should be, those of two layers only as nearly as these divisors agree.
// Errors: of ModelFile::read_output_projection.
Result<OutputProjection> effective_projection(const ModelFile & model, int layer);

class OutputFactors {
public:
    explicit OutputFactors(std::shared_ptr<const ModelFile> file);

    const ModelFile & model() const { return *file_; }

    // [H][dv columns of C_g][dv]: row (g, c) is column c of C_g. Valid as long as the object.
    // Errors: of ModelFile::read_output_projection and of `run`, which does the heads side by side; std::bad_alloc is thrown.
    // Cost: the first time O(D·H·dv²), then a look-up.
    Result<std::span<const float>> factor(int layer, const RunTasks & run = run_in_turn);

    // The same with the G query heads of a KV head as one slice: [K][G·dv columns of C_h][G·dv], C_h·C_hᵀ the products of all
    // rows of their W_O. For what heads do to the output together.   Cost: the first time O(D·H·G·dv²).
    Result<std::span<const float>> group_factor(int layer, const RunTasks & run = run_in_turn);

    size_t size_bytes() const { return size_bytes_; }

private:
    struct Slot {  // of one layer
        std::mutex making;
        std::vector<float> factors;     // written by who holds `making`, while not made
        std::atomic<bool> made{false};  // from then on they stay as they are
    };
    Result<std::span<const float>> get(Slot & slot, int layer, size_t n_slices, size_t width, const RunTasks & run);

    std::shared_ptr<const ModelFile> file_;
    std::vector<Slot> factors_;  // [layer]
    std::vector<Slot> group_factors_;
    std::atomic<size_t> size_bytes_{0};
};

// The factors of `n_heads` slices of dv columns each; rows [n_rows][n_heads · dv]  →  [n_heads][dv][dv] as above. The same
// however `run` deals out the heads.
Result<std::vector<float>> factor_slices(std::span<const float> rows, size_t n_heads, size_t dv,
                                         const RunTasks & run = run_in_turn);

}  // namespace pith
