// bucket_observe.h - what queries pay to lanes in a device's memory, lanes with the same room at a time, of one sequence or of
// several. Stage: attention → evidence.
//
// Lanes that follow each other in the same tensor (cache/lane_pool.h) lie in dimension 3 of one product, under a mask each, as
// attention has them (bucket_attention.h): the number of operations does not grow with lanes or sequences, only with what
// their probabilities take.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "evidence/observe.h"

namespace pith {

// One graph's share of what some tasks want to know of a layer.
class BucketObservation {
public:
    // Whether a task may be one of them: its lanes lie in buckets, each of its queries sees an entry more of every lane than
    // the one before, and sums over the queries are all it wants, or the last one's.
    static bool serves(const ObserveTask & task, int layer);

    // REQUIRES: serves() of each; they live as long as this.
    BucketObservation(std::span<const ObserveTask * const> tasks, int layer);

    size_t n_nodes() const;
    void add(GraphBuild & build);
    void accumulate();  // into what the tasks want, once the graph has run

private:
    struct Lane {
        const ObserveTask * task = nullptr;
        int kv_head = 0;
        int first_query = 0;  // of the piece's
        int n_visible = 0;    // entries that the newest of the piece's queries sees
    };
    // Lanes and queries of one product.
    struct Piece {
        std::vector<Lane> lanes;
        int64_t room = 0;
        int64_t first_cell = 0;
        int n = 0;                                                 // queries
        bool newest = false;                                       // the last query is among them
        std::vector<float> sums, squares, head_squares, last_row;  // [lane][group][room], of squares [lane][room]
    };
    void cut(std::span<const Lane> lanes, int64_t room, int64_t first_cell);
    ggml_tensor * queries(GraphBuild & build, const Piece & piece) const;
    ggml_tensor * mask(GraphBuild & build, const Piece & piece) const;
    ggml_tensor * probabilities(GraphBuild & build, const Piece & piece) const;

    int layer_;
    const RaggedCache * cache_ = nullptr;  // whichever: all are of the same layout
    std::vector<Piece> pieces_;
};

}  // namespace pith
