// inspect_texts.h - inspections of several texts in one table: means, their intervals, and how much lanes vary. Stage: inspect.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/interval.h"
#include "inspect/inspect.h"

namespace pith {

// One policy under one budget, over all texts. Means are over texts of the text's own means (CaseMeans).
struct TextsRow {
    std::string policy;
    std::string budget;
    int n_texts = 0;    // that the policy could hold
    double cosine = 0;  // of the layers' attention outputs
    Interval cosine_interval;
    double relative_perturbation = 0;
    Interval perturbation_interval;
    double hidden_error = 0;
    double mass = 0;
    double sigma_share = 0;  // heads with σ > ½
    double same_choice = 0;  // texts in which the likeliest next token stays
    // Over lanes, the mean of the standard deviation over texts of the entries kept (LaProx, Figure 6); 0 with one text.
    double kept_deviation = 0;
    // Heads whose perturbation, a mean over the texts, is below that under the base: the same policy without CriticalKV's
    // second stage, else what stands before the first '+', else snapkv. Empty base: it is not among the policies.
    std::string base;
    double heads_below_base = 0;
};

// Leaves of an inspection what summarise_texts reads, and of the entries kept their number: of many texts the rest is much.
void keep_for_summary(Inspection & one);

// REQUIRES: all inspections have the same policies and budgets in the same order. Deterministic.
std::vector<TextsRow> summarise_texts(std::span<const Inspection> inspections);

}  // namespace pith
