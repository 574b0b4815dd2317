// caote_error.h - what evicting one entry does to the attention output: what CAOTE's forms share. Stage: refine.
// Pure C++: no ggml, no I/O.
//
// space=output measures it where the query heads of a group meet: the norm of Σ_g a_{g,j}/(1-a_{g,j}) · (v_j - X_g)·W_O^g, how
// far the layer's output moves, in place of the heads' errors side by side.
//
// With scores a normalised to 1 over the lane and X = Σ a_i·v_i, evicting j and renormalising moves X by
// a_j/(1-a_j) · |v_j - X|₂ (CAOTE, Theorem A.2).
#pragma once

#include <string>
#include <string_view>

#include "policy/lane/eviction_weights.h"
#include "policy/part/options.h"
#include "policy/refine/refiner.h"

namespace pith {

// The options that CAOTE and FastCAOTE have.
inline constexpr OptionSpec kCaoteErrorOptions[] = {
    word_option("group", "exact", "exact|mean",
                "exact: the error of all query heads of the group together; mean: of their mean score"),
    word_option("space", "head", "head|output",
                "where the error is measured: in the heads' outputs, or behind W_O, in the layer's (beyond the paper)"),
    word_option(
        "squared", "false", "false|true",
        "true: the norm squared, as the paper's (7); warning: the score of an entry that is nearly all then falls to 0"),
};

// squared=true with space=output has no meaning: the paper's (7) squares each head's distance.
std::string check_caote_options(const Options & options);

// c_j = a_j/(1-a_j) · |v_j - X|₂ per row of scores, joined over the group as sqrt(Σ_g c_{g,j}²); finite: an entry that is all
// of its row has the largest float. Rows: the query heads' own (group=exact, and the scorer has them), or the KV heads'. Cost:
// O(rows · lane length · head_dim) in ValueSource, O(rows · lane length) here.
class CaoteErrorRefiner : public Refiner {
public:
    CaoteErrorRefiner(std::string_view name, const Options & options)
        : name_(name),
          exact_(options.is("group", "exact")),
          in_output_(options.is("space", "output")),
          squared_(options.is("squared", "true")) {}

    EvidenceNeeds needs() const override { return {.values = true, .output_errors = in_output_}; }
    bool wants_head_scores() const override { return exact_; }
    Status refine(const LayerEvidence & evidence, const Ragged<float> * head_scores, std::span<const int64_t> net_budgets,
                  Ragged<float> & scores) const override;

protected:
    // What to average the values with: a row per row of `weights` (normalised), or one per KV head for all rows of its group.
    virtual Ragged<float> mean_weights(const LayerEvidence & evidence, Ragged<float> weights) const = 0;

private:
    std::string_view name_;
    bool exact_;
    bool in_output_;
    bool squared_;
};

}  // namespace pith
