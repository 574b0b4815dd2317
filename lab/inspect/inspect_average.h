// inspect_average.h - inspections of several texts, number by number: means over texts, standard deviations. Stage: inspect.
//
// What has a place that all texts share is averaged: a query head, a lane, a layer, a pair of heads, a policy under a budget.
// What belongs to a text's own tokens (positions, scores) is not.
// Memory:  that of three inspections without tokens, however many texts there are.
// Threads: one at a time.
// Paper:   SCORE, Figures 3, 5, 11 to 13 (means over a data set); LaProx, Figures 1 and 6.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "inspect/inspect.h"
#include "statistics/moments.h"

namespace pith {

// `mean` and `deviation` (standard, over n - 1; 0 with one text) have the same shape. In both: tokens, scores and next_token
// are empty, InspectCase::kept is empty and kept_mean has the lanes' numbers, same_choice is false (TextsRow has its share).
struct InspectAverage {
    int n_texts = 0;
    double n_tokens = 0, n_tokens_deviation = 0;
    Inspection mean;
    Inspection deviation;
    // How many texts each is over: those whose budget could hold the policy (both policies). A case that none could hold has
    // `refused` set in `mean` and `deviation`.
    std::vector<int> n_of_case;
    std::vector<int> n_of_pair;
};

class InspectAverager {
public:
    // REQUIRES: all inspections are of one model, with the same policies and budgets in the same order.
    void add(const Inspection & one);
    // REQUIRES: one text or more.
    InspectAverage result() const;

private:
    using PairKey = std::tuple<std::string, std::string, std::string>;  // first, second, budget

    Inspection shape_;  // of the first text: what is filled with numbers
    Moments lengths_;
    Moments full_;  // of the full cache: heads, layers, distances
    std::vector<Moments> cases_;
    std::vector<InspectCase> case_shapes_;  // of the first text that held it
    std::vector<PairKey> pair_keys_;
    std::vector<Moments> pairs_;
};

}  // namespace pith
