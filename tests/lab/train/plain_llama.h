// plain_llama.h - the loss of a Llama in f64, as the formulas say it: the judge of the trainer's gradients.
#pragma once

#include <ggml.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "model/model_file.h"
#include "train/graph/parameters.h"
#include "train/graph/step_graph.h"

namespace pith::train {

class PlainLlama {
public:
    using Row = std::vector<double>;

    explicit PlainLlama(const Parameters & parameters) : shape_(parameters.shape()), eps_(parameters.hparams().norm_eps) {
        for (const Parameter & p : parameters.list()) {
            Matrix m{static_cast<size_t>(p.value->ne[0]), {}};
            m.data.assign(values(p.value), values(p.value) + ggml_nelements(p.value));
            matrices_[p.name] = std::move(m);
        }
    }
    // Weights of any type, dequantised.
    explicit PlainLlama(const ModelFile & file) : eps_(file.hparams().norm_eps) {
        const Hparams & h = file.hparams();
        shape_.n_vocab = h.n_vocab;
        shape_.n_layers = h.n_layers;
        shape_.n_embd = h.n_embd;
        shape_.n_heads = h.n_heads;
        shape_.n_kv_heads = h.n_kv_heads;
        shape_.head_dim = h.head_dim;
        shape_.rope_base = h.rope_base;
        shape_.tied = file.weights().output == file.weights().token_embd;
        add(file.weights().token_embd);
        add(file.weights().output_norm);
        add(file.weights().output);
        for (const LayerWeights & w : file.weights().layers) {
            for (const ggml_tensor * t : {w.attn_norm, w.wq, w.wk, w.wv, w.wo, w.ffn_norm, w.ffn_gate, w.ffn_up, w.ffn_down}) {
                add(t);
            }
        }
    }
    virtual ~PlainLlama() = default;
    double lora_scale = 0;  // of the pairs "NAME.lora_a" and "NAME.lora_b", where there are any
    double & at(const std::string & name, size_t i) { return matrices_.at(name).data[i]; }

    // sum over all positions of weight · nll
    double loss(const Batch & batch) const {
        const auto n = static_cast<size_t>(batch.shape.n_tokens);
        double sum = 0;
        for (size_t s = 0; s < static_cast<size_t>(batch.shape.n_sequences); ++s) {
            std::vector<Row> x;
            for (size_t t = 0; t < n; ++t) {
                x.push_back(row("token_embd.weight", static_cast<size_t>(batch.tokens[s * n + t])));
            }
            begin_sequence(s);
            for (int l = 0; l < shape_.n_layers; ++l) { layer(l, x); }
            for (size_t t = 0; t < n; ++t) {
                const Row logits = times(shape_.tied ? "token_embd.weight" : "output.weight", norm("output_norm.weight", x[t]));
                double total = 0;
                for (const double v : logits) { total += std::exp(v); }
                sum += static_cast<double>(batch.weights[s * n + t]) *
                       (std::log(total) - logits[static_cast<size_t>(batch.targets[s * n + t])]);
            }
        }
        return sum;
    }

protected:
    // What gates need: where we are, and the normalised input of layer l.
    virtual void begin_sequence(size_t) const {}
    virtual void see_input(int, const std::vector<Row> &) const {}

    void add(const ggml_tensor * t) {
        Matrix m{static_cast<size_t>(t->ne[0]), {}};
        std::vector<float> row(m.width);
        for (int64_t r = 0; r < ggml_nrows(t); ++r) {
            const char * bytes = static_cast<const char *>(t->data) + static_cast<size_t>(r) * t->nb[1];
            const auto to_float = ggml_get_type_traits(t->type)->to_float;
            if (t->type == GGML_TYPE_F32) {
                std::memcpy(row.data(), bytes, m.width * sizeof(float));
            } else {
                to_float(bytes, row.data(), t->ne[0]);
            }
            m.data.insert(m.data.end(), row.begin(), row.end());
        }
        matrices_[ggml_get_name(t)] = std::move(m);
    }

