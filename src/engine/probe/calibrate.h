// calibrate.h - which query heads retrieve: needles are asked for, one after the other, over the full cache. Stage: probe.
//
// A probe is a question for one of the four needles of a text, which is read once for all of them, and the true answer, fed
// whatever the model would have said. Every head is credited for each token of the answer:
//   copy    1 when the head's strongest entry lies in the needle and holds the very token that comes next
//   reason  the attention mass of those of the head's n strongest entries that lie in the needle, n the needle's length
// Both are means over all tokens of all answers: 0 … 1.
// Paper:   HeadKV (Fu et al., 2024), after retrieval heads (Wu et al., 2024).
// Differs: the true answer is fed, so that every probe counts and the result does not hang on the model's wording; the needles
//          are tasks/tasks.h's `multikey`, in RULER's wording, in noise and in stories by turns: who attends to whatever
//          stands out earns less than who finds what is asked for.
// Threads: one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "model/head_importance_file.h"
#include "pith/head_importance.h"
#include "pith/model.h"
#include "pith/position_span.h"
#include "pith/text.h"

namespace pith {

inline constexpr int kQuestionsOfText = 4;

struct CalibrateOptions {
    int n_samples = 60;
    int n_tokens = 1024;   // of the longest texts; a third each are half and a quarter as long, while that holds the needles
    uint64_t seed = 7919;  // not the benchmarks' seed: what is measured there was not calibrated on
    int n_threads = 0;
    std::function<void(int64_t n_done, int64_t n_total)> progress;  // tokens that are computed
    const std::atomic<bool> * cancel = nullptr;
};

// Probes of one length for which the model's tokeniser needs more tokens than that.
struct ProbesLeftOut {
    int length = 0;
    int count = 0;
    std::string why;  // of the first: "task 'multikey' needs at least 210 tokens"
};

struct Calibration {
    HeadImportance heads;
    HeadProbes probes;  // those that were measured
    std::vector<ProbesLeftOut> left_out;
    int64_t n_tokens = 0;  // generated, of all probes
    double foretold = 0;   // share of them that the model would have said itself
};

// Probes that do not fit their length are left out and counted.
// Errors: kInvalidArgument (fewer than 1 sample; probes too short, or none that fits: says the least and names n_tokens),
//         kCancelled, those of sessions.
Result<Calibration> calibrate_heads(const Model & model, const Tokenizer & tokenizer, const CalibrateOptions & options);

struct HeadCredit {
    double copy = 0;
    double reason = 0;
};

// What one head earns for one token. attention [n]: what the query that foretells `next` pays to the entries; tokens [n]: what
// they hold. Of equally strong entries the newer comes first. REQUIRES: needle within [0, n), not empty.
HeadCredit credit_head(std::span<const float> attention, std::span<const int32_t> tokens, PositionSpan needle, int32_t next);

}  // namespace pith
