// plain_gate.h - a gate by its formulas, in f64. Oracle of other tests.
#pragma once

#include <cmath>
#include <vector>

#include "gate/random_gate.h"

namespace pith::testing {

using Row = std::vector<double>;

inline Row times(const ggml_tensor * weight, const Row & x) {
    const auto * w = static_cast<const float *>(weight->data);
    Row out(static_cast<size_t>(weight->ne[1]), 0.0);
    for (size_t i = 0; i < out.size(); ++i) {
        for (size_t k = 0; k < x.size(); ++k) { out[i] += static_cast<double>(w[i * x.size() + k]) * x[k]; }
    }
    return out;
}

// Logits [token][KV head] of the tokens x [token][D].
inline std::vector<Row> plain_gate_logits(const RandomGate & gate, const GateLayerWeights & w, const std::vector<Row> & x) {
    std::vector<Row> read = x;
    if (gate.config.kind == GateKind::kAttention) {
        const auto d = static_cast<size_t>(gate.config.head_dim);
        std::vector<Row> q, k, v;
        for (const Row & r : x) {
            q.push_back(times(w.wq, r));
            k.push_back(times(w.wk, r));
            v.push_back(times(w.wv, r));
        }
        for (size_t t = 0; t < x.size(); ++t) {
            read[t].assign(q[t].size(), 0.0);
            for (size_t h = 0; h < static_cast<size_t>(gate.config.n_heads); ++h) {
                Row p;
                double total = 0;
                for (size_t u = 0; u < (gate.config.causal ? t + 1 : x.size()); ++u) {
                    double dot = 0;
                    for (size_t i = h * d; i < (h + 1) * d; ++i) { dot += q[t][i] * k[u][i]; }
                    p.push_back(std::exp(dot / std::sqrt(static_cast<double>(d))));
                    total += p.back();
                }
                for (size_t u = 0; u < p.size(); ++u) {
                    for (size_t i = h * d; i < (h + 1) * d; ++i) { read[t][i] += p[u] / total * v[u][i]; }
                }
            }
        }
    }
    for (Row & r : read) {
        r = times(w.out, r);
        for (size_t k = 0; k < r.size(); ++k) { r[k] += static_cast<const float *>(w.bias->data)[k]; }
    }
    return read;
}

}  // namespace pith::testing
