// plan_there.cpp - a layer's graph on the device beside the scores of the layer before.
#include "engine/evict/plan_there.h"

#include <algorithm>
#include <future>
#include <list>
#include <memory>
#include <system_error>
#include <utility>

#include "core/guarded.h"
#include "core/stopwatch.h"
#include "core/tasks.h"
#include "device/cpu_threads.h"
#include "engine/evict/evict.h"
#include "engine/evict/observers.h"
#include "evidence/observe.h"

namespace pith {
namespace {

// One sequence's eviction.
struct Due {
    LiveSession & session;
    EvidenceNeeds needs;
    EvictionPass pass;
    Status status;
    std::vector<LayerEvidence> seen;  // and not scored yet
    std::vector<LayerPlan> plans;
};

EvidenceNeeds needs_of(const LiveSession & session) {
    return needs_in_sight(session.seq.policy, session.observers);
}

// What all of them want to know of a layer's newest queries.
class LayerObservation {
public:
    LayerObservation(std::list<Due> & all, int layer) : layer_(layer), of_each_(all.size()) {
        auto of = of_each_.begin();
        for (const Due & due : all) {
            const Sequence & seq = due.session.seq;
            OfOne & one = *of++;
            ObserveTask task{.cache = seq.cache.get(), .out = &one.observed};
            if (!due.status.ok() || !is_observed_there(*seq.cache, layer) ||
                !seq.evidence.newest_queries(layer, due.needs, one.queries, task.positions, task.wants)) {
                continue;
            }
            task.queries = one.queries.data();
            tasks_.push_back(task);
            one.asked = true;
        }
    }
    ~LayerObservation() { wait(); }
    LayerObservation(const LayerObservation &) = delete;
    LayerObservation & operator=(const LayerObservation &) = delete;

