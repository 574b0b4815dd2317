// random_gate.h - a tiny model and gates with random weights for it.
#pragma once

#include <ggml.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>

#include "gate/gate_graph.h"
#include "model/gguf_edit.h"
#include "model/model_file.h"
#include "model/random/random_model.h"
#include "tasks/random.h"

namespace pith::testing {

inline std::shared_ptr<ModelFile> gate_model(const std::function<void(RandomModelSpec &)> & change = {}) {
    const TempFolder folder;
    RandomModelSpec spec;
    spec.n_layers = 3;
    spec.n_embd = 32;
    spec.n_kv_heads = 2;
    if (change) { change(spec); }
    const Status status = write_random_model(spec, folder.file("m.gguf"));
    EXPECT_TRUE(status.ok()) << status.message();
    ModelFileOptions options;
    options.use_mmap = options.repack = false;
    auto file = ModelFile::load(folder.file("m.gguf"), options);
    EXPECT_TRUE(file.ok()) << file.status().message();
    return *file;
}

// Gates in memory of their own.
class RandomGate {
public:
    RandomGate(const GateConfig & gate_config, const Hparams & hparams) : config(gate_config) {
        ctx_.reset(ggml_init({size_t{1} << 22, nullptr, false}));
        corpus::Random random(7);
        for (const GateTensor & t : gate_tensors(config, hparams, weights)) {
            *t.slot = ggml_new_tensor_2d(ctx_.get(), GGML_TYPE_F32, t.ne0, std::max<int64_t>(t.ne1, 1));
            auto * data = static_cast<float *>((*t.slot)->data);
            const double size = 2.0 / std::sqrt(static_cast<double>(t.ne0));
            for (int64_t i = 0; i < ggml_nelements(*t.slot); ++i) {
                data[i] = static_cast<float>(size * (random.uniform() - 0.5));
            }
        }
    }
    GateConfig config;
    GateWeights weights;

private:
    struct Free {
        void operator()(ggml_context * ctx) const { ggml_free(ctx); }
    };
    std::unique_ptr<ggml_context, Free> ctx_;
};

inline GateConfig small_gate() {
    GateConfig config;
    config.n_heads = 2;
    config.head_dim = 8;
    return config;
}

}  // namespace pith::testing
