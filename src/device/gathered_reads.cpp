// gathered_reads.cpp - joined there, copied once, taken apart here.
#include "device/gathered_reads.h"

#include <algorithm>

namespace pith {
namespace {

constexpr int64_t kFewTokens = 32;

}  // namespace

void read_together(GraphBuild & build, std::initializer_list<ggml_tensor **> tensors) {
    ggml_context * ctx = build.ctx();
    const auto is_there = [](ggml_tensor ** one) { return *one != nullptr; };
    const bool few =
        std::ranges::all_of(tensors, [&](ggml_tensor ** one) { return !is_there(one) || (*one)->ne[2] <= kFewTokens; });
    if (std::ranges::count_if(tensors, is_there) < 2) { return; }
    ggml_tensor * all = nullptr;
    for (ggml_tensor ** one : tensors) {
        if (!is_there(one)) { continue; }
        if (!few) {
            ggml_build_forward_expand(build.graph(), *one);
            continue;
        }
        ggml_tensor * flat = ggml_is_contiguous(*one) ? *one : ggml_cont(ctx, *one);
        flat = ggml_reshape_1d(ctx, flat, ggml_nelements(flat));
        all = all == nullptr ? flat : ggml_concat(ctx, all, flat, 0);
    }
    if (all == nullptr) { return; }
    // The scheduler copies for an operation here: of views there it would copy each.
    ggml_tensor * here = ggml_cast(ctx, all, GGML_TYPE_F32);
    size_t at = 0;
    for (ggml_tensor ** one : tensors) {
        if (!is_there(one)) { continue; }
        const int64_t * ne = (*one)->ne;
        const auto row = static_cast<size_t>(ne[0]) * sizeof(float);
        const size_t n_bytes = static_cast<size_t>(ggml_nelements(*one)) * sizeof(float);
        *one = ggml_view_3d(ctx, here, ne[0], ne[1], ne[2], row, row * static_cast<size_t>(ne[1]), at);
        at += n_bytes;
    }
}

}  // namespace pith
