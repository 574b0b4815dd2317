// evidence_state.h - evidence that outlives a graph: the newest queries, sampled ones, running column sums, moments. Stage:
// attention → evidence.
//
// It is carried along with the lanes: it grows when they grow, is compacted by the same plans, and cut back with them. So are
// the norms |v·W_O|₁, which cost a product with W_O and do not change while an entry lives: a gathering computes those of the
// entries that came since the last one.
// Made for one or several policies' needs: it remembers what any of them will ask for, and gathers for one of them at a time,
// with that one's own window.
// Copyable (a snapshot holds a copy; all of a model share what is made of W_O). Copies share what goes with queries and
// entries, so that one costs a few words for each head, and what is changed afterwards: calls that are transactions copy the
// state. Threads: one at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "attention/cpu/lane_batch.h"
#include "cache/ragged_cache.h"
#include "core/copy_on_write.h"
#include "device/graph_runner.h"
#include "evidence/kept_queries.h"
#include "evidence/output_matrices.h"
#include "evidence/query_moments.h"
#include "evidence/query_sample.h"
#include "evidence/shared_row.h"
#include "policy/evidence/evidence.h"

namespace pith {

class ByteReader;
class ByteWriter;
struct ObserveWants;
struct Observed;

class EvidenceState {
public:
    EvidenceState() = default;
    // output: of the model; needed for `expected` and for all that is behind W_O (`output_…`).
    EvidenceState(const CacheShape & shape, const EvidenceNeeds & needs, std::shared_ptr<OutputMatrices> output = nullptr);
    EvidenceState(const CacheShape & shape, std::vector<EvidenceNeeds> needs, std::shared_ptr<OutputMatrices> output = nullptr);

    const EvidenceNeeds & needs() const { return merged_; }
    const std::vector<EvidenceNeeds> & made_for() const { return needs_; }  // each of these
    // Whether gather() can serve these needs.
    bool covers(const EvidenceNeeds & needs) const;
    // remember() must see all
    bool wants_queries() const { return n_kept_queries_ > 0 || keeps_all_ || !samplers_.empty() || wants_blocks(); }
    bool wants_running() const { return wants_running_; }          // add_running() too
    bool wants_moments() const { return wants_moments_; }          // add_moments() too
    bool wants_retention() const { return merged_.retention; }     // add_retention() too
    bool wants_key_norms() const { return merged_.key_norm; }      // add_key_norms() too
    bool wants_reread() const { return merged_.reread_max; }       // add_reread() too
    bool wants_blocks() const { return merged_.block_attention; }  // add_blocks() too
    int n_kept_queries() const { return n_kept_queries_; }
    // Of n new queries, how many of the newest remember() must see.
    int n_remembered(int n, int n_to_come = 0) const {
        return samplers_.empty() && !wants_blocks() ? n_newest(n, n_to_come) : n;
    }

    // Forgets everything seen, not what it was made for.
    void reset();

    // queries f32 [n][H][d], positions first_position, first_position + 1, …
    // n_to_come: more that the layer sees before anything is gathered: what they push out need not be copied at all.
    void remember(int layer, const float * queries, int n, int32_t first_position, int n_to_come = 0);

    // The column sums of a query head, for an attention that adds to them itself: as long as its lane is now. Every one that
    // is asked for must be added to, before anything else is asked of the state.
    SharedRow::Addition add_to_running(int layer, int head, int length);
    // Memory for that, of all heads of a layer whose lanes hold the new entries already.
    void prepare_running(const RaggedCache & cache, int seq, int layer);
    // Adds what these queries, the newest n of the lanes, pay to all entries of the layer. hidden: see observe.h.
    Status add_running(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, const float * queries, int n,
                       int32_t first_position, const HiddenKeys * hidden = nullptr);

    // What the gate says of the newest entries of the lanes: probabilities [n][K]. Entries that nothing was said of count as 1.
    void add_retention(const RaggedCache & cache, int seq, int layer, std::span<const float> probabilities);

    // What the entries from position `begin` on got at most when they were read again: maxima [H][of them].
    // REQUIRES: all older ones have been told of theirs.
    void add_reread(const RaggedCache & cache, int seq, int layer, int32_t begin, const Ragged<float> & maxima);

    void forget_reread();  // as if none had been told
    // Entries of a lane that were told of it, from the oldest on.
    size_t n_reread(int layer) const { return layers_[static_cast<size_t>(layer)].reread.front().size(); }

