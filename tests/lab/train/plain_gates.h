// plain_gates.h - a Llama with attention gates in f64, and the loss that the straight-through estimator differentiates.
//
// Flags are whole numbers: with F the flags and p0 the probabilities of the parameters at record(), the loss is taken at
//   flag = F + (p - p0),
// where a query's output is linear in its flags around F: out(F) + sum over keys j of (flag_j - F_j) · (out with j - out
// without j). At the recorded parameters that is the true loss; its slope there is what the trainer must return.
#pragma once

#include "gate/gate_config.h"
#include "plain_llama.h"
#include "train/graph/gate_step.h"

namespace pith::train {

class PlainGates : public PlainLlama {
public:
    PlainGates(const ModelFile & file, const GateConfig & config, const ParameterSet & gates, double beta)
        : PlainLlama(file), config_(config), beta_(beta) {
        for (const Parameter & p : gates.list()) { add(p.value); }
        state_.layers.resize(static_cast<size_t>(shape_.n_layers));
    }

    struct Losses {
        double nll = 0;       // sum of weight · nll
        double eviction = 0;  // sum over sequences and gated layers of ReLU(mean - beta)
    };
    // Keeps flags and probabilities of the present parameters.
    Losses record(const Batch & batch) {
        recorded_.clear();
        recording_ = true;
        const Losses out = losses(batch);
        recording_ = false;
        return out;
    }
    Losses losses(const Batch & batch) const {
        batch_ = &batch;
        eviction_ = 0;
        const double nll = loss(batch);
        return {nll, eviction_};
    }
    // Flags that are 1, of the gated tokens of all sequences.
    double kept(int layer) const {
        double n = 0;
        for (const auto & [key, flags] : recorded_) {
            if (key.second != layer) { continue; }
            for (const Row & row : flags.hard) {
                for (const double f : row) { n += f; }
            }
        }
        return n;
    }

private:
    struct Flags {
        std::vector<Row> hard;         // [token][KV head]
        std::vector<Row> probability;  // at record()
    };
    struct State {
        size_t sequence = 0;
        std::vector<std::vector<Row>> layers;  // [layer][token][KV head] p - p0
    };

    void begin_sequence(size_t s) const override { state_.sequence = s; }

    size_t n_gated() const {
        return batch_->n_gated.empty() ? static_cast<size_t>(batch_->shape.n_tokens)
                                       : static_cast<size_t>(batch_->n_gated[state_.sequence]);
    }

    void see_input(int l, const std::vector<Row> & x) const override {
        for (int of = config_.first_layer; of < shape_.n_layers; ++of) {
            if (config_.input_layer(of) == l) { flag(of, x); }
        }
    }

    void flag(int of, const std::vector<Row> & x) const {
        const std::string name = "gate." + std::to_string(of) + ".";
        const std::vector<Row> read = config_.kind == GateKind::kLinear ? x : gate_attention(name, x);
        Flags now;
        double sum = 0;
        for (size_t t = 0; t < n_gated(); ++t) {
            Row p = times(name + "out.weight", read[t]);
            Row hard(p.size());
            for (size_t k = 0; k < p.size(); ++k) {
                p[k] = 1.0 / (1.0 + std::exp(-(p[k] + matrices_.at(name + "out.bias").data[k] + config_.gamma)));
                hard[k] = p[k] > config_.tau ? 1.0 : 0.0;
                sum += p[k];
            }
            now.probability.push_back(p);
            now.hard.push_back(hard);
        }
        eviction_ += std::max(0.0, sum / static_cast<double>(n_gated() * static_cast<size_t>(shape_.n_kv_heads)) - beta_);
        const auto key = std::make_pair(state_.sequence, of);
        if (recording_) { recorded_[key] = now; }
        const Flags & then = recorded_.at(key);
        auto & change = state_.layers[static_cast<size_t>(of)];
        change = now.probability;
        for (size_t t = 0; t < change.size(); ++t) {
            for (size_t k = 0; k < change[t].size(); ++k) { change[t][k] -= then.probability[t][k]; }
        }
    }

