// chunks.cpp - stretches of text are kept whole or not at all, as far as the share allows. Stage: select.
// Pure C++: no ggml, no I/O.
//
// Chunk c is what the lane holds of positions c·length … (c+1)·length - 1, protected entries left out. Chunks are taken by the
// mean score of their entries, of equals the newer; the last one in part, its best entries first. A value of many tokens whose
// scores differ is then kept or lost as one. A smaller share takes the first entries of the same order, so cutting the tail
// later leaves what it would have chosen.
// Cost:    O(candidates · log candidates) per lane.
// Paper:   ChunkKV: Semantic-Preserving KV Cache Compression for Efficient Long-Context LLM Inference.
// Differs: each lane by itself (the paper: scores added over the heads of a layer, one choice for all of them); the share is
//          filled with a part of a chunk; chunks lie on a grid of positions, so that they stay the same in every schedule.
#include <algorithm>
#include <vector>

#include "policy/select/ranked_lane.h"
#include "policy/select/selector.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    integer_option("length", "20", 1, 1 << 20, "positions of a chunk"),
};

class Chunks final : public Selector {
public:
    explicit Chunks(const Options & options) : length_(static_cast<int32_t>(options.integer("length"))) {}

    Status select(const LayerView & layer, std::span<const int> shares, const RunTasks & run,
                  LayerChoice & choice) const override {
        const auto choose = [&](int h, LaneChoice & lane) {
            std::vector<int32_t> ranked = ranking(layer, h);
            ranked.resize(static_cast<size_t>(shares[static_cast<size_t>(h)]));
            lane = ranked_lane(layer.protected_ranges.row(h), ranked);
        };
        return choose_by_lane(layer.n_lanes(), run, choose, choice);
    }

private:
    struct Chunk {
        int32_t number = 0;
        double mean = 0;
        std::vector<int32_t> entries;
    };

    // All candidates, chunk by chunk, those to be kept first in front.
    std::vector<int32_t> ranking(const LayerView & layer, int h) const {
        const auto positions = layer.positions.row(h);
        const auto scores = layer.scores.row(h);
        const auto score = [&](int32_t j) { return scores[static_cast<size_t>(j)]; };
        std::vector<Chunk> chunks;
        for_each_candidate_run(static_cast<int>(scores.size()), layer.protected_ranges.row(h), [&](int begin, int end) {
            for (int j = begin; j < end; ++j) {
                const int32_t number = positions[static_cast<size_t>(j)] / length_;
                if (chunks.empty() || chunks.back().number != number) { chunks.push_back({.number = number}); }
                chunks.back().entries.push_back(j);
            }
        });
        for (Chunk & chunk : chunks) {
            for (const int32_t j : chunk.entries) { chunk.mean += score(j); }
            chunk.mean /= static_cast<double>(chunk.entries.size());
            std::ranges::sort(chunk.entries,
                              [&](int32_t a, int32_t b) { return score(a) != score(b) ? score(a) > score(b) : a > b; });
        }
        std::ranges::sort(
            chunks, [](const Chunk & a, const Chunk & b) { return a.mean != b.mean ? a.mean > b.mean : a.number > b.number; });
        std::vector<int32_t> ranked;
        for (const Chunk & chunk : chunks) { ranked.insert(ranked.end(), chunk.entries.begin(), chunk.entries.end()); }
        return ranked;
    }

    int32_t length_;
};

}  // namespace

SelectorInfo chunks_selector() {
    return {"chunks",
            "stretches of text whole or not at all, by their mean score",
            "chunks of positions by the mean score of their entries, the last one in part",
            "ChunkKV: Semantic-Preserving KV Cache Compression for Efficient Long-Context LLM Inference",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Selector> { return std::make_shared<Chunks>(options); }};
}

}  // namespace pith