    // On another thread, where that may be: beside what this one does. What the device does not run alone is left undone then,
    // since this machine's threads, which would compute the rest, are scoring.
    void start(GraphRunner & runner, bool beside) {
        const auto run = [this, &runner, beside]() noexcept {
            runner.set_whole_only(beside);
            const Status status = guarded([&] { return observe_together(runner, layer_, tasks_); });
            runner.set_whole_only(false);
            seen_ = status.ok();
            was_refused_ = beside && status.code() == ErrorCode::kUnsupported;
        };
        if (tasks_.empty()) { return; }
        if (!beside) { return run(); }
        try {
            thread_ = std::async(std::launch::async, run);
        } catch (const std::system_error &) { run(); }
    }
    void wait() {
        if (thread_.valid()) { thread_.get(); }
    }
    // Once it has run beside other work: the device does not run all of it.
    bool was_refused() const { return was_refused_; }
    // Null: it is yet to be observed, and fails by itself where it did together.
    Observed * seen(size_t i) { return seen_ && of_each_[i].asked ? &of_each_[i].observed : nullptr; }

private:
    struct OfOne {
        std::vector<float> queries;
        Observed observed;
        bool asked = false;
    };
    int layer_;
    std::vector<OfOne> of_each_;
    std::vector<ObserveTask> tasks_;
    bool seen_ = false;
    bool was_refused_ = false;
    std::future<void> thread_;
};

// Several share the threads; one alone gives them its layers. What reads lanes as it scores has the runner to itself.
bool side_by_side(std::span<LiveSession * const> sessions) {
    return sessions.size() > 1 &&
           std::ranges::none_of(sessions, [](const LiveSession * session) { return needs_of(*session).values; });
}

// Calls work(due) for each, on the threads where all may be side by side. What they leave undone has their status.
template <class Work>
void each(std::list<Due> & all, bool beside, Work work) {
    const Stopwatch watch;
    std::vector<Due *> of;
    std::vector<char> done(all.size(), 0);
    for (Due & due : all) { of.push_back(&due); }
    const auto one = [&](int i) {
        Due & due = *of[static_cast<size_t>(i)];
        if (due.status.ok()) {
            due.status = guarded([&] { return work(due); });
        }
        done[static_cast<size_t>(i)] = 1;
    };
    const auto n = static_cast<int>(of.size());
    const Status status = beside ? tasks_on(all.front().session.forward->observer())(n, one) : run_in_turn(n, one);
    for (size_t i = 0; i < of.size(); ++i) {
        if (done[i] == 0) { of[i]->status = status; }
        of[i]->session.ledger.plan_s += watch.seconds() / n;
    }
}

void score(std::list<Due> & all, bool beside) {
    each(all, beside, [](Due & due) {
        Status status = due.pass.add_layers(due.seen);
        due.seen.clear();
        return status;
    });
}

void score_layers(std::list<Due> & all, bool beside) {
    const LiveSession & first = all.front().session;
    GraphRunner & runner = first.forward->observer_there();
    std::unique_ptr<LayerObservation> now;
    bool may_be_beside = true;
    size_t bytes = 0;
    for (size_t i = 0; i < first.governed.size(); ++i) {
        const int layer = first.governed[i];
        if (!now) {
            now = std::make_unique<LayerObservation>(all, layer);
            now->start(runner, /*beside=*/false);
        }
        const Stopwatch waiting;
        now->wait();
        if (now->was_refused()) {  // this machine's threads are to compute a part of it, and of the others
            may_be_beside = false;
            now->start(runner, /*beside=*/false);
        }
        const double each_s = waiting.seconds() / static_cast<double>(all.size());
        std::unique_ptr<LayerObservation> next;
        const bool more = i + 1 < first.governed.size();
        if (more && may_be_beside) {
            next = std::make_unique<LayerObservation>(all, first.governed[i + 1]);
            next->start(runner, /*beside=*/true);
        }
        size_t of = 0;
        for (Due & due : all) {
            due.session.ledger.evidence_s += each_s;
            Observed * const seen = now->seen(of++);
            if (!due.status.ok()) { continue; }
            due.status = guarded([&]() -> Status {
                PITH_ASSIGN_OR_RETURN(LayerEvidence evidence, gather_evidence(due.session, layer, seen));
                bytes += bytes_of(evidence);
                due.seen.push_back(std::move(evidence));
                return {};
            });
        }
        if (bytes >= kScoredTogetherBytes || !more) {
            score(all, beside);
            bytes = 0;
        }
        now = std::move(next);
    }
}

}  // namespace

bool observes_there(const LiveSession & session) {
    return session.layout.any_on_device() && (needs_of(session).any_window() || needs_of(session).last_query);
}

std::vector<Result<std::vector<LayerPlan>>> plan_there(std::span<LiveSession * const> sessions) {
    std::list<Due> all;
    const bool beside = side_by_side(sessions);
    for (LiveSession * session : sessions) {
        EvictionTarget target = eviction_target(*session);
        if (beside) { target.run_tasks = run_in_turn; }  // on one of the threads itself
        EvictionPass pass(session->seq.policy, std::move(target), /*cascade=*/false, /*n_to_come=*/0);
        all.push_back({*session, needs_of(*session), std::move(pass), {}, {}, {}});
    }
    score_layers(all, beside);
    each(all, beside, [](Due & due) -> Status {
        PITH_ASSIGN_OR_RETURN(std::vector<LayerPlan> made, due.pass.finish());
        due.plans = due.session.of_model(std::move(made));
        return {};
    });
    std::vector<Result<std::vector<LayerPlan>>> plans;
    for (Due & due : all) {
        plans.push_back(due.status.ok() ? Result<std::vector<LayerPlan>>(std::move(due.plans))
                                        : Result<std::vector<LayerPlan>>(due.status));
    }
    return plans;
}

void plan_together(std::span<LiveSession * const> sessions) noexcept {
    static_cast<void>(guarded([&]() -> Status {
        auto plans = plan_there(sessions);
        for (size_t i = 0; i < sessions.size(); ++i) {
            if (!plans[i].ok()) { continue; }
            LiveSession & session = *sessions[i];
            session.planned.emplace(PlannedEviction{std::move(*plans[i]), state_of(session)});
        }
        return {};
    }));
}

}  // namespace pith
