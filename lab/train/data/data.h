// data.h - batches of the generator's documents, and task samples to measure with. Stage: train.
// Threads: one at a time (the encoder remembers words).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "corpus/corpus.h"
#include "pith/status.h"
#include "train/data/encoder.h"
#include "train/graph/step_graph.h"

namespace pith::train {

// Which task samples take the place of documents, and their share of all.
struct TaskShare {
    std::string id;
    double share = 0;
};

// Documents first_index … first_index + B - 1 of a stream, one per row, cut or filled up to T.
struct StreamOptions {
    corpus::SeedSpace space = corpus::SeedSpace::kTraining;
    uint64_t seed = 1;
    std::vector<TaskShare> tasks;                // besides what the generator mixes in by itself
    float prompt_weight = corpus::kPlainWeight;  // of these tasks' prompts as targets
    corpus::Mixture mixture;                     // of the generator's documents; empty: that of their length
};
// Gates decide on whole documents, but of a task sample only on its prompt: decode adds the answer, and keeps it.
// kinds, if given, gets each row's kind. A task that does not fit T leaves its place to a document.
Batch make_batch(Encoder & encoder, const StreamOptions & options, uint64_t first_index, const BatchShape & shape,
                 std::vector<std::string> * kinds = nullptr);

Batch make_text_batch(Encoder & encoder, uint64_t seed, uint64_t first_index, const BatchShape & shape);  // held-out plain text

// Samples of a task: weight 1 on the completion's tokens (and the end), 0 elsewhere. Rows are filled up to T.
// Errors: as corpus::make_task.
Result<Batch> make_task_batch(Encoder & encoder, const std::string & id, const corpus::TaskOptions & options,
                              const BatchShape & shape);

// How many rows have all their weighted targets right.
int count_exact(const Batch & batch, const BatchLoss & loss);

}  // namespace pith::train
