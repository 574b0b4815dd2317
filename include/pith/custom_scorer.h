// custom_scorer.h - a scorer of one's own: a function that says how much each cached entry matters, and its name, which is a
// policy from then on ("my-scorer", "my-scorer+ada"), or the scorer of one.
//
//   pith::CustomScorer own{.name = "my-vatp", .needs = {.window = 32, .window_mean = true, .value_l1 = true}};
//   own.score = [](const pith::ScorerLayer & layer, std::span<float> scores) -> pith::Status { … };
//   pith::Status status = pith::register_scorer(std::move(own));
//   auto session = model->session({.policy = "my-vatp+ada", .budget = 1024});
//
// A name says nothing of the function in another process. So an engine keeps no states of such sequences for other prompts
// (EngineOptions::cache_dir, cache_memory_bytes); and whoever opens a saved session registers the same scorer before, and
// answers for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "pith/status.h"

namespace pith {

// What a scorer reads of ScorerLayer; only this is computed.
struct ScorerNeeds {
    int window = 0;                 // queries observed: the last so many. REQUIRES: 1 or more with any of the next four
    bool window_mean = false;       // costs one small product, H · window · length · d
    bool window_max = false;        //
    bool window_attention = false;  // 4 · H · window · length bytes
    bool window_queries = false;    //
    bool last_query = false;        // of attention
    bool running_sum = false;       // carried along while tokens are read
    bool keys = false;              // 4 · K · length · d bytes
    bool values = false;            // the same
    bool key_norm = false;          //
    bool value_l1 = false;          //
    bool value_l2 = false;          //
    bool output_l2 = false;         // by a head_dim × head_dim factor of W_O
};

// The evidence of one layer. Lanes (KV heads) are ragged: lane h holds the entries begin[h] … begin[h + 1] - 1 of all
// n_entries, ascending by position; what is [n_entries] has one number for each, lane behind lane. G = n_group query heads
// share a KV head: query head q belongs to lane q / G. Rows of query heads lie lane by lane, too: with L the length of lane h,
// its part of a [G][L] array begins at G · begin[h], of a [G][n_window][L] array at G · n_window · begin[h]. A[i,j] is the
// softmax attention that query i pays to entry j, after all scaling; of a row of zeros the query sees nothing of the lane.
// Valid during the call. What was not asked for is empty.
struct ScorerLayer {
    int layer = 0;  // 0, 1, … of the layers that policies govern (Session::is_governed())
    int n_kv_heads = 0;
    int n_group = 0;
    int head_dim = 0;                // of keys and queries, where one of the big arrays was asked for
    int head_dim_v = 0;              // of values
    int n_window = 0;                // queries really observed, oldest first; more than asked for where questions are in sight
    int64_t n_seen = 0;              // tokens seen so far
    std::span<const int64_t> begin;  // [n_kv_heads + 1]
    std::span<const int32_t> positions;         // [n_entries] in the text
    std::span<const float> window_mean;         // [G][L] of each lane: mean over the window of A
    std::span<const float> window_max;          // [G][L]: the most that one of the window pays
    std::span<const float> window_attention;    // [G][n_window][L]: A
    std::span<const float> window_queries;      // [n_window][n_kv_heads · G][head_dim], after RoPE
    std::span<const float> last_query;          // [G][L]: A of the newest query; of questions in sight their mean
    std::span<const float> running_sum;         // [G][L]: Σ A over all queries so far
    std::span<const float> keys;                // [n_entries][head_dim], after RoPE (and after a context shift, turned)
    std::span<const float> values;              // [n_entries][head_dim_v]
    std::span<const float> key_norm;            // [n_entries]: |k|₂ before RoPE
    std::span<const float> value_l1, value_l2;  // [n_entries]: |v|₁, |v|₂
    std::span<const float> output_l2;           // [G][L]: |v·W_O|₂ behind each query head's slice of W_O

    size_t n_entries() const { return positions.size(); }
    size_t length(int kv_head) const {
        const auto h = static_cast<size_t>(kv_head);
        return static_cast<size_t>(begin[h + 1] - begin[h]);
    }
    // Lane h's part of an array whose lanes have so many numbers for each entry: 1 of [n_entries], n_group of [G][L],
    // n_group · n_window of [G][n_window][L], head_dim of keys.
    template <class T>
    std::span<T> lane(std::span<T> all, int kv_head, size_t n_each = 1) const {
        return all.subspan(static_cast<size_t>(begin[static_cast<size_t>(kv_head)]) * n_each, length(kv_head) * n_each);
    }
};

// scores [n_entries]: higher = keep; per KV head, so heads of queries are reduced in here. They come as NaN: an entry that gets
// no finite number ends the eviction (kNotFinite, naming scorer, layer, head and position). An error, or an exception, ends the
// call it came in with a line that names the scorer; the session is then as before the call.
// Must not feed, evict or open a session of such a scorer. Same evidence, same scores: else sessions do not repeat themselves.
using ScoreLayer = std::function<Status(const ScorerLayer & layer, std::span<float> scores)>;

struct CustomScorer {
    std::string name;  // a letter, then letters, digits, '-', '_' and '.'; at most 64
    std::string help;  // one line, for list_policies(); may be empty
    ScorerNeeds needs;
    int n_sinks = 0;    // positions below are protected
    int n_recent = -1;  // newest entries of each lane that are protected; -1: as many as the window, without one 32
    ScoreLayer score;
};

// From now on `name` is a scorer of all policies. Scores are asked for one call at a time, on whatever thread evicts.
// Errors: kInvalidArgument: a name that is malformed, or that a policy, a part of one or another such scorer has; needs that no
// window serves; no function.   Threads: any.
Status register_scorer(CustomScorer scorer);

// Ends that. Errors: kNotFound; kInvalidArgument while it is in use: by sessions, requests of engines (until they are
// forgotten), snapshots, and PolicyChoices and options of these.   Threads: any.
Status unregister_scorer(std::string_view name);

}  // namespace pith