    struct Matrix {
        size_t width;
        std::vector<double> data;
    };
    Row row(const std::string & name, size_t i) const {
        const Matrix & m = matrices_.at(name);
        return Row(m.data.begin() + static_cast<ptrdiff_t>(i * m.width),
                   m.data.begin() + static_cast<ptrdiff_t>((i + 1) * m.width));
    }
    Row times(const std::string & name, const Row & x) const {
        const Matrix & m = matrices_.at(name);
        Row out(m.data.size() / m.width, 0.0);
        for (size_t i = 0; i < out.size(); ++i) {
            for (size_t k = 0; k < m.width; ++k) { out[i] += m.data[i * m.width + k] * x[k]; }
        }
        if (matrices_.count(name + ".lora_a") > 0) {
            const Row added = times(name + ".lora_b", times(name + ".lora_a", x));
            for (size_t i = 0; i < out.size(); ++i) { out[i] += lora_scale * added[i]; }
        }
        return out;
    }
    Row norm(const std::string & name, const Row & x) const {
        double squares = 0;
        for (const double v : x) { squares += v * v; }
        const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + eps_);
        Row out = x;
        for (size_t i = 0; i < x.size(); ++i) { out[i] *= scale * matrices_.at(name).data[i]; }
        return out;
    }
    // Rotates neighbouring pairs of each head by position · base^(-2i/d).
    void rope(Row & x, size_t position) const {
        const auto d = static_cast<size_t>(shape_.head_dim);
        for (size_t i = 0; i < x.size(); i += 2) {
            const double angle = static_cast<double>(position) * std::pow(static_cast<double>(shape_.rope_base),
                                                                          -static_cast<double>(i % d) / static_cast<double>(d));
            const double a = x[i], b = x[i + 1];
            x[i] = a * std::cos(angle) - b * std::sin(angle);
            x[i + 1] = a * std::sin(angle) + b * std::cos(angle);
        }
    }
    virtual Row attend(int, size_t t, const Row & q, const std::vector<Row> & k, const std::vector<Row> & v) const {
        const auto d = static_cast<size_t>(shape_.head_dim);
        const auto group = static_cast<size_t>(shape_.n_heads / shape_.n_kv_heads);
        Row out(q.size(), 0.0);
        for (size_t h = 0; h < static_cast<size_t>(shape_.n_heads); ++h) {
            std::vector<double> p(t + 1);
            double total = 0;
            for (size_t u = 0; u <= t; ++u) {
                double dot = 0;
                for (size_t i = 0; i < d; ++i) { dot += q[h * d + i] * k[u][h / group * d + i]; }
                total += p[u] = std::exp(dot / std::sqrt(static_cast<double>(d)));
            }
            for (size_t u = 0; u <= t; ++u) {
                for (size_t i = 0; i < d; ++i) { out[h * d + i] += p[u] / total * v[u][h / group * d + i]; }
            }
        }
        return out;
    }
    void layer(int l, std::vector<Row> & x) const {
        const std::string name = "blk." + std::to_string(l) + ".";
        std::vector<Row> inputs;
        for (const Row & r : x) { inputs.push_back(norm(name + "attn_norm.weight", r)); }
        see_input(l, inputs);
        std::vector<Row> q, k, v;
        for (size_t t = 0; t < x.size(); ++t) {
            const Row & y = inputs[t];
            q.push_back(times(name + "attn_q.weight", y));
            k.push_back(times(name + "attn_k.weight", y));
            v.push_back(times(name + "attn_v.weight", y));
            rope(q.back(), t);
            rope(k.back(), t);
        }
        for (size_t t = 0; t < x.size(); ++t) {
            const Row a = times(name + "attn_output.weight", attend(l, t, q[t], k, v));
            for (size_t i = 0; i < a.size(); ++i) { x[t][i] += a[i]; }
            const Row y = norm(name + "ffn_norm.weight", x[t]);
            Row gate = times(name + "ffn_gate.weight", y);
            const Row up = times(name + "ffn_up.weight", y);
            for (size_t i = 0; i < gate.size(); ++i) { gate[i] = gate[i] / (1.0 + std::exp(-gate[i])) * up[i]; }
            const Row f = times(name + "ffn_down.weight", gate);
            for (size_t i = 0; i < f.size(); ++i) { x[t][i] += f[i]; }
        }
    }

    ModelShape shape_;
    double eps_;
    std::map<std::string, Matrix> matrices_;
};

}  // namespace pith::train
