// step_plan.h - who runs in a step: one token of everyone who answers, pieces of prompts, one unit of a layered prompt. Stage:
// schedule. Pure C++: no ggml, no I/O.
//
// Of those that read their prompts in chunks a quarter at least has a row in each step, the ones that waited longest; at most
// kMaxLayered prompts are read layer by layer at a time, in turns. So whoever runs advances within kMaxWait steps, whatever the
// row limit and the priorities are: where the limit is smaller than that takes, it gives way. All that this leaves goes by
// priority, and among equals to the one that waited longest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pith {

inline constexpr int kMaxWait = 4;
inline constexpr int kMaxLayered = kMaxWait;

struct StepCandidate {
    enum class Kind { kAnswers, kReadsChunks, kReadsLayers };
    Kind kind = Kind::kAnswers;
    int64_t n_left = 1;      // tokens of the chunk at hand
    int64_t last_step = -1;  // when it last advanced, or was admitted: the step before its first
    int priority = 0;        // higher first
};

struct StepPiece {
    int candidate = 0;
    int64_t n = 0;  // tokens
};

struct StepPlan {
    std::vector<StepPiece> pieces;  // of one pass: those who answer first, in their order
    int layered = -1;               // the candidate whose unit runs after the pass; -1: none
};

// Deterministic. max_rows >= 1. step: the one that is planned, as last_step counts them.
StepPlan plan_step(std::span<const StepCandidate> candidates, int max_rows, int64_t step);

}  // namespace pith
