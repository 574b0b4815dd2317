// engine_impl.h - an engine's requests, and what a step does with them. Stage: engine.
//
//   engine.cpp            what users call
//   engine_admission.cpp  who has room, who makes it, and who begins
//   engine_growth.cpp     answers that need more room than they have reserved
//   engine_steps.cpp      one step of all that run
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cache/page_memory.h"
#include "engine/batch/engine_job.h"
#include "engine/pass/execution.h"
#include "engine/rest/stored_states.h"
#include "pith/batch_engine.h"
#include "plan/step_plan.h"

namespace pith {

struct Engine::Impl {
    static constexpr int kMaxEvicting = 4;  // requests that begin with an eviction, in a step

    Model model;
    EngineOptions options;
    std::shared_ptr<Execution> execution;
    std::unique_ptr<StoredStates> store;  // null: there is no folder, and none stays in memory
    TokenPass pass;
    // What has ended since the last step leaves a device's memory as it is until the next, or until somebody asks what is held:
    // then all of it moves once. Longer than the jobs: where all go, nothing moves.
    std::vector<std::unique_ptr<LaneStore::HeldMoves>> held_moves;
    std::map<int64_t, std::unique_ptr<EngineJob>> jobs;
    int64_t next_id = 1;
    PageFile::Limit most_files;  // of caches that others go on from
    bool changed = false;        // since the last admission: a request came or ended
    bool in_step = false;
    bool has_read = false;  // of a prompt, since the devices were released
    EngineLedger ledger;
    // While others are admitted: of those before them that will have it.
    struct Claims {
        int64_t n = 0;
        size_t bytes = 0;
        size_t n_files = 0;
    };
    Claims claims;

    Impl(Model of, EngineOptions with, std::shared_ptr<Execution> on)
        : model(std::move(of)),
          options(std::move(with)),
          execution(std::move(on)),
          most_files(PageFile::most_open(model.info().n_layers)) {}

    ~Impl() { hold_moves(); }

    // As users see it.
    EngineJob * asked(int64_t id) {
        EngineJob * job = find(id);
        return job == nullptr || job->forgotten() ? nullptr : job;
    }
    EngineJob * find(int64_t id) const {
        const auto found = jobs.find(id);
        return found == jobs.end() ? nullptr : found->second.get();
    }

    // scheduling
    std::vector<EngineJob *> running() const;
    bool anybody_runs() const;
    size_t reserved_bytes() const;
    void admit();
    void begin_or_go_on(EngineJob & job);
    void start(EngineJob & job);
    void choose_first_tokens();
    void look_for_evicted();
    bool has_room(const EngineJob & job, std::span<EngineJob * const> without = {}) const;
    bool has_slot(const EngineJob & job, std::span<EngineJob * const> without = {}) const;
    bool has_place(std::span<EngineJob * const> without = {}) const;
    bool waits_for_layers(const EngineJob & job) const;
    bool has_memory(const EngineJob & job, std::span<EngineJob * const> without = {}) const;
    bool has_files(const EngineJob & job, std::span<EngineJob * const> without = {}) const;
    size_t files_in_use(std::span<EngineJob * const> without = {}) const;
    size_t wanted_files(const EngineJob & job) const;
    bool make_files(size_t n);
    Status why_it_cannot_start(const EngineJob & job) const;
    bool fits(size_t reserved) const { return ledger.ceiling_bytes == 0 || reserved <= ledger.ceiling_bytes; }
    bool make_room(const EngineJob & job);
    bool finds_room(EngineJob & job);
    void set_idle_aside(const EngineJob & for_whom, std::span<EngineJob * const> give_way = {});
    bool is_read(int64_t id, bool by_running) const;
    Status bring_back_base_of(const EngineJob & job);
    bool make_space(size_t reserved);
    size_t wanted_bytes(const EngineJob & job) const;
    EngineJob::Holding how_to_hold(const EngineJob & job, size_t bytes);
    struct Alike {
        bool any = false;      // that has not ended
        size_t n_waiting = 0;  // for their start
    };
    Alike alike(const EngineJob & job, int64_t n_tokens) const;
    static bool pays_off(const EngineJob & job, size_t base, size_t behind, size_t n_alike);

    // growth
    void let_answers_go_on();
    Status find_room_to_go_on(EngineJob & job);
    std::vector<EngineJob *> who_may_run() const;

    // a step
    void plan_evictions(std::span<const std::pair<EngineJob *, int64_t>> of_jobs);
    void run_pieces(std::span<const StepPiece> plan, std::span<EngineJob * const> candidates);
    void run_alone(EngineJob & job, int64_t n);
    void advance(EngineJob & job, int64_t n);
    void add_drafts(std::span<PassPiece> pieces, std::span<const std::pair<EngineJob *, int64_t>> jobs) const;
    void count_bytes(const EngineJob * ran = nullptr);
    void settle_bytes();
    void release_devices_behind_prompts();
    void drop_forgotten();
    void hold_moves() noexcept;
    void settle_moves();
    EngineJob * base_of(const EngineJob & job) const { return job.request().after == 0 ? nullptr : find(job.request().after); }
    std::string folder() const { return store ? store->folder() : std::string(); }  // of what goes aside
    bool step();
    size_t activation_bytes() const { return execution->forward.activation_bytes() + pass.size_bytes(); }
};

}  // namespace pith
