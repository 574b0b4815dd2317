// inspect.h - what policies keep of one text, and what that changes at the first decoded token. Stage: inspect.
//
// One prefill over the full cache; then for each policy and budget its eviction, as a one-shot prefill makes it, and the same
// next token fed to both caches. All differences are those of that token, errors of the layers below included. n_later: the
// prompt's last tokens, its question, are read behind the eviction, and seen by no policy (context-only).
//   perturbation   |(o_g - ô_g)·W_O^g|₁ of a head's attention output o (CriticalKV, section 3), ô over what is left
//   cosine         between a layer's attention outputs after the output projection (LaProx, Figure 4)
//   hidden error   |h - ĥ|₂ / |h|₂ of the hidden state after a layer
//   mass           share of the prompt's last query's attention that the kept entries have
//   σ              the same for the entries that the head itself pays most to, half as many as its lane keeps: the most that
//                  CriticalKV's first stage could gather at α = 0.5 (assumption 3.4 wants it above ½)
//   Spearman       rank correlation of two policies' refined scores: mean over the layer's lanes, without entries that either
//                  protects (CAOTE, Table 7);  overlap: |A ∩ B| / |A ∪ B| of the kept entries of a layer (Jaccard)
//   Of a model with windows or recurrent layers all this is of the layers that policies govern; the others run, too. Outputs
//   are taken before what an architecture does behind W_O's input: a gate (Qwen 3.5), a norm of W_O's output (Gemma). D, IR,
//   TD, HD  SCORE's distances between attention heads: head_profiles.h. By jsd and l2 every pair of 64 sampled
//                  queries is compared (of 200 otherwise), and the heads' rows are looked at again for every pair of layers
//   perplexity     of the text with the full cache: exp of the mean negative log-likelihood of its tokens but the first
// Threads: one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/ragged.h"
#include "core/shape.h"
#include "pith/budget.h"
#include "pith/head_importance.h"
#include "pith/model.h"
#include "statistics/spread.h"

