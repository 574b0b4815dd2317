// cpu_attention.h - attention over a ragged cache on the CPU: what to do (task), how it is cut (plan), one thread's share
// (attend_part). Stage: attention. Raw pointers only: no ggml.
//
//   q    f32 [n_queries][n_group][head_dim] by strides     queries of the lane's group of query heads, after RoPE
//   k    rows of head_dim in k_format, k_stride bytes apart, entries ascending by position; v likewise
//   out  f32 [n_queries][n_group][head_dim_v] by strides   softmax(scale q K) V; 0 for a query that sees no entry
//
// A row is one query of one query head. Few rows (decode): each key and value is read once for all of them. Many rows
// (prefill): tiles of rows x entries with an online softmax; nothing of size rows x entries is stored. A unit of work is
// (lane, tile of rows, span of entries), so one long lane fills all threads; spans of the same rows leave partial results
// (maximum, sum, weighted values), and the thread that finishes the last of them merges. The cut of a lane depends on its own
// length alone, neither on the number of threads nor on other sequences' lanes in the same task, nor does the result. Few rows
// of several lanes that share a span's entries (a prompt that sequences have in common) are computed together, if that leaves
// work enough for all threads: each key and value is read once for all of them, with the same result.
//
// Cost:    O(rows · entries seen · head_dim). Memory is kept from call to call: nothing is allocated unless the work grew.
// Threads: plan.make() alone; then attend_part(plan, scratch, ith, n_threads) on any number of threads at once, each with its
// own ith.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "attention/cpu/cpu_columns.h"
#include "attention/cpu/hidden_keys.h"

namespace pith {

// Row formats, laid out as ggml's types of the same names.
enum class KvFormat : uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0 };

struct LaneView {
    const void * k = nullptr;  // row of entry 0
    const void * v = nullptr;
    int length = 0;
    const int32_t * positions = nullptr;  // [length] ascending; nullptr: the queries are the newest entries
    const float * q = nullptr;            // first query, first head of the group
    float * out = nullptr;
    float * log_sum = nullptr;                  // [n_queries][n_group] log of the sum of exp(scores), or nullptr
    const int32_t * query_positions = nullptr;  // [n_queries] ascending; used with positions and with hidden
    const float * sinks = nullptr;              // [n_group] scores of keys that every query sees, of value 0; nullptr: none
    const HiddenLane * hidden = nullptr;        // entries that later queries do not see; nullptr: none
    uint64_t base = 0;                          // lanes with the same number begin with the same entries; 0: none does
    int n_shared = 0;                           // so many of them, wherever k and v point
};

struct AttentionTask {
    KvFormat k_format = KvFormat::kF16;
    KvFormat v_format = KvFormat::kF16;
    int head_dim = 0;  // multiples of 16 (of 32 where a format has blocks): see can_attend()
    int head_dim_v = 0;
    int n_group = 1;       // query heads per lane
    int n_queries = 1;     // per query head
    float scale = 1.0F;    // of products of queries and keys
    float softcap = 0.0F;  // a score s becomes softcap · tanh(s / softcap); 0: it stays
    size_t k_stride = 0;   // bytes between entries
    size_t v_stride = 0;
    size_t q_query_stride = 0;  // floats between queries, between heads
    size_t q_head_stride = 0;
    size_t out_query_stride = 0;
    size_t out_head_stride = 0;
    std::vector<LaneView> lanes;
    int n_peers = 0;                       // lanes that a sequence has in a layer; 0: those of the task
    std::vector<HiddenLane> hidden_lanes;  // what lanes point to, where a gate hides entries
    bool hides = false;                    // some lane has `hidden`
    ColumnTask columns;                    // beside the output, or alone: with head_dim_v = 0 there are no values and no output

    int n_rows() const { return n_group * n_queries; }
};

// head_dim_v 0: columns alone.
bool can_attend(KvFormat k_format, KvFormat v_format, int head_dim, int head_dim_v);

// Rows [row, row + n_rows) of a lane over entries [begin, end). Where columns are added up over many rows: queries
// [row, row + n_rows) of n_heads heads from `head` on.
struct AttentionUnit {
    int lane = 0;
    int row = 0;
    int n_rows = 0;
    int begin = 0;
    int end = 0;
    int tile = -1;       // index of the shared tile; -1: the only span of its rows
    size_t partial = 0;  // floats from the start of the partial results
    int head = 0;
    int n_heads = 0;
    int span = 0;        // of a strand: entries after which its rows start anew, to be merged as those of other tasks are
    size_t numbers = 0;  // doubles from the start of the numbers, 2 a head: see cpu_columns.cpp
};

// A lane whose first spans are those of others, too.
struct SharingLane {
    uint64_t base = 0;
    int span = 0;
    int n_spans = 0;
    int lane = 0;
    bool shares_with(const SharingLane & other) const {
        return base == other.base && span == other.span && n_spans == other.n_spans;
    }
};

