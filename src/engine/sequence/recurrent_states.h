// recurrent_states.h - what the recurrent layers of a sequence have left of its tokens. Stage: engine.
//
// Copies share a layer's state until one of them writes it: a way back, a snapshot or a fork costs a pointer a layer, and then
// what is written anew. A state cannot be cut back: who may have to return keeps a copy.   Threads: one at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "model/arch/hparams.h"

namespace pith {

class RecurrentStates {
public:
    RecurrentStates() = default;
    // Of a sequence without tokens: zeros. Throws std::bad_alloc.
    explicit RecurrentStates(const Hparams & hparams) : layers_(hparams.n_recurrent_layers() > 0 ? hparams.layers.size() : 0) {
        const auto n = static_cast<size_t>(hparams.recurrent.n_floats());
        for (size_t l = 0; l < layers_.size(); ++l) {
            if (hparams.layers[l].recurrent) { layers_[l] = std::make_shared<std::vector<float>>(n, 0.0F); }
        }
    }

    bool has(int index) const { return static_cast<size_t>(index) < layers_.size() && layers_[static_cast<size_t>(index)]; }
    // [n_floats] (RecurrentHparams). REQUIRES: the layer is recurrent, here and below.
    std::span<const float> layer(int index) const { return *layers_[static_cast<size_t>(index)]; }
    // To write all of it: what it holds is the state, or anything where copies share that. Throws std::bad_alloc: nothing has
    // changed then.
    std::span<float> overwrite(int index) {
        auto & state = layers_[static_cast<size_t>(index)];
        if (state.use_count() > 1) { state = std::make_shared<std::vector<float>>(state->size()); }
        return *state;
    }
    // The layer, which had none, has this one. Throws std::bad_alloc.
    void add(int index, std::vector<float> state) {
        layers_.resize(std::max(layers_.size(), static_cast<size_t>(index) + 1));
        layers_[static_cast<size_t>(index)] = std::make_shared<std::vector<float>>(std::move(state));
    }
    // The layer's state is that of `other` again.
    void take(int index, const RecurrentStates & other) noexcept {
        layers_[static_cast<size_t>(index)] = other.layers_[static_cast<size_t>(index)];
    }

    size_t size_bytes() const {
        size_t n = 0;
        for (const auto & state : layers_) { n += state ? state->size() * sizeof(float) : 0; }
        return n;
    }
    // Of what it does not share with `other`.
    size_t bytes_beside(const RecurrentStates & other) const {
        size_t n = 0;
        for (size_t l = 0; l < layers_.size(); ++l) {
            const bool shared = l < other.layers_.size() && layers_[l] == other.layers_[l];
            n += layers_[l] && !shared ? layers_[l]->size() * sizeof(float) : 0;
        }
        return n;
    }

private:
    std::vector<std::shared_ptr<std::vector<float>>> layers_;  // [layer of the model]; null where it is not recurrent
};

}  // namespace pith
