// evidence.h - what attention revealed about the entries of one layer. Stage: evidence → score.
// Pure C++: no ggml, no I/O.
//
// Heads: query head g of n_heads = n_kv_heads · n_group belongs to KV head g / n_group.
// Rows called [H] have one row per query head, as long as the lane of its KV head; rows called [K] one per KV head.
// A[g,i,j] is the softmax attention probability of query i over all entries it may see, f32, of products scaled as the model
// has it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/ragged.h"
#include "core/shape.h"
#include "pith/status.h"

namespace pith {

// How two query heads' attention patterns are compared (SCORE). The mean over all pairs of sampled queries collapses to one
// inner product of the heads' profiles for the first three; the last two need the sampled rows themselves.
enum class HeadDistance { kCosine, kPearson, kBhattacharyya, kJensenShannon, kEuclidean };

// Which positions' queries are sampled for the profiles.
enum class QuerySample {
    kMiddle,     // any seen so far but the first and the last `margin`
    kAny,        // any seen so far
    kTopWindow,  // those of highest window attention among the tokens since the last eviction, per layer
};

// Head profiles: attention rows of sampled queries, normalised and averaged per query head. The sample is a function of the
// seed and of what has been seen (the n smallest hashes), shared by all layers and heads, and the same in every schedule.
inline constexpr int kDefaultProfileQueries = 200;

// Tokens at the first positions draw attention whatever they say, and their keys lie far from all others: they stand outside of
// blocks and of the sums behind leverages, and count as 1 in both.
inline constexpr int kFirstTokens = 8;
// Blocks end at multiples of it.
inline constexpr int kBlockTokens = 256;

struct ProfileNeeds {
    int n_queries = 0;  // 0: none
    int margin = 32;    // the window, where the policy has one
    uint64_t seed = 1;
    QuerySample sample = QuerySample::kMiddle;
    HeadDistance distance = HeadDistance::kCosine;

    bool any() const { return n_queries > 0; }
    bool wants_rows() const { return distance == HeadDistance::kJensenShannon || distance == HeadDistance::kEuclidean; }
    bool operator==(const ProfileNeeds &) const = default;
};

// What a part asks for; only this is computed.
struct EvidenceNeeds {
    int window = 0;            // observed queries: the last `window` ones (0: none)
    bool window_mean = false;  // mean over the window of A
    bool window_max = false;   // max over the window of A
    // With window_max: each query's row is first averaged over so many neighbours before the window, and scaled to the sum that
    // it had; 0: as it is. What a state keeps does not depend on it.
    int window_max_pool = 0;
    bool window_sq = false;       // sum over the window of (group mean of A)²
    bool window_head_sq = false;  // sum over the window of A², per query head
    bool window_pairs = false;    // sum over the window of A of one query head times A of another of its group
    bool window_entropy = false;  // -Σ A log A over the window and the entries before it, per query head
    // For scorers of one's own (pith/custom_scorer.h): the arrays themselves, in host memory. They are made when they are asked
    // for, and nothing more is kept for them than for the other needs of a window.
    bool window_rows = false;     // A of each query of the window
    bool window_queries = false;  // these queries, after RoPE
    bool key_rows = false;        // keys as they lie in the lanes, after RoPE
    bool value_rows = false;      // values
    bool last_query = false;      // A of the last query
    bool running_sum = false;     // column sums of A over all queries so far, carried through compaction
    int running_last = 0;         // with running_sum: only the last so many queries (0: all)
    bool key_norm = false;        // |k|₂ before RoPE, carried through compaction
    bool key_cosine = false;      // cos(k_j, mean over the lane of k/|k|₂), after RoPE
    bool key_leverage = false;    // statistical leverage among the lane's keys before RoPE, sketched
    // column sums of attention within blocks of tokens, in which every query sees every key; carried through compaction
    bool block_attention = false;
    int expected_future = 0;    // exponent of the attention expected from the next so many queries (0: none)
    bool value_l1 = false;      // |v|₁
    bool value_l2 = false;      // |v|₂
    bool output_l1 = false;     // |v·W_O|₁ per query head: costs a product with W_O
    bool output_l2 = false;     // |v·W_O|₂ per query head: by a head_dim × head_dim factor
    bool output_pairs = false;  // products of v·W_O of two query heads of a group: a product with a factor of the group's W_O
    bool retention = false;     // what the model's gate says of the entry: its retention probability
    bool reread_max = false;    // max over the queries of the text's repetition of A, carried through compaction
    ProfileNeeds profile;
    bool values = false;         // LayerEvidence::values is set
    bool output_errors = false;  // with values: their output_errors() answers

