// train.h - trains a model from a recipe: vocabulary, stages of growing length, validation, checkpoints, export. Stage: train.
// The reference model is `models/pith-reference.json` run from scratch; see docs/training.md.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pith/status.h"
#include "train/data/data.h"
#include "train/graph/parameters.h"
#include "train/trainer.h"

namespace pith::train {

// Steps of one length. The learning rate goes from learning_rate to final_rate along a cosine.
struct Stage {
    int n_tokens = 64;
    int n_sequences = 64;  // of one batch; its graph's memory grows with n_tokens · n_sequences
    int accumulate = 1;    // batches of one optimiser step
    int n_steps = 1000;
    float learning_rate = 1.5e-3F;
    float final_rate = 1.5e-3F;
    int stop_after = 0;            // steps after which the stage ends, its rate still on the way (0: n_steps)
    std::vector<int> also;         // other lengths, whose steps come in turn; their batches hold as many tokens
    corpus::Mixture documents;     // shares of the generator's recipes (empty: those of the length)
    std::vector<TaskShare> tasks;  // samples of these tasks among the documents
    bool bf16 = true;              // products in bf16 where the processor has a matrix unit
    double until_hit = 2.0;        // ends early once this share of the validation documents' answer tokens is right (2: never)
};

struct Recipe {
    std::string name = "pith-reference";
    uint64_t seed = 1;
    int vocabulary_size = 1024;
    ModelShape shape;  // n_vocab follows from the vocabulary
    AdamW adamw;
    int warmup_steps = 100;      // of the run
    int validate_every = 250;    // steps
    int checkpoint_every = 250;  // steps
    int n_validation = 32;       // documents
    std::vector<Stage> stages;
};

// Errors: kNotFound, kBadFile (not JSON, a field unknown or of the wrong kind: names it), kInvalidArgument.
Result<Recipe> read_recipe(const std::string & path);
Status check(const Recipe & recipe);
// What a checkpoint must agree in: everything but the stages' lengths, so that a run may be prolonged.
std::string fingerprint(const Recipe & recipe, int n_threads);

struct TrainOptions {
    std::string recipe_path;  // JSON
    std::string work_dir;     // checkpoints; made if missing
    std::string output;       // GGUF; written at every checkpoint (empty: never)
    int n_threads = 2;
    bool resume = true;  // from work_dir's checkpoint if there is one
};

struct TrainProgress {
    int stage = 0;  // from 0
    int n_stages = 0;
    int n_tokens = 0;  // the stage's length
    int64_t step = 0;  // within the stage
    int64_t n_steps = 0;
    double loss = 0;
    double gradient_norm = 0;
    float learning_rate = 0;
    int64_t tokens_seen = 0;
    double tokens_per_second = 0;
    double stage_seconds_left = 0;
};

struct ValidationReport {
    int n_tokens = 0;
    int64_t step = 0;  // of the run
    double loss = 0;
    double answer_hits = 0;  // share of the answers' tokens that were the best token
    std::vector<std::pair<std::string, double>> hits_by_kind;
};

struct TrainHooks {
    std::function<bool(const TrainProgress &)> progress;  // after each step; false stops after writing a checkpoint
    std::function<void(const ValidationReport &)> validation;
    std::function<void(const std::string &)> note;  // one line about what begins or was written
};

// Where a run writes what it measured of itself (training_curve.h).
std::string curve_path(const TrainOptions & options);

// Errors: those of the parts; kCancelled when progress said so.
Status train(const Recipe & recipe, const TrainOptions & options, const TrainHooks & hooks = {});

// Teacher-forced accuracy: the share of samples whose answer tokens are each the best token given the right ones before.
struct TaskAccuracy {
    std::string id;
    int n_tokens = 0;
    int n_samples = 0;
    double exact = 0;
};
struct Evaluation {
    std::vector<TaskAccuracy> tasks;
    std::vector<std::pair<int, double>> perplexity;  // (tokens, of held-out plain text)
};
// Evaluates work_dir's checkpoint.
Result<Evaluation> evaluate_checkpoint(const Recipe & recipe, const TrainOptions & options, const std::vector<int> & lengths,
                                       int n_samples, const std::function<void(const std::string &)> & note = {});

}  // namespace pith::train
