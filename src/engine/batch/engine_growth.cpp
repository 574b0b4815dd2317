// engine_growth.cpp - answers that have come to the end of what they reserved for. Stage: engine.
//
// A request reserves for its prompt and the next tokens of its answer, not for all that it may say: most answers are short, and
// what is reserved for nothing drops states that others would have gone on from. An answer that goes on takes more room,
// in this order: what is free; idle states in memory; kept requests that nobody reads; answers of lower priority, and among
// equals those that came later. Where all that is too little it goes aside itself. Who is set aside comes back once there is
// room for the whole of its answer, and is not set aside for equals again: each gives way once, so that all come to their end.
#include <algorithm>
#include <utility>

#include "engine/batch/engine_impl.h"

namespace pith {
namespace {

// Who has a better right to room stands first.
bool comes_before(const EngineJob * a, const EngineJob * b) {
    return std::pair(-int64_t{a->request().priority}, a->id()) < std::pair(-int64_t{b->request().priority}, b->id());
}

}  // namespace

// It has more room, or is set aside; else nothing has changed but what gave way to it.
Status Engine::Impl::find_room_to_go_on(EngineJob & job) {
    std::vector<EngineJob *> later;
    for (EngineJob * other : running()) {
        const bool gives_way = other->request().priority < job.request().priority || !other->reserves_all();
        if (other != &job && gives_way && other->can_go_aside() && comes_before(&job, other)) { later.push_back(other); }
    }
    if (!has_memory(job)) { set_idle_aside(job, later); }
    std::ranges::sort(later, comes_before);
    std::ranges::reverse(later);
    size_t n = 0;
    while (n < later.size() && !has_memory(job, std::span(later).first(n))) { ++n; }
    const bool is_enough = has_memory(job, std::span(later).first(n));
    for (size_t i = 0; is_enough && i < n; ++i) {
        changed = true;
        if (!later[i]->set_aside(folder()).ok()) { break; }
    }
    if (has_memory(job)) {
        make_space(reserved_bytes() - job.reserved_bytes() + wanted_bytes(job));
        job.take_more_room();
        return {};
    }
    changed = true;
    return job.set_aside(folder());
}

// Who could neither take room nor go aside, since disk or memory are full, waits until others have ended. Where nobody else
// can run, the last of them ends, and the others have its room.
void Engine::Impl::let_answers_go_on() {
    std::vector<EngineJob *> asking = running();
    const auto drop_who_has_room = [&asking] {
        return std::erase_if(asking, [](const EngineJob * job) { return !job->lacks_room(); });
    };
    drop_who_has_room();
    if (asking.empty()) { return; }
    std::ranges::sort(asking, comes_before);
    Status last;
    do {
        for (EngineJob * job : asking) {
            if (!job->lacks_room()) { continue; }  // set aside for one before it
            if (Status found = find_room_to_go_on(*job); !found.ok()) { last = std::move(found); }
        }
    } while (drop_who_has_room() > 0 && !asking.empty() && who_may_run().empty());
    if (!asking.empty() && who_may_run().empty()) { asking.back()->fail(last); }
    if (store) { store->shared().trim(); }
}

std::vector<EngineJob *> Engine::Impl::who_may_run() const {
    std::vector<EngineJob *> found = running();
    std::erase_if(found, [](const EngineJob * job) { return job->lacks_room(); });
    return found;
}

}  // namespace pith
