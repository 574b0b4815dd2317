// training_curve.h - what a run measured of itself on the way, as a CSV beside its checkpoint. Stage: train.
//
//   step,tokens_seen,length,what,value
// `what` is "loss" (of the training batches since the last row of its kind), "held-out loss", "held-out answers" (the share of
// their tokens that were the best token), or "answers of KIND" for the documents of one kind.
// Rows come several at a time, all of them or none (appended_file.h); of a line that a killed process has cut off nothing is
// read.   Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "file/appended_file.h"
#include "pith/status.h"

namespace pith::train {

struct CurvePoint {
    int64_t step = 0;  // of the run
    int64_t tokens_seen = 0;
    int n_tokens = 0;  // the length it was measured at
    std::string what;  // without a comma
    double value = 0;
};

// Errors: kNotFound, kBadFile (names the line).
Result<std::vector<CurvePoint>> read_curve(const std::string & path);

class TrainingCurve {
public:
    // Goes on after `last_step`: what an interrupted run wrote beyond its checkpoint is dropped.
    // Errors: kBadFile, kIo.
    static Result<TrainingCurve> open(const std::string & path, int64_t last_step);
    Status append(const std::vector<CurvePoint> & points);  // Errors: kIo

private:
    explicit TrainingCurve(AppendedFile file) : file_(std::move(file)) {}
    AppendedFile file_;
};

}  // namespace pith::train
