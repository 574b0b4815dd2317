// retrieval.cpp - the heads that retrieve keep all, the others the first and the newest entries. Stage: allocate.
// Pure C++: no ggml, no I/O.
//
// base = min(net length, sinks + recent - what is protected anyway) for every lane; lanes in the order of their importance, of
// equals the lower one, are full: they may keep everything.
//   sparsity=auto  as many are full as can be while every other lane has its base
//   sparsity=x     (1 - x) of all lanes, rounded; where the budget cannot hold them they share it evenly above their bases
// What is left goes to the other lanes evenly. A budget below the sum of the bases is divided in proportion to them.
// The budget is hard: in decode, as full lanes grow, every eviction counts anew how many of them the budget still holds.
// The allocator says how many entries a streaming lane keeps; the scorer (streaming) says that they are the first and the
// newest.
// REQUIRES: head importances (pith calibrate heads).
// Paper:   DuoAttention: Efficient Long-Context LLM Inference with Retrieval and Streaming Heads.
// Differs: heads are ranked by retrieval probes, not by a trained gate; the share of full lanes follows the budget unless
//          given; per KV head.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "policy/allocate/allocator.h"
#include "policy/allocate/lane_importance.h"
#include "policy/allocate/shares.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    integer_option("sinks", "64", 0, 1 << 24, "first entries that a streaming head has room for"),
    integer_option("recent", "256", 0, 1 << 24, "newest entries that a streaming head has room for"),
    OptionSpec{"sparsity", "auto", OptionType::kReal, 0, 1, "auto",
               "fraction of the heads that stream; auto: as few as the budget allows"},
    kImportanceOption,
};

class Retrieval final : public Allocator {
public:
    explicit Retrieval(const Options & options)
        : n_streaming_(options.integer("sinks") + options.integer("recent")),
          auto_(options.is("sparsity", "auto")),
          sparsity_(options.real("sparsity")),
          kind_(parse_importance(options)) {}

    bool wants_importance() const override { return true; }
    int64_t n_alike() const override { return n_streaming_; }

    void expect(const NetBudget & budget, std::span<double> weights) const override {
        const size_t n_lanes = weights.size();
        std::vector<int> rooms(n_lanes);  // above the base
        int64_t left = budget.total;
        for (size_t lane = 0; lane < n_lanes; ++lane) {
            const int64_t wanted = std::max<int64_t>(n_streaming_ - budget.n_protected[lane], 0);
            const int base = static_cast<int>(std::min<int64_t>(wanted, budget.net_lengths[lane]));
            weights[lane] = base;
            rooms[lane] = budget.net_lengths[lane] - base;
            left -= base;
        }
        if (left <= 0) {
            return;  // in proportion to the bases
        }
        const std::vector<double> full = choose_full(lane_importance(budget, kind_), rooms, left);
        const int64_t room = std::accumulate(rooms.begin(), rooms.end(), int64_t{0});
        const std::vector<double> above = divide_real(full, rooms, std::min(left, room));
        for (size_t lane = 0; lane < n_lanes; ++lane) { weights[lane] += above[lane]; }
    }
    Status weigh(const LayerView & /*layer*/, const NetBudget & /*budget*/, AllocatorState * /*state*/,
                 std::span<double> /*weights*/) const override {
        return {};  // as expected: the heads were measured beforehand
    }

private:
    // 1 for lanes that may keep everything, 0 for the others.
    std::vector<double> choose_full(const std::vector<double> & importance, const std::vector<int> & rooms,
                                    int64_t left) const {
        std::vector<size_t> order(rooms.size());
        std::iota(order.begin(), order.end(), size_t{0});
        std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return importance[a] > importance[b]; });
        auto n_full = static_cast<size_t>(std::llround((1 - sparsity_) * static_cast<double>(order.size())));
        if (auto_) {
            n_full = 0;
            while (n_full < order.size() && rooms[order[n_full]] <= left) { left -= rooms[order[n_full++]]; }
        }
        std::vector<double> full(rooms.size(), 0.0);
        for (size_t i = 0; i < n_full; ++i) { full[order[i]] = 1; }
        return full;
    }

    int64_t n_streaming_;
    bool auto_;
    double sparsity_;
    ImportanceKind kind_;
};

}  // namespace

AllocatorInfo retrieval_allocator() {
    return {"retrieval",
            "retrieval heads keep all, the others sinks and the newest entries (needs pith calibrate heads)",
            "important lanes keep everything, the others `sinks` + `recent` and an even part of the rest",
            "DuoAttention: Efficient Long-Context LLM Inference with Retrieval and Streaming Heads",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Allocator> { return std::make_shared<Retrieval>(options); }};
}

}  // namespace pith