namespace pith {

struct InspectOptions {
    std::vector<PolicyChoice> policies;  // that evict
    std::vector<Budget> budgets;
    // f32, so that differences are the policy's and not the rounding of f16 attention.
    KvType type_k = KvType::kF32;
    KvType type_v = KvType::kF32;
    bool rotate_kv = true;
    int n_threads = 0;
    int chunk = kDefaultChunk;
    std::shared_ptr<const HeadImportance> heads;  // as SessionOptions
    std::string heads_file;
    std::string distance_by = "cos";                        // D, IR, TD, HD: cos, pearson, bc, jsd or l2, as `novelty` has them
    int n_later = 0;                                        // below the prompt's length
    bool keep_scores = false;                               // Inspection::scores: two numbers for each policy, lane and token
    std::function<void(int n_done, int n_total)> progress;  // cases
    const std::atomic<bool> * cancel = nullptr;
};

// Of the full cache, after the prompt.
struct HeadSummary {
    double entropy = 0;    // of the last query's attention, nats
    double strongest = 0;  // its largest entry
    double sinks = 0;      // its mass on the first 4 positions
    double recent = 0;     // its mass on the last 32
};
struct LayerSummary {
    // LaProx, Figure 1: mean and largest over heads and entries of the window-mean attention A, and of |v·W_O|₂.
    double attention_mean = 0, attention_max = 0;
    double output_mean = 0, output_max = 0;
    double attention_output_rank = 0;   // Spearman of A and |v·W_O|₂, mean over heads
    double within = 0;                  // SCORE's IR
    double temporal = 0;                // SCORE's TD
    std::vector<double> head_distance;  // SCORE's HD [K]
};

struct HeadFidelity {
    double mass = 0;
    double sigma = 0;
    double perturbation = 0;           // L1, after W_O
    double relative_perturbation = 0;  // the same over |o_g·W_O^g|₁
    double output_error = 0;           // |o_g - ô_g|₁, before W_O
};
struct LayerFidelity {
    double cosine = 0;
    double hidden_error = 0;
};

// One policy under one budget.
struct InspectCase {
    std::string policy;
    std::string budget;  // as given
    int64_t budget_entries = 0;
    std::string refused;                // why the policy cannot hold this budget; nothing below is then set
    std::vector<Ragged<int32_t>> kept;  // [layer] of [K]: positions
    // Of several texts (inspect_average.h, inspect_texts.h), instead of `kept`: entries of each lane [layer · K].
    std::vector<double> kept_mean;
    std::vector<HeadFidelity> heads;  // [layer · H]
    std::vector<LayerFidelity> layers;
    double logit_error = 0;    // |z - ẑ|₂ / |z|₂ of the token's logits
    bool same_choice = false;  // the likeliest next token is the same
};

// One policy's scores of the full cache: the same under every budget. What it protects is kept whatever its score.
struct InspectScores {
    std::string policy;
    bool has_refiner = false;
    std::vector<Ragged<float>> base;     // [layer] of [K], an entry for each token: the scorer's; higher = keep
    std::vector<Ragged<float>> refined;  // the same after the refiner: what is ranked
};

// Two policies under one budget that both can hold.
struct InspectPair {
    std::string first, second;
    std::string budget;
    std::vector<double> spearman;  // [layer]
    std::vector<double> jaccard;   // [layer]
};

struct Inspection {
    CacheShape shape;                // of the layers below; their number is that of the layers that policies govern
    std::vector<int> layer_numbers;  // [layer]: which of the model's layers it is, ascending
    int n_model_layers = 0;
    KvType type_k = KvType::kF32, type_v = KvType::kF32;
    std::vector<int32_t> tokens;     // the prompt, without what is read later
    int64_t n_tokens = 0;            // of them
    double perplexity = 0;           // of the prompt, with the full cache; 0 for a single token
    int32_t next_token = 0;          // the one that was fed: the full cache's choice
    std::vector<HeadSummary> heads;  // [layer · H]
    std::vector<LayerSummary> layers;
    std::string distance_by;            // InspectOptions::distance_by
    std::vector<double> distance;       // [layer · H][layer · H]: D
    std::vector<InspectCase> cases;     // budget by budget, policies in the order given
    std::vector<InspectPair> pairs;     // budget by budget
    std::vector<InspectScores> scores;  // in the order of the policies; empty unless InspectOptions::keep_scores

    const InspectCase * find(const std::string & policy, const std::string & budget) const;
    int number_of(int layer) const { return layer_numbers[static_cast<size_t>(layer)]; }
};

// Errors: kInvalidArgument (nothing to inspect, nothing in front of n_later, a policy that evicts nothing), those of sessions
// and policies.
Result<Inspection> inspect(const Model & model, std::span<const int32_t> tokens, const InspectOptions & options);

// Entries that each lane keeps [layer · K]: counted in `kept`, or kept_mean where there are no positions.
std::vector<double> kept_of_lanes(const InspectCase & one);

// What a table shows of a case.
struct CaseMeans {
    double kept = 0;  // entries a lane; shortest and longest lane
    int64_t shortest = 0, longest = 0;
    double mass = 0, sigma_share = 0;       // mean over heads; share of heads with σ > ½
    double cosine = 0, lowest_cosine = 0;   // over layers
    double perturbation = 0, relative = 0;  // mean over heads
    double hidden_error = 0;                // after the last layer
};
// REQUIRES: not refused.
CaseMeans means_of(const InspectCase & one);

// How a case's measures vary.
struct CaseSpreads {
    Spread kept;                                 // over lanes
    Spread mass, sigma, perturbation, relative;  // over heads of all layers
    Spread cosine;                               // over layers
};
// REQUIRES: not refused.
CaseSpreads spreads_of(const InspectCase & one);

}  // namespace pith
