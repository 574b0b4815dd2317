// bucket_observe.h - what queries pay to lanes in a device's memory, lanes with the same room at a time, of one sequence or of
// several. Stage: attention → evidence.
//
// Lanes that follow each other in the same tensor (cache/lane_pool.h) lie in dimension 3 of one product, under a mask each, as
// attention has them (bucket_attention.h): the number of operations does not grow with lanes or sequences, only with what
// their probabilities take. Sequences whose lanes share a start (cache/bucket_lanes.h) ask the same keys: lanes of a bucket
// then lie in dimension 2 of the product, the sequences in dimension 3.
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
        LanePieces pieces;

        int64_t n_cells() const { return n_visible == 0 ? 0 : pieces.cell(n_visible - 1) + 1; }
    };
    // A room of the layer, and the lanes there: of several sequences where they share it.
    struct Room {
        std::vector<Lane> lanes;
        const ggml_tensor * memory;
        int64_t room;
        int64_t cell;
    };
    // How an observation's queries see the entries: those of a lane in one piece, under lines; those of a start and an end,
    // under two lines; or the border between these lies among the newest entries, and each row is sent.
    enum class Mask { kLines, kTwoLines, kRows };
    // Lanes and queries of one product.
    struct Piece {
        std::vector<Lane> lanes;
        int64_t n_keys = 0;  // lanes that each of several sequences sees; the lanes of one lie side by side
        int64_t room = 0;
        int64_t first_cell = 0;
        Mask mask = Mask::kLines;
        int n = 0;                                                 // queries
        bool newest = false;                                       // the last query is among them
        std::vector<float> sums, squares, head_squares, last_row;  // [lane][group][room], of squares [lane][room]
    };
    static bool follows(const Room & one, const Room & next);
    void cut(std::span<const Room> rooms);
    void add_piece(std::span<const Lane> lanes, size_t n_keys, const Room & first, int first_query, int n);
    static Mask mask_of(const Lane & lane, int n);
    ggml_tensor * queries(GraphBuild & build, const Piece & piece) const;
    ggml_tensor * mask(GraphBuild & build, const Piece & piece) const;
    ggml_tensor * probabilities(GraphBuild & build, const Piece & piece) const;

    int layer_;
    const RaggedCache * cache_ = nullptr;  // whichever: all are of the same layout
    std::vector<Piece> pieces_;
};

}  // namespace pith
