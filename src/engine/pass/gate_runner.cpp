// gate_runner.cpp - keys and values of all tokens first, then the queries, block by block.
#include "engine/pass/gate_runner.h"

#include <algorithm>
#include <utility>

#include "device/device_work.h"
#include "gate/gate_graph.h"
#include "model/layer_graph.h"

namespace pith {
namespace {

constexpr int kBlock = 512;  // tokens at a time
constexpr size_t kNodes = 128;

int total(const GateMemory & memory) {
    int n = 0;
    for (const auto & block : memory) { n += block->n; }
    return n;
}

}  // namespace

Status GateRunner::read_norm(int layer) {
    const ggml_tensor * norm = file_->weights().layers[static_cast<size_t>(layer)].attn_norm;
    if (norm == nullptr || !is_on_device(norm) || norms_.contains(layer)) { return {}; }
    std::vector<float> values(static_cast<size_t>(ggml_nelements(norm)));
    PITH_RETURN_IF_ERROR(read_tensor(norm, values.data(), 0, values.size() * sizeof(float)));
    norms_[layer] = std::move(values);
    return {};
}

size_t GateRunner::size_bytes() const {
    size_t n = keys_.capacity() + values_.capacity();
    for (const auto & [layer, norm] : norms_) { n += norm.capacity(); }
    return runner_.buffer_bytes() + n * sizeof(float);
}

ggml_tensor * GateRunner::build_input(GraphBuild & build, int layer, const GateInput & in, int first, int n) const {
    const int source = config().input_layer(layer);
    const int n_embd = file_->hparams().n_embd;
    const auto offset = static_cast<size_t>(first);
    ggml_tensor * hidden = source == 0
                               ? build_embedding(build.ctx(), file_->hparams(), file_->weights(),
                                                 build.input(GGML_TYPE_I32, n, 1, in.tokens.data() + offset))
                               : build.input(GGML_TYPE_F32, n_embd, n, in.hidden.data() + offset * static_cast<size_t>(n_embd));
    ggml_tensor * norm = file_->weights().layers[static_cast<size_t>(source)].attn_norm;
    if (const auto copy = norms_.find(source); copy != norms_.end()) {
        norm = build.input(GGML_TYPE_F32, n_embd, 1, copy->second.data());
    }
    return build_attention_input(build.ctx(), file_->hparams(), norm, hidden);
}

Status GateRunner::add_keys(int layer, const GateInput & in, GateMemory & memory, int n_before) {
    const GateConfig & c = config();
    const size_t width = static_cast<size_t>(c.head_dim) * static_cast<size_t>(c.n_heads);
    keys_.resize(static_cast<size_t>(n_before + in.n) * width);
    values_.resize(keys_.size());
    size_t at = 0;
    for (const auto & block : memory) {
        std::ranges::copy(block->k, keys_.data() + at);
        std::ranges::copy(block->v, values_.data() + at);
        at += block->k.size();
    }
    for (int first = 0; first < in.n; first += kBlock) {
        const int n = std::min(kBlock, in.n - first);
        PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner_.begin(kNodes));
        const size_t offset = at + static_cast<size_t>(first) * width;
        const GateAttentionFn take = [&](ggml_context *, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v) {
            build->output(k, keys_.data() + offset);
            build->output(v, values_.data() + offset);
            return ggml_reshape_2d(build->ctx(), q, static_cast<int64_t>(width), n);
        };
        build_gate(build->ctx(), c, gate_->weights().layers[static_cast<size_t>(layer)],
                   build_input(*build, layer, in, first, n), take, mul_mat_of(*build));
        PITH_RETURN_IF_ERROR(runner_.run());
    }
    if (!c.causal) { return {}; }
    auto block = std::make_shared<GateBlock>();
    block->k.assign(keys_.begin() + static_cast<std::ptrdiff_t>(at), keys_.end());
    block->v.assign(values_.begin() + static_cast<std::ptrdiff_t>(at), values_.end());
    block->n = in.n;
    memory.push_back(std::move(block));
    return {};
}

Status GateRunner::ask_block(int layer, const GateInput & in, int n_before, int first, int n, float * logits) {
    const GateConfig & c = config();
    // Of a causal gate, later keys need not even be looked at.
    const GateKeys keys{keys_.data(), values_.data(), c.causal ? n_before + first + n : n_before + in.n};
    const bool watched = layer == watched_layer_ && visit_;
    std::vector<float> rows;
    PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner_.begin(kNodes));
    const GateAttentionFn attend = [&](ggml_context *, ggml_tensor * q, ggml_tensor *, ggml_tensor *) {
        if (watched) {
            rows.resize(static_cast<size_t>(keys.n) * static_cast<size_t>(n) * static_cast<size_t>(c.n_heads));
            build->output(build_gate_probabilities(*build, c, q, keys), rows.data());
        }
        return build_gate_attention(*build, c, q, keys);
    };
    build->output(build_gate(build->ctx(), c, gate_->weights().layers[static_cast<size_t>(layer)],
                             build_input(*build, layer, in, first, n), attend, mul_mat_of(*build)),
                  logits);
    PITH_RETURN_IF_ERROR(runner_.run());
    if (!rows.empty()) {
        const size_t size = rows.size() / static_cast<size_t>(c.n_heads);
        for (int h = 0; h < c.n_heads; ++h) {
            visit_({h, n_before + first, n, keys.n, std::span(rows).subspan(static_cast<size_t>(h) * size, size)});
        }
    }
    return {};
}

void GateRunner::release() {
    std::vector<float>().swap(keys_);  // `= {}` would keep the memory
    std::vector<float>().swap(values_);
}

Status GateRunner::run(int layer, const GateInput & in, GateMemory & memory, std::vector<float> & probabilities) {
    const GateConfig & c = config();
    const auto n_kv = static_cast<size_t>(file_->hparams().n_kv_heads);
    const int n_before = total(memory);
    PITH_RETURN_IF_ERROR(read_norm(c.input_layer(layer)));
    if (c.kind == GateKind::kAttention) { PITH_RETURN_IF_ERROR(add_keys(layer, in, memory, n_before)); }
    probabilities.resize(static_cast<size_t>(in.n) * n_kv);
    for (int first = 0; first < in.n; first += kBlock) {
        PITH_RETURN_IF_ERROR(ask_block(layer, in, n_before, first, std::min(kBlock, in.n - first),
                                       probabilities.data() + static_cast<size_t>(first) * n_kv));
    }
    for (float & p : probabilities) { p = gate_probability(p, c); }
    return {};
}

}  // namespace pith