    // Attention within blocks (block_attention.h) of these queries, the newest n of the lanes: of every block that is full
    // then. The last one's queries are kept until it is, or somebody asks.
    Status add_blocks(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, const float * queries, int n,
                      int32_t first_position);
    // The same of one token: its query is kept, nothing is computed. REQUIRES: close_blocks() since the last one.
    void add_to_block(int layer, const float * query, int32_t position);
    // Computes what a block that is full by now paid. What can be asked for stays the same.
    Status close_blocks(GraphRunner & runner, const RaggedCache & cache, int seq);

    // The norms of the newest entries' keys before RoPE: [n][K]. The lanes hold these entries already.
    void add_key_norms(const RaggedCache & cache, int seq, int layer, std::span<const float> norms);

    // It, with the queries that it keeps of each layer as `turn` gives them back: queries [n][H][d].
    using TurnQueries = std::function<Status(int layer, std::span<float> queries, int n)>;
    Result<EvidenceState> with_queries(const TurnQueries & turn) const;

    // Adds what build_query_moments() read of a run of queries.
    void add_moments(int layer, const QueryMoments & moments) {
        merge(moments, shape_.head_dim, layers_[static_cast<size_t>(layer)].moments);
    }

    // All that `needs` asks for, of the lanes as they stand; REQUIRES: covers(needs).
    // LayerEvidence::values refers to the runner and the cache.
    // Errors: kMissingEvidence when the state was not made for it, or nothing has been seen yet.
    // seen: what newest_queries() wants was observed already, and is taken from here; null: it is observed.
    Result<LayerEvidence> gather(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, int64_t n_seen,
                                 const EvidenceNeeds & needs, Observed * seen = nullptr) const;
    // The queries [n][H][d] that gather() would observe the layer's lanes by, and what it wants of them. false: by none, or
    // it fails.
    bool newest_queries(int layer, const EvidenceNeeds & needs, std::vector<float> & queries,
                        std::span<const int32_t> & positions, ObserveWants & wants) const;

    // keep: [K]. evicts: by a policy's plan, after which the queries before it are no longer asked for.
    // Only prepare_compact() needs memory: it comes first, and changes nothing that can be asked for.
    void prepare_compact(int layer, const Ragged<int32_t> & keep);
    void compact(int layer, const Ragged<int32_t> & keep, bool evicts = true) noexcept;

    // Entries come between those of the lanes: [K] which of the then longer lanes, ascending. What was known of them went when
    // they did: what is carried along with entries they get on average, what is computed of them is computed anew.
    void put_between(int layer, const Ragged<int32_t> & entries);
    // What was computed of a layer's first entries, |v·W_O|₁, as it was when they were as they are again.
    void set_output_norms(int layer, const CopyOnWrite<std::vector<std::vector<float>>> & norms) noexcept {
        layers_[static_cast<size_t>(layer)].output_l1 = norms;
    }

    // Memory for one more token in every layer, so that what is told of it afterwards cannot fail. The lanes are without it.
    void prepare_token(const RaggedCache & cache, int seq);
    // The running sums, which are added to while an attention runs, to come back to: [L · H]. Nothing is copied; the next
    // token's go beside them. Saved before prepare_token().
    void save_running(std::vector<SharedRow> & to) const;
    void restore_running(std::span<const SharedRow> from) noexcept;
    size_t size_bytes() const;

    // What is kept of one layer.
    struct Layer {
        KeptQueries queries;                 // [kept] of [H][d]
        std::vector<QuerySampler> samplers;  // as samplers_
        std::vector<SharedRow> running;      // [H][lane length]
        std::vector<SharedRow> retention;    // [K][lane length, or less: 1 from there on]
        std::vector<SharedRow> key_norms;    // [K][lane length]
        std::vector<SharedRow> reread;       // [H][entries of the lane that were read again: all but its newest]
        KeptQueries block;                   // of the block that is not full
        std::vector<SharedRow> block_sums;   // [H][entries of the lane before that block]
        KeptMoments moments;
        // [H][as many entries of the lane as were asked about]
        mutable CopyOnWrite<std::vector<std::vector<float>>> output_l1;
    };
    // One layer's part, and back to it, for lanes that are cut back to what they held then: lengths [K]. What has been computed
    // since of the entries that stay is kept.
    const Layer & layer(int index) const { return layers_[static_cast<size_t>(index)]; }
    void restore(int index, Layer before, std::span<const int> lengths);
    void restore(EvidenceState before, std::span<const int> lengths);  // all layers: lengths [L][K]

    // From now on made for these needs too, as far as queries serve them that are still to come: the last ones. false: they ask
    // for what should have been kept of all that was seen, and it was not; nothing has changed then.
    bool widen(const EvidenceNeeds & needs);

