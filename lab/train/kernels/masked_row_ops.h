// masked_row_ops.h - softmax over the keys that flags leave, and what a flag would change. Stage: train.
// Pure C++: no ggml, no I/O. All f32.   Threads: reentrant.
#pragma once

#include <cstdint>

namespace pith::train {

// row[i], i < len: softmax of scale · row over the keys with mask[i] = 1; 0 where mask is 0, and from len to n.
// share (may be null): what changes with key i's flag. With p_i its weight once it is there (for an absent key:
// e_i / (sum of the present + e_i)),
//   out with i - out without i = share[i] · (v_i - out as it is now),   share = p_i if absent, p_i / (1 - p_i) if present.
// REQUIRES: at least one mask is 1.
void masked_softmax_row(float * row, const float * mask, float * share, int64_t len, int64_t n, float scale);

// d_flag[i] += share[i] · (grad[i] - sum over len of p · grad) for i < n_flags; grad: of the probabilities, v_i · d_out.
void flag_back_row(float * d_flag, const float * share, const float * grad, const float * p, int64_t n_flags, int64_t len);

}  // namespace pith::train
