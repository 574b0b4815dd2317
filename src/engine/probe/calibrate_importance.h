// calibrate_importance.h - learns, in minutes and without gradients, to foretell what reading a text twice would say of each
// entry. Stage: probe.
//
// A text is read, and read again (policy `reread`); then per layer a ridge regression from each token's normalised attention
// input x to the logarithm of the entry's score. What comes out is a linear gate that ranks (gate/gate_config.h): one product
// a layer while a prompt is read, instead of a second pass. No text is kept: the sums are features² floats a layer.
// Paper:   KVzap: Fast, Adaptive, and Faithful KV Cache Pruning (its linear form).
// Differs: fitted by sums in one pass; targets are Pith's `reread:group=mean` over all queries of the repetition.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "gate/gate_config.h"
#include "pith/model.h"
#include "pith/session.h"

namespace pith {

struct ImportanceOptions {
    double ridge = 0.01;  // the penalty (ridge.h)
    RereadPrompt reread;
    int n_threads = 0;
    std::function<void(int64_t n_done, int64_t n_total)> progress;  // tokens, each read twice
    const std::atomic<bool> * cancel = nullptr;
};

// How well the scores of texts that were not learnt from are foretold.
struct ImportanceQuality {
    int64_t n_tokens = 0;
    double explained = 0;  // share of the variance of their logarithms within a lane, the mean over lanes (R²)
    // Of the fifth of all entries that a second reading ranks highest, the share that the prediction ranks there, too; of a
    // guess a fifth.
    double found = 0;
};

struct ImportancePredictor {
    GateConfig config;
    std::map<std::string, std::vector<float>> tensors;  // by their names in a gate file (gate/gate_graph.h)
    int64_t n_tokens = 0;                               // learnt from
    ImportanceQuality held_out;
};

// texts: tokens of each, a prompt of its own; the last n_held_out of them are for the quality alone.
// Errors: kInvalidArgument (no text to learn from or to judge by), kUnsupported (the model reads another layer's keys),
//         kCancelled, those of sessions.
// Memory: features² floats a layer, and one text's inputs, tokens · features floats a layer.   Throws std::bad_alloc.
Result<ImportancePredictor> fit_importance(const Model & model, std::span<const std::vector<int32_t>> texts, int n_held_out,
                                           const ImportanceOptions & options);

// As a gate file (gate/gate_file.h). Errors: kIo, kOutOfMemory; no partial file.
Status save_importance(const std::string & path, const ImportancePredictor & predictor, const Model & model);

}  // namespace pith