    // From now on made for less: queries that only the old needs asked for are forgotten.
    // REQUIRES: the needs ask for nothing that the old ones did not.
    void narrow(std::vector<EvidenceNeeds> needs);

    // All of it as bytes (evidence_file.cpp), and back: output as when it was made; known: what it may have been made for.
    // lengths [L][K]: of the lanes; n_seen [L]: tokens that were remembered; both are 0 where nothing is. Errors: kBadFile:
    // these bytes are no evidence of such lanes after so many tokens; says why.
    void write(ByteWriter & to) const;
    static Result<EvidenceState> read(ByteReader & from, const CacheShape & shape, std::span<const EvidenceNeeds> known,
                                      std::shared_ptr<OutputMatrices> output, std::span<const int> lengths,
                                      std::span<const int64_t> n_seen);
    // The same of bytes that this one wrote, before it was reset().
    Result<EvidenceState> read_again(ByteReader & from, std::span<const int> lengths, std::span<const int64_t> n_seen) const {
        return read(from, shape_, needs_, output_, lengths, n_seen);
    }

private:
    Status read_layer(ByteReader & from, int layer, std::span<const int> lengths, int64_t n_seen);
    struct From {  // what one gather reads
        GraphRunner & runner;
        const RaggedCache & cache;
        int seq;
        int layer;
        int64_t n_seen;
        Observed * seen;
    };
    int n_to_observe(int layer, const EvidenceNeeds & needs) const;

    size_t query_size() const { return static_cast<size_t>(shape_.n_heads()) * static_cast<size_t>(shape_.head_dim); }
    // How many of n new queries will be among the newest, once n_to_come more have been seen.
    int n_newest(int n, int n_to_come) const { return keeps_all_ ? n : std::clamp(n_kept_queries_ - n_to_come, 0, n); }
    void sample(Layer & layer, const float * queries, int n, int32_t first_position, int n_to_come) const;
    Status observe_newest(const From & from, int n, const ObserveWants & wants, Observed & out) const;
    Status gather_attention(const From & from, const EvidenceNeeds & needs, LayerEvidence & evidence) const;
    Status gather_pooled_max(const From & from, int n, int width, LayerEvidence & evidence) const;
    Status gather_profile(const From & from, const EvidenceNeeds & needs, LayerEvidence & evidence) const;
    Status choose_queries(const From & from, const EvidenceNeeds & needs, std::vector<float> & queries,
                          std::vector<int32_t> & positions) const;
    Status choose_by_window(const From & from, const EvidenceNeeds & needs, std::vector<float> & queries,
                            std::vector<int32_t> & positions) const;
    Status gather_key_norms(const From & from, LayerEvidence & evidence) const;
    Status gather_reread(const From & from, LayerEvidence & evidence) const;
    Status gather_blocks(const From & from, LayerEvidence & evidence) const;
    Status gather_leverage(const From & from, LayerEvidence & evidence) const;
    Status close_block(GraphRunner & runner, const RaggedCache & cache, int seq, int layer);
    Status gather_expected(const From & from, const EvidenceNeeds & needs, LayerEvidence & evidence) const;
    Status gather_values(const From & from, const EvidenceNeeds & needs, LayerEvidence & evidence) const;
    Status gather_output_l1(const From & from, Ragged<float> & out) const;

    CacheShape shape_;
    std::vector<EvidenceNeeds> needs_;
    EvidenceNeeds merged_;
    std::shared_ptr<OutputMatrices> output_;  // null: none was given
    int n_kept_queries_ = 0;
    bool keeps_all_ = false;  // every query since the last eviction
    bool wants_running_ = false;
    bool wants_moments_ = false;
    std::vector<ProfileNeeds> samplers_;
    std::vector<Layer> layers_;
    // Of the last gathers: of layers that do not rotate, and of those that do, which all do it alike.
    mutable std::array<MeanRotation, 2> rotations_;
};

// The running sums of a sequence, as an attention that adds to them itself asks for them. Both must live as long as the result.
// n_behind: entries at the lanes' ends that it does not see.
inline auto running_sums(const RaggedCache & cache, EvidenceState & state, int seq, int n_behind = 0) {
    return [&cache, &state, seq, n_behind](int layer, int head) {
        const int length = cache.length(cache.lane(seq, layer, head / cache.layout().shape.n_group)) - n_behind;
        const SharedRow::Addition sums = state.add_to_running(layer, head, length);
        return ColumnSum{sums.before, sums.n_before, sums.to};
    };
}

}  // namespace pith
