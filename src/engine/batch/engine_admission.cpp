// engine_admission.cpp - who has room, who makes it, and who begins. Stage: engine.
#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "core/stopwatch.h"
#include "core/text.h"
#include "engine/batch/engine_impl.h"

namespace pith {

bool Engine::Impl::anybody_runs() const {
    return std::ranges::any_of(jobs, [](const auto & one) { return one.second->running(); });
}

size_t Engine::Impl::reserved_bytes() const {
    size_t bytes = store ? store->shared().bytes_in_use() : 0;
    for (const auto & [id, job] : jobs) { bytes += job->running() || job->kept() ? job->reserved_bytes() : 0; }
    return bytes;
}

// Whether it may run beside those that run, and under the ceiling. without: of these, some that are imagined gone.
bool Engine::Impl::has_room(const EngineJob & job, std::span<EngineJob * const> without) const {
    return has_slot(job, without) && has_memory(job, without);
}

bool Engine::Impl::has_slot(const EngineJob & job, std::span<EngineJob * const> without) const {
    return has_place(without) && !waits_for_layers(job);
}

bool Engine::Impl::has_place(std::span<EngineJob * const> without) const {
    const auto n_running = std::ranges::count_if(jobs, [](const auto & one) { return one.second->running(); });
    return options.max_sequences == 0 || n_running + claims.n < options.max_sequences + std::ssize(without);
}

// As many prompts are read layer by layer as may be at a time, and it would be one more.
bool Engine::Impl::waits_for_layers(const EngineJob & job) const {
    if (job.state() != RequestState::kWaiting || !job.reads_layers()) { return false; }
    const auto n_layered = std::ranges::count_if(
        jobs, [](const auto & one) { return one.second->state() == RequestState::kReading && one.second->reads_layers(); });
    return n_layered >= kMaxLayered;
}

// Files that keys and values lie in which others go on from: those there are, but for idle states, which go when others want
// theirs; and those of requests that will be kept.
size_t Engine::Impl::files_in_use(std::span<EngineJob * const> without) const {
    size_t n = PageFile::n_open() - std::min(PageFile::n_open(), store ? store->shared().n_idle() : 0);
    for (const auto & [id, other] : jobs) {
        const bool counts = std::ranges::find(without, other.get()) == without.end();
        n += counts && other->running() && other->request().keep ? 1 : 0;
        if (!counts && other->kept() && !other->is_aside() && n > 0) { --n; }
    }
    return n;
}

size_t Engine::Impl::wanted_files(const EngineJob & job) const {
    const EngineJob * base = job.state() == RequestState::kWaiting ? base_of(job) : nullptr;
    return (job.request().keep ? 1U : 0U) + (base != nullptr && base->is_aside() ? 1U : 0U);
}

bool Engine::Impl::has_files(const EngineJob & job, std::span<EngineJob * const> without) const {
    const size_t wanted = wanted_files(job);
    return wanted == 0 || files_in_use(without) + claims.n_files + wanted <= most_files.n_files;
}

// Idle states go, the least recently used first, until there may be so many files more; none, where there may not.
bool Engine::Impl::make_files(size_t n) {
    if (files_in_use() + n > most_files.n_files) { return false; }
    while (store && files_in_use() + store->shared().n_idle() + n > most_files.n_files && store->shared().drop_least_recent()) {
    }
    return true;
}

// What it wants beside what the others have: to begin, or to go on.
size_t Engine::Impl::wanted_bytes(const EngineJob & job) const {
    const EngineJob * base = job.state() == RequestState::kWaiting ? base_of(job) : nullptr;
    const size_t own = job.lacks_room() ? job.bytes_with_more_room() : job.reserved_bytes();
    return own + (base == nullptr ? 0 : base->bytes_aside());
}

// Idle states in memory are in nobody's way: they go when the room is taken (make_space()).
bool Engine::Impl::has_memory(const EngineJob & job, std::span<EngineJob * const> without) const {
    if (!has_files(job, without)) { return false; }
    size_t reserved = reserved_bytes() + claims.bytes - (job.running() ? job.reserved_bytes() : 0);
    for (const EngineJob * one : without) { reserved -= one->reserved_bytes(); }
    return fits(reserved + wanted_bytes(job));
}

// Idle states go, the least recently used first, until those that stay fit beside so much; none, where that does not fit alone.
bool Engine::Impl::make_space(size_t reserved) {
    if (!fits(reserved)) { return false; }
    while (store && !fits(reserved + store->shared().whole_idle_bytes()) && store->shared().drop_least_recent()) {}
    return true;
}

// Whether a request that has not ended goes on from this one. by_running: and reads its entries now: what was set aside comes
// back without them.
bool Engine::Impl::is_read(int64_t id, bool by_running) const {
    return std::ranges::any_of(jobs, [&](const auto & other) {
        const bool counts = by_running ? other.second->running() : true;
        return other.second->request().after == id && !other.second->ended() && counts;
    });
}

// What is kept and read by nobody goes to the folder of states, the oldest first, until there is room; nothing does where all
// of it would not be enough, even with those gone who give way. Without that folder it stays for those who come anew, and goes
// where answers go, for one that made room and would not come back otherwise.
void Engine::Impl::set_idle_aside(const EngineJob & for_whom, std::span<EngineJob * const> give_way) {
    const bool comes_back = for_whom.state() == RequestState::kSetAside;
    if (folder().empty() && !comes_back) { return; }
    std::vector<EngineJob *> idle;
    for (const auto & [id, job] : jobs) {
        const bool is_base = !comes_back && id == for_whom.request().after;
        const bool goes = job->kept() && !job->is_aside() && !is_base && !is_read(id, /*by_running=*/true);
        if (goes) { idle.push_back(job.get()); }
    }
    std::vector<EngineJob *> all(give_way.begin(), give_way.end());
    all.insert(all.end(), idle.begin(), idle.end());
    if (!has_memory(for_whom, all)) { return; }
    for (EngineJob * job : idle) {
        if (has_memory(for_whom) || !job->set_aside(folder()).ok()) { return; }  // no room on disk
    }
}

// What the request goes on from is in memory again, where it was not.
Status Engine::Impl::bring_back_base_of(const EngineJob & job) {
    EngineJob * base = base_of(job);
    return base != nullptr && base->is_aside() ? base->bring_back() : Status();
}

// What nobody reads is set aside, and then answers of lower priority, the lowest and latest first, where that is enough.
bool Engine::Impl::make_room(const EngineJob & job) {
    std::vector<EngineJob *> victims;
    for (EngineJob * other : running()) {
        const bool lower = other->request().priority < job.request().priority;
        if (lower && other->can_go_aside()) { victims.push_back(other); }
    }
    set_idle_aside(job, victims);
    if (has_room(job)) { return true; }
    std::ranges::stable_sort(victims, [](const EngineJob * a, const EngineJob * b) {
        if (a->request().priority != b->request().priority) { return a->request().priority < b->request().priority; }
        return a->id() > b->id();
    });
    size_t n = 0;
    while (n < victims.size() && !has_room(job, std::span(victims).first(n))) { ++n; }
    victims.resize(n);
    if (!has_room(job, victims)) { return false; }
    for (EngineJob * victim : victims) {
        if (!victim->set_aside(folder()).ok()) { break; }  // no room on disk: it waits, unless it fits now
    }
    return has_room(job);
}

// Whether it may run now, which may set others aside. A state in memory that it begins with is then in use, once for all who go
// on from it, and what it reserves comes behind that. Where nobody else uses the state, and going on from it would take more
// than being alone, the request copies it, so that it stays idle; or, where there is no room for both, takes it over.
bool Engine::Impl::finds_room(EngineJob & job) {
    const bool waits = job.state() == RequestState::kWaiting;
    if (waits) { job.look_for_shared_state(); }
    // Where files are short, its own state is idle to it like any other.
    if (waits && job.idle_base_bytes() > 0 && !has_files(job)) { job.let_go_of_shared_state(); }
    const size_t base = job.idle_base_bytes();
    if (base > 0 && ledger.ceiling_bytes > 0) {
        const size_t n_alike = alike(job, job.n_shared()).n_waiting + 1;
        if (!pays_off(job, base, job.reserved_bytes(), n_alike)) { job.copy_shared_state(); }
    }
    bool found = has_room(job);
    const auto takes_over = [&](size_t and_more) {
        return base > 0 && has_slot(job) && has_files(job) &&
               fits(reserved_bytes() + claims.bytes - base + job.bytes_alone() + and_more);
    };
    // Of a conversation that goes on, its old state and its new one would not be there together: the next turn would find the
    // old one again, and read this one anew. There is room to hold the new one by itself.
    const bool holds_both = fits(reserved_bytes() + claims.bytes + job.bytes_alone());
    const bool is_next_turn = found && base > 0 && !holds_both && job.continues_all() && !alike(job, job.n_shared()).any;
    if (is_next_turn ? takes_over(job.bytes_to_hold()) : !found && takes_over(0)) {
        job.take_shared_state();
        found = true;
    }
    found = found || make_room(job);
    if (found) {
        make_space(reserved_bytes() + wanted_bytes(job));
        if (const size_t n = wanted_files(job); n > 0) { make_files(n); }
    } else if (waits) {
        job.let_go_of_shared_state();
    }
    if (store) { store->shared().trim(); }  // of whom was set aside
    return found;
}

// Of one that nobody runs beside.
Status Engine::Impl::why_it_cannot_start(const EngineJob & job) const {
    if (!has_files(job)) {
        return {ErrorCode::kBudget, "the request wants a file in memory for keys and values that others go on from; " +
                                        with_commas(static_cast<int64_t>(files_in_use())) + " are taken, of " +
                                        with_commas(static_cast<int64_t>(most_files.n_files)) + " that may be (" +
                                        most_files.name + "): forget some of them, or raise that"};
    }
    return {ErrorCode::kBudget, "the request may come to need " + with_commas(static_cast<int64_t>(job.reserved_bytes())) +
                                    " bytes of KV cache, and requests that are kept take " +
                                    with_commas(static_cast<int64_t>(reserved_bytes())) + " of the ceiling of " +
                                    with_commas(static_cast<int64_t>(ledger.ceiling_bytes)) + ": forget some of them"};
}

// An answer that memory fails as it comes back is still aside, whole: it waits for what others free, as long as there are any.
void Engine::Impl::begin_or_go_on(EngineJob & job) {
    if (job.state() != RequestState::kSetAside) { return start(job); }
    Status back = job.bring_back();
    const auto lacks_memory = [&] { return back.code() == ErrorCode::kOutOfMemory; };
    if (lacks_memory() && anybody_runs()) { return; }
    while (lacks_memory() && store && store->shared().drop_least_recent()) { back = job.bring_back(); }
    if (!back.ok()) { job.fail(back); }
}

// Whoever waits, by priority, then by age: nobody is overtaken by a smaller one that would fit. Those behind one that lacks
// nothing but its turn among the prompts that are read layer by layer may begin: beside what it wants, which nobody takes. An
// answer that begins with what follows a kept prompt stands where the prompt stood: others would wait for the room that is kept
// for it.
void Engine::Impl::admit() {
    if (!changed) { return; }
    std::vector<EngineJob *> waiting;
    for (const auto & [id, job] : jobs) {
        if (job->state() == RequestState::kWaiting || job->state() == RequestState::kSetAside) { waiting.push_back(job.get()); }
    }
    const auto place = [](const EngineJob * job) {
        const Request & request = job->request();
        return std::pair(-int64_t{request.priority}, request.tokens.empty() ? request.after : job->id());
    };
    std::ranges::stable_sort(waiting, std::less<>(), place);
    bool again = false;
    int n_evicting = 0;
    claims = {};
    for (EngineJob * job : waiting) {
        if (waits_for_layers(*job) && has_place() && has_memory(*job)) {
            ++claims.n;
            claims.bytes += wanted_bytes(*job);
            claims.n_files += wanted_files(*job);
            continue;
        }
        // Everybody's next token waits for these.
        if (job->request().evict && ++n_evicting > kMaxEvicting) {
            again = true;
            break;
        }
        if (!finds_room(*job)) {
            if (anybody_runs()) { break; }
            again = true;
            // Nothing will become free by itself, but for the prompts that are kept for answers that wait behind it; and for
            // what is forgotten once this one does not read it.
            bool began = false;
            for (EngineJob * one : waiting) {
                if (one == job || one->ended() || base_of(*one) == nullptr) { continue; }
                if ((one->request().evict && n_evicting >= kMaxEvicting) || !finds_room(*one)) { continue; }
                n_evicting += one->request().evict ? 1 : 0;
                begin_or_go_on(*one);
                began = true;
            }
            if (!began) { job->fail(why_it_cannot_start(*job)); }
            break;
        }
        begin_or_go_on(*job);
        if (job->state() == RequestState::kSetAside) { break; }                   // it stands first until it comes back
        again = again || job->ended() || job->state() == RequestState::kWaiting;  // its start was cancelled
    }
    changed = again;
    claims = {};
}

// Others whose prompts begin with the same tokens, and who may go on from their state.
Engine::Impl::Alike Engine::Impl::alike(const EngineJob & job, int64_t n_tokens) const {
    Alike found;
    for (const auto & [id, other] : jobs) {
        if (other.get() == &job || other->ended() || !other->begins_as(job, n_tokens)) { continue; }
        found.any = true;
        found.n_waiting += other->state() == RequestState::kWaiting ? 1 : 0;
    }
    return found;
}

// Whether a base is worth its bytes: so many who go on from it, and one more that may come, save as much.
bool Engine::Impl::pays_off(const EngineJob & job, size_t base, size_t behind, size_t n_alike) {
    return (n_alike + 1) * (job.bytes_alone() - behind) >= base;
}

// Of the state that a running job has just read. It is shared where others begin with it, too, or it may stay when nobody goes
// on from it any more, and that pays off. One that evictions will copy is copied at once, and idle; where none stays in memory,
// it is shared if all who run and wait have room beside it: nobody waits for its sake.
EngineJob::Holding Engine::Impl::how_to_hold(const EngineJob & job, size_t bytes) {
    const size_t beside = job.evidence_bytes() + job.session()->seq.bookkeeping_bytes();
    const bool stays = bytes + beside <= store->shared().most_idle_bytes();
    const Alike others_alike = alike(job, job.session()->seq.n_tokens);
    if (!stays && !others_alike.any) { return EngineJob::Holding::kNot; }
    const size_t behind = job.bytes_behind_own_state();
    const size_t others = reserved_bytes() - job.reserved_bytes();
    bool shares = ledger.ceiling_bytes == 0 || pays_off(job, bytes, behind, others_alike.n_waiting + 1);
    if (!shares && !stays) {
        size_t waiting = 0;
        for (const auto & [id, other] : jobs) {
            const bool waits = other->state() == RequestState::kWaiting || other->state() == RequestState::kSetAside;
            waiting += waits ? other->reserved_bytes() : 0;
        }
        shares = fits(others + waiting + bytes + behind);
    }
    if (!make_files(1)) { return EngineJob::Holding::kNot; }
    // Shared, it is idle when the job ends: what lies beside it takes the place of what the job reserves then.
    if (shares && make_space(others + bytes + std::max(behind, beside))) { return EngineJob::Holding::kShared; }
    const bool copies = stays && make_space(others + job.reserved_bytes() + bytes + beside);
    return copies ? EngineJob::Holding::kCopied : EngineJob::Holding::kNot;
}

void Engine::Impl::start(EngineJob & job) {
    const Stopwatch watch;
    if (const Status back = bring_back_base_of(job); !back.ok()) { return job.fail(back); }
    const bool again = job.has_started();  // and was taken back
    const int64_t n_found = again ? job.n_cached() : 0;
    job.start(base_of(job), ledger.n_steps);
    if (job.caches()) {
        ledger.n_cache_sought += again ? 0 : std::ssize(job.request().tokens);
        ledger.n_cache_found += job.n_cached() - n_found;
    }
    if (job.request().evict || job.request().tokens.empty()) { ledger.evict_s += watch.seconds(); }
}

}  // namespace pith
