// key_norms.cpp - see the header.
#include "evidence/key_norms.h"

namespace pith {

void build_key_norms(GraphBuild & build, ggml_tensor * k, std::vector<float> & norms) {
    ggml_context * ctx = build.ctx();
    norms.resize(static_cast<size_t>(k->ne[1] * k->ne[2]));
    build.output(ggml_sqrt(ctx, ggml_sum_rows(ctx, ggml_mul(ctx, k, k))), norms.data());
}

}  // namespace pith