    std::vector<Row> gate_attention(const std::string & name, const std::vector<Row> & x) const {
        const auto d = static_cast<size_t>(config_.head_dim);
        std::vector<Row> q, k, v, out;
        for (const Row & r : x) {
            q.push_back(times(name + "q.weight", r));
            k.push_back(times(name + "k.weight", r));
            v.push_back(times(name + "v.weight", r));
        }
        for (size_t t = 0; t < n_gated(); ++t) {
            Row o(d * static_cast<size_t>(config_.n_heads), 0.0);
            for (size_t h = 0; h < static_cast<size_t>(config_.n_heads); ++h) {
                Row p;
                double total = 0;
                for (size_t u = 0; u < (config_.causal ? t + 1 : n_gated()); ++u) {
                    double dot = 0;
                    for (size_t i = 0; i < d; ++i) { dot += q[t][h * d + i] * k[u][h * d + i]; }
                    p.push_back(std::exp(dot / std::sqrt(static_cast<double>(d))));
                    total += p.back();
                }
                for (size_t u = 0; u < p.size(); ++u) {
                    for (size_t i = 0; i < d; ++i) { o[h * d + i] += p[u] / total * v[u][h * d + i]; }
                }
            }
            out.push_back(o);
        }
        return out;
    }

    // One query head over the keys that are on.
    Row one_head(size_t h, const Row & q, const std::vector<Row> & k, const std::vector<Row> & v,
                 const std::vector<char> & on) const {
        const auto d = static_cast<size_t>(shape_.head_dim);
        const size_t kv = h / static_cast<size_t>(shape_.n_heads / shape_.n_kv_heads);
        Row out(d, 0.0);
        double total = 0;
        for (size_t u = 0; u < on.size(); ++u) {
            if (on[u] == 0) { continue; }
            double dot = 0;
            for (size_t i = 0; i < d; ++i) { dot += q[h * d + i] * k[u][kv * d + i]; }
            const double e = std::exp(dot / std::sqrt(static_cast<double>(d)));
            total += e;
            for (size_t i = 0; i < d; ++i) { out[i] += e * v[u][kv * d + i]; }
        }
        for (double & o : out) { o /= total; }
        return out;
    }

    Row attend(int l, size_t t, const Row & q, const std::vector<Row> & k, const std::vector<Row> & v) const override {
        if (!config_.has_gate(l)) { return PlainLlama::attend(l, t, q, k, v); }
        const auto d = static_cast<size_t>(shape_.head_dim);
        const Flags & flags = recorded_.at({state_.sequence, l});
        Row out;
        for (size_t h = 0; h < static_cast<size_t>(shape_.n_heads); ++h) {
            const size_t kv = h / static_cast<size_t>(shape_.n_heads / shape_.n_kv_heads);
            const auto decided = [&](size_t u) { return u < n_gated() && t - u >= static_cast<size_t>(config_.n_recent); };
            std::vector<char> on(t + 1, 1);
            for (size_t u = 0; u <= t; ++u) {
                if (decided(u)) { on[u] = flags.hard[u][kv] > 0 ? 1 : 0; }
            }
            Row o = one_head(h, q, k, v, on);
            for (size_t u = 0; u <= t; ++u) {
                const double change = decided(u) ? state_.layers[static_cast<size_t>(l)][u][kv] : 0.0;
                if (change == 0.0) { continue; }
                std::vector<char> with = on, without = on;
                with[u] = 1;
                without[u] = 0;
                const Row a = one_head(h, q, k, v, with), b = one_head(h, q, k, v, without);
                for (size_t i = 0; i < d; ++i) { o[i] += change * (a[i] - b[i]); }
            }
            out.insert(out.end(), o.begin(), o.end());
        }
        return out;
    }

    GateConfig config_;
    double beta_;
    bool recording_ = false;
    mutable const Batch * batch_ = nullptr;
    mutable double eviction_ = 0;
    mutable State state_;
    mutable std::map<std::pair<size_t, int>, Flags> recorded_;
};

}  // namespace pith::train