    bool any() const { return !(*this == EvidenceNeeds{}); }
    bool any_window() const {
        return window_mean || window_max || window_sq || window_head_sq || window_pairs || window_entropy || window_rows ||
               window_queries;
    }
    bool any_attention() const { return any_window() || last_query || running_sum || profile.any() || block_attention; }
    // The union: what two parts need together. Of two different profiles what is not the default wins, of two different numbers
    // of queries then the larger.
    EvidenceNeeds merged(const EvidenceNeeds & other) const;
    // Without the arrays for scorers of one's own, of which nothing is kept.
    EvidenceNeeds without_rows() const;
    bool operator==(const EvidenceNeeds &) const = default;
};

// The values of one layer's lanes, where they lie: refiners and selectors that need more than norms ask here. The lanes must
// not have been compacted since the evidence was gathered.
class ValueSource {
public:
    virtual ~ValueSource() = default;

    // For rows per query head [H] or per KV head [K]: X_r = Σ_j weights[r][j]·v_j, and out[r][j] = |v_j - X_r|₂, in f32 without
    // the cancellation of |v|² - 2vX + |X|². Overwrites `out`. Cost: O(rows · lane length · d) on the back end.
    virtual Status distances_to_mean(const Ragged<float> & weights, Ragged<float> & out) const = 0;

    // For rows per query head [H]: X_g = Σ_j weights[g][j]·v_j, and for every KV head h
    //   out[h][j] = |Σ_{g in group(h)} odds[g][j]·(v_j - X_g)·W_O^g|₂
    // which is how far the layer's output goes. Overwrites `out` [K].   Errors: kMissingEvidence where W_O is not at hand.
    // Cost: O(lane length · (G·d)²) per KV head on the back end.
    virtual Status output_errors(const Ragged<float> & weights, const Ragged<float> & odds, Ragged<float> & out) const = 0;

    // The values of one lane, f32 [length][head_dim_v]. Overwrites `out`.
    virtual Status lane_values(int kv_head, std::vector<float> & out) const = 0;
    virtual int head_dim_v() const = 0;
};

// Query heads g and other of one group as a row of evidence per pair: 0 … n_head_pairs - 1, either way round.
constexpr int n_head_pairs(int n_group) {
    return n_group * (n_group + 1) / 2;
}
constexpr int head_pair(int g, int other, int n_group) {
    const int low = g < other ? g : other;
    const int high = g < other ? other : g;
    return low * n_group - low * (low - 1) / 2 + (high - low);
}

struct LayerEvidence {
    int layer = 0;
    int n_kv_heads = 0;
    int n_group = 0;
    int64_t n_seen = 0;  // tokens seen so far; the newest entry's position is n_seen - 1
    int n_window = 0;    // queries really observed: min(needs.window, tokens there are)

    Ragged<int32_t> positions;           // [K] original positions, ascending: also the lanes' lengths
    Ragged<float> window_mean;           // [H]
    Ragged<float> window_max;            // [H]
    Ragged<float> window_sq;             // [K]
    Ragged<float> window_head_sq;        // [H]
    Ragged<float> window_pairs;          // [K · n_head_pairs]: Σ over the window of A[g]·A[other]
    std::vector<double> window_entropy;  // [H]
    Ragged<float> window_rows;           // [H · n_window], head-major: a lane's are [n_group][n_window][length] side by side
    std::vector<float> window_queries;   // [n_window][H][head_dim]
    Ragged<float> key_rows;              // [K]: [length][head_dim] of a lane
    Ragged<float> value_rows;            // [K]: [length][head_dim_v]
    int head_dim = 0;                    // of keys and queries; with one of the four above
    int head_dim_v = 0;
    Ragged<float> last_query;    // [H]
    Ragged<float> running_sum;   // [H]
    Ragged<float> key_norm;      // [K]
    Ragged<float> key_cosine;    // [K]
    Ragged<float> key_leverage;  // [K] in [0, 1]
    // [H] Σ over the queries i of j's block of softmax over the block's keys of q_i·k_j, not scaled: 1 on average.
    Ragged<float> block_attention;
    // [H] s·k·μ + s²·k·Σ·k/2, s the model's scale of products, for queries of mean μ and covariance Σ at the next positions:
    // the expected attention's exponent, before any softmax.
    Ragged<float> expected;
    Ragged<float> value_l1;      // [K]
    Ragged<float> value_l2;      // [K]
    Ragged<float> output_l1;     // [H]
    Ragged<float> output_l2;     // [H]
    Ragged<float> output_pairs;  // [K · n_head_pairs]: ⟨v·W_O^g, v·W_O^other⟩
    // [H] the most that a query of the text, read again behind itself, pays to the entry.
    Ragged<float> reread_max;
    Ragged<float> retention;  // [K] in [0, 1]; 1 for entries that no gate was asked about: decoded ones, layers without a gate

    // [H] ū_g: mean over the sampled queries of the unit attention row (cosine), of the centred unit row (Pearson), of the
    // square root (Bhattacharyya; the square root of a distribution is a unit row). Queries before an entry count as 0.
    Ragged<float> profile;
    int n_sampled = 0;           // queries really sampled
    Ragged<float> sampled_rows;  // [H · n_sampled], head-major: the rows themselves, for the distances that need them

    std::shared_ptr<const ValueSource> values;

    int length(int kv_head) const { return positions.length(kv_head); }
    // Positions below are older than every observed query.
    int64_t window_begin() const { return n_seen - n_window; }
};

}  // namespace pith
