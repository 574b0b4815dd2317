// samples.h - where the sequences of a gate's training come from: the generator, or the user's own tokens. Stage: train.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pith/status.h"
#include "train/data/data.h"
#include "train/data/encoder.h"
#include "train/graph/step_graph.h"

namespace pith::train {

class Samples {
public:
    virtual ~Samples() = default;
    virtual int n_tokens() const = 0;             // of a sequence
    virtual int64_t n_samples() const = 0;        // sequences of one epoch
    virtual std::string fingerprint() const = 0;  // other samples, other text
    // Sequences first … first + n - 1 of all epochs, one after the other; the same arguments always give the same batch.
    virtual Batch batch(int64_t first, int n) = 0;
    // Sequences first … that no epoch has; fewer than n, or none, where there are no more.
    virtual Batch held_out(int64_t first, int n) = 0;
};

// Documents of the generator, and samples of its tasks as data.h mixes them.
struct GeneratedText {
    int n_tokens = 1024;
    int64_t n_samples = 5000;
    uint64_t seed = 1;
    std::vector<TaskShare> tasks;
    float prompt_weight = corpus::kPlainWeight;  // of the tasks' prompts; 0: only answers are learnt
};
// Errors: as read_vocabulary(model_path); kInvalidArgument (too short, no samples).
Result<std::unique_ptr<Samples>> make_generated_samples(const std::string & model_path, const GeneratedText & options);

// Texts as tokens (each with its begin token, if the model wants one), joined and cut into sequences; the last, incomplete one
// is dropped. Every epoch has an order of its own. The last twentieth, at most 32 sequences, is held out where there are 20 or
// more.
struct TokenText {
    int n_tokens = 1024;
    int64_t max_samples = 0;  // of an epoch; 0: all
    uint64_t seed = 1;
};
// Errors: kInvalidArgument: too few tokens for one sequence (says how many there are and how many are needed).
Result<std::unique_ptr<Samples>> make_token_samples(const std::vector<std::vector<int32_t>> & texts, const TokenText & options);

// Prompts with their completions, each a sequence of its own, padded to the longest: only the completion is learnt, only the
// prompt is gated. The last twentieth, at most 32, is held out where there are 20 or more.
struct PromptPair {
    std::vector<int32_t> prompt;      // with the begin token
    std::vector<int32_t> completion;  // with the end token
};
struct PairText {
    int max_tokens = 1024;  // longer pairs are left out
    uint64_t seed = 1;
};
// Errors: kInvalidArgument: no pair that fits (says how many there are and how long the shortest is).
// n_left_out, if given: pairs that were too long.
Result<std::unique_ptr<Samples>> make_pair_samples(const std::vector<PromptPair> & pairs, const PairText & options,
                                                   size_t * n_left_out = nullptr);

}  // namespace pith::train
