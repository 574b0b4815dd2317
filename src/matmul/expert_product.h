// expert_product.h - the CPU's products of rows with those experts' weights that each token has chosen. Stage: matmul. Raw
// pointers only: no ggml.
//
//   out(t, u) = weights(chosen(t, u)) · x(t, u)      t < n_tokens, u < n_used; x(t, u) may be the same for all u
// Rows are rounded to 8 bits once per token and laid together by expert, so that an expert's weights meet all of its rows at
// once: a few as the columns lie, more by panels (matmul/quantised_product.h). A row has the same bits whichever rows stand
// beside it. Threads share what all experts cost together, a panel's columns at a time: one thread may have all of one expert.
// Cost: each chosen expert's weights are read once.   Threads: each a part.
#pragma once

#include <cstddef>
#include <cstdint>

#include "matmul/quantised_product.h"

namespace pith {

// Experts that a model may have at most; with more the product is ggml's.
inline constexpr size_t kMostExperts = 1024;

struct ChosenExperts {
    const int32_t * chosen = nullptr;  // [n_tokens][stride], the first n_used of each: below n_experts
    size_t stride = 0;
    size_t n_tokens = 0;
    size_t n_used = 0;
    size_t n_experts = 0;  // at most kMostExperts

    size_t n() const { return n_tokens * n_used; }
    size_t expert(size_t i) const { return static_cast<size_t>(chosen[i / n_used * stride + i % n_used]); }
};

// Rows laid together by expert, in memory that both steps below know by its beginning.
class ExpertRows {
public:
    ExpertRows(void * memory, const ChosenExperts & of);
    static size_t bytes(const ChosenExperts & of, size_t n_in);

    int32_t * first() const { return first_; }    // [n_experts + 1], an expert's first row; the last: how many there are
    int32_t * places() const { return places_; }  // [n], t · n_used + u of each row
    QuantisedBlock * blocks() const { return blocks_; }
    QuantisedGroups * groups() const { return reinterpret_cast<QuantisedGroups *>(blocks_); }
    size_t block_stride() const { return block_stride_; }  // a tile behind the last row may be read

private:
    int32_t * first_;
    int32_t * places_;
    QuantisedBlock * blocks_;
    size_t block_stride_;
};

struct ExpertRowsToQuantise {
    ChosenExperts of;
    const float * x = nullptr;  // x(t, u) at x + t · token_stride + u · used_stride
    size_t token_stride = 0;
    size_t used_stride = 0;
    bool one_for_all = false;  // x(t, u) is x(t, 0)
    size_t n_in = 0;           // a multiple of 256; for groups, of 32
    bool in_groups = false;
    void * rows = nullptr;  // ExpertRows::bytes()
};
void quantise_experts_part(const ExpertRowsToQuantise & rows, int ith, int n_threads);

struct ExpertProduct {
    ChosenExperts of;
    QuantType type = QuantType::kQ4_K;
    const uint8_t * weights = nullptr;  // [n_experts][n_out][weight_stride]
    size_t weight_stride = 0;           // bytes from row to row
    size_t expert_stride = 0;           // bytes from expert to expert
    void * rows = nullptr;              // as quantise_experts_part() leaves it
    float * out = nullptr;              // [n_tokens · n_used][out_stride], overwritten
    size_t out_stride = 0;
    size_t n_in = 0;
    size_t n_out = 0;
};
void multiply_experts_part(const ExpertProduct & product, int ith, int n_threads);

}  // namespace pith
