// recurrent_rows.cpp - of each group one input and one output, filled and read sequence by sequence.
#include "engine/pass/recurrent_rows.h"

#include <algorithm>

namespace pith {
namespace {

using Parts = std::vector<RecurrentPart>;

// Floats [first, first + n) of every part's state, as [n, parts].
ggml_tensor * input_of(GraphBuild & build, const Parts & parts, size_t first, size_t n) {
    return build.input<float>(GGML_TYPE_F32, static_cast<int64_t>(n), std::ssize(parts),
                              [parts, first, n](std::span<float> to) {
                                  for (const RecurrentPart & part : parts) {
                                      std::copy_n(part.from + first, n, to.begin());
                                      to = to.subspan(n);
                                  }
                              });
}

void output_to(GraphBuild & build, const Parts & parts, size_t first, ggml_tensor * state) {
    const int64_t n = ggml_nelements(state) / std::ssize(parts);
    build.keep(state);
    for (size_t i = 0; i < parts.size(); ++i) {
        const size_t offset = i * static_cast<size_t>(n) * sizeof(float);
        build.output(ggml_view_1d(build.ctx(), state, n, offset), parts[i].to + first);
    }
}

}  // namespace

std::vector<RecurrentRows> recurrent_rows(GraphBuild & build, const RecurrentHparams & hparams,
                                          std::span<const RecurrentPart> parts) {
    const auto n_tail = static_cast<size_t>(hparams.n_tail());
    const auto n_memory = static_cast<size_t>(hparams.n_memory);
    std::vector<RecurrentRows> rows;
    for (size_t begin = 0; begin < parts.size();) {
        size_t end = begin + 1;
        while (end < parts.size() && parts[end].n == parts[begin].n) { ++end; }
        const Parts group(parts.begin() + static_cast<std::ptrdiff_t>(begin), parts.begin() + static_cast<std::ptrdiff_t>(end));
        RecurrentRows & one = rows.emplace_back();
        one.n_tokens = group.front().n;
        one.n_seqs = std::ssize(group);
        one.tail =
            ggml_reshape_3d(build.ctx(), input_of(build, group, 0, n_tail), hparams.n_conv - 1, hparams.n_channels, one.n_seqs);
        if (n_memory > 0) { one.memory = input_of(build, group, n_tail, n_memory); }
        one.keep = [&build, group, n_tail](ggml_tensor * tail, ggml_tensor * memory) {
            output_to(build, group, 0, tail);
            if (memory != nullptr) { output_to(build, group, n_tail, memory); }
        };
        begin = end;
    }
    return rows;
}

}  // namespace pith
