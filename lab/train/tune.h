// tune.h - trains gates, a LoRA adapter, or both on a frozen model: steps, exact checkpoints, the files. Stage: train.
// Paper: Attention-Gate (Zeng et al., 2024), sections 3.4, 4.1 (gates alone, one epoch of about 5,000 sequences) and 4.2 (with
//        LoRA on q, k, v and o, two epochs).
// Differs: AdamW's rate of 4.1 and its course are ours (the paper does not say); an answer's tokens are never gated (data.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gate/gate_config.h"
#include "model/model_file.h"
#include "pith/status.h"
#include "train/data/samples.h"
#include "train/graph/lora_parameters.h"
#include "train/graph/step_model.h"
#include "train/trainer.h"

namespace pith::train {

struct TuneOptions {
    bool gates = true;
    GateConfig gate;
    GateLoss loss;
    LoraOptions lora;     // rank 0: none
    int n_sequences = 8;  // of a step
    int n_epochs = 1;
    float learning_rate = 1e-3F;  // falls along a cosine to a tenth
    int warmup_steps = 20;
    AdamW adamw{.beta1 = 0.9F, .beta2 = 0.98F, .epsilon = 1e-8F, .weight_decay = 0.0F, .clip_norm = 1.0F};
    uint64_t seed = 1;
    int n_threads = 2;
    bool bf16 = true;  // products in bf16 where the processor has a matrix unit
    int checkpoint_every = 100;
    bool resume = true;       // from work_dir's checkpoint if there is one
    std::string work_dir;     // made if missing
    std::string output;       // the gate file; written at every checkpoint (empty: none)
    std::string lora_output;  // the adapter, likewise
};
// Errors: kInvalidArgument: names the option, its value and what is possible.
Status check(const TuneOptions & options, const Hparams & hparams);

// What a run will take: the first batch is run once to know.
struct TunePlan {
    int64_t n_params = 0;  // that learn
    int64_t n_steps = 0;
    int64_t n_tokens = 0;
    size_t weight_bytes = 0;     // the frozen model, mapped
    size_t parameter_bytes = 0;  // what learns, with gradients and moments
    size_t graph_bytes = 0;      // activations of all threads
    double seconds = 0;          // of all steps
};

struct TuneProgress {
    int64_t step = 0;
    int64_t n_steps = 0;
    double loss = 0;  // of the tokens
    double eviction_loss = 0;
    double gradient_norm = 0;
    std::vector<double> retention;  // share kept, of each layer that has a gate; empty without gates
    float learning_rate = 0;
    double tokens_per_second = 0;
    double seconds_left = 0;
    double mean_retention() const;
};

// Held-out sequences, by the model as it was and as it is now.
struct TuneValidation {
    int64_t step = 0;
    double loss_before = 0;  // the full cache
    double loss = 0;
    double hits_before = 0;  // share of the weighted tokens that were the best one
    double hits = 0;
    std::vector<double> retention;  // of each layer that has a gate
};

struct TuneHooks {
    std::function<bool(const TunePlan &)> plan;          // before the first step; false stops
    std::function<bool(const TuneProgress &)> progress;  // after each step; false stops after writing a checkpoint
    std::function<void(const TuneValidation &)> validation;
    std::function<void(const std::string &)> note;  // one line about what begins
};

// file: loaded without repacking; any weight type that can be dequantised. It is left as it is.
// Errors: those of check(), of the parts (experts: kUnsupported), kNotFinite (a NaN: says the step; the last checkpoint stays),
//         kInvalidArgument (a checkpoint made with other options), kIo, kCancelled when a hook said so.
Status tune(const ModelFile & file, Samples & samples, const TuneOptions & options, const TuneHooks & hooks = {});

}  // namespace pith::train
