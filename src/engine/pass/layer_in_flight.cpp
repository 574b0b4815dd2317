// layer_in_flight.cpp - the graph on another thread, the scores on this one.
#include "engine/pass/layer_in_flight.h"

#include <future>
#include <latch>
#include <system_error>
#include <utility>

#include "core/guarded.h"
#include "engine/pass/forward.h"

namespace pith {
namespace {

// As long as it lives, what a Forward computes on this machine's threads waits for the latch.
class WaitsFor {
public:
    WaitsFor(Forward & forward, std::latch & scored) : forward_(forward) {
        forward.set_before_here([&scored] { scored.wait(); });
    }
    ~WaitsFor() { forward_.set_before_here({}); }
    WaitsFor(const WaitsFor &) = delete;
    WaitsFor & operator=(const WaitsFor &) = delete;

private:
    Forward & forward_;
};

}  // namespace

Status LayerInFlight::score(const Score & score) {
    const std::optional<LayerEvidence> seen = std::exchange(seen_, std::nullopt);
    return guarded([&] { return score(*seen); });
}

Status LayerInFlight::score_beside(Forward & forward, const Score & score, const Graph & graph) {
    std::latch scored(1);
    const WaitsFor waits(forward, scored);
    std::future<Status> beside;
    try {
        beside = std::async(std::launch::async, [&graph] { return guarded(graph); });
    } catch (const std::system_error &) {}  // there is no thread for it
    Status status = this->score(score);
    scored.count_down();
    if (!beside.valid()) { return status.ok() ? guarded(graph) : status; }
    const Status of_graph = beside.get();
    return status.ok() ? of_graph : status;
}

}  // namespace pith