// Spans of the same rows, or strands of the same heads, merged by whoever finishes last.
struct SharedTile {
    int first_unit = 0;
    int n_units = 0;
};

struct FreeAligned {
    void operator()(float * p) const;
};

// Memory that only grows, for vectors.
class AlignedFloats {
public:
    float * reserve(size_t n);  // drops what it held when it must grow; nullptr: no memory
    float * data() const { return data_.get(); }
    size_t size_bytes() const { return size_ * sizeof(float); }

private:
    std::unique_ptr<float[], FreeAligned> data_;
    size_t size_ = 0;
};

inline constexpr int kMaxAttentionThreads = 512;

// Working memory of the threads, for one plan after another. REQUIRES: reserve() for every plan before it runs.
class AttentionScratch {
public:
    void reserve(const class AttentionPlan & plan);
    size_t size_bytes() const { return partial_.size_bytes() + of_threads_bytes_.load(std::memory_order_relaxed); }

private:
    friend void attend_part(class AttentionPlan & plan, AttentionScratch & scratch, int ith, int n_threads);
    float * of_thread(int ith, size_t n);  // nullptr: no memory
    AlignedFloats partial_;
    std::array<AlignedFloats, kMaxAttentionThreads> of_thread_;  // each grown by its thread
    std::atomic<size_t> of_threads_bytes_{0};
};

// Fill in the task, make() it, run it; then change the task (or not) and make() it again. Not movable.
class AttentionPlan {
public:
    AttentionTask task;
    const std::atomic<bool> * cancel = nullptr;  // once set, units that are left are left undone

    // REQUIRES: can_attend(); what the lanes point to lives until the last attend_part returns.
    void make();
    std::span<const AttentionUnit> units() const { return units_; }
    // Fewer than units where some are computed together.
    int n_jobs() const { return static_cast<int>(jobs_.size()) - 1; }
    // Whether all of it was done: a thread without memory does nothing, nor does any once it is cancelled. Once all have
    // returned.
    bool finished() const { return n_done_.load(std::memory_order_relaxed) == static_cast<int>(units_.size()); }

private:
    friend class AttentionScratch;
    friend void attend_part(AttentionPlan & plan, AttentionScratch & scratch, int ith, int n_threads);
    int run_length(int next, int n_threads) const;
    int span_of_rows(const LaneView & lane) const;
    void make_spans();
    void make_strands();
    void make_jobs();
    void add_shared_jobs(int most_lanes);
    std::span<const int> job(int i) const {
        const auto begin = static_cast<size_t>(jobs_[static_cast<size_t>(i)]);
        return std::span(order_).subspan(begin, static_cast<size_t>(jobs_[static_cast<size_t>(i) + 1]) - begin);
    }
    void merge(const SharedTile & tile, float * partial) const;

    std::vector<AttentionUnit> units_;
    std::vector<SharedTile> tiles_;
    std::vector<int> spans_;        // [lane] of rows
    std::vector<int> first_units_;  // [lane] of few rows: its first span
    std::vector<int> order_;        // units as they are computed
    std::vector<int> jobs_;         // [job] where it begins in them; then where the last ends
    std::vector<SharingLane> sharing_;
    std::unique_ptr<std::atomic<int>[]> unfinished_;  // [tile] units left
    size_t n_unfinished_ = 0;
    std::atomic<int> next_{0};  // job
    std::atomic<int> n_done_{0};
    size_t n_partial_ = 0;  // floats
    std::vector<double> numbers_;
    int longest_ = 0;        // entries that a unit sees
    int shortest_span_ = 0;  // of the strands
};

// n_threads: those that take part. Where few do, each takes several units in a row while many are left, and reads on from one
// into the next. It may be more than really come: the result is the same.
// REQUIRES: 0 <= ith < kMaxAttentionThreads.
void attend_part(AttentionPlan & plan, AttentionScratch & scratch, int ith, int n_threads = kMaxAttentionThreads);

// The instruction set that kernels run with.
const char * cpu_attention_target();
// Whether the kernel is worth using with it: not with SSE2 alone, whose prefill reached 0.63 of ggml's rate.
bool cpu_attention_pays();
// Whether many rows over such entries are multiplied as 16-bit whole numbers (cpu_word_products-inl.h).
bool cpu_attention_multiplies_words(KvFormat k_format, KvFormat v_format, int head_dim);
// The instruction sets that this processor and this build share, best first, and a way to choose one (tests, benches).
std::vector<const char *> cpu_attention_targets();
// false: there is no such target here. nullptr: the best again. Not while a kernel runs.
bool use_cpu_attention_target(const char * name);

}  // namespace pith
