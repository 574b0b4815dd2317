// engine.cpp - requests come in, answers go out. Stage: engine.
#include <atomic>
#include <string>
#include <utility>

#include "attention/lane_places.h"
#include "core/check.h"
#include "core/guarded.h"
#include "core/items.h"
#include "core/text.h"
#include "device/available_memory.h"
#include "engine/batch/engine_impl.h"
#include "engine/parts/cache_layout.h"
#include "engine/parts/model_parts.h"
#include "engine/pass/session_ledger.h"
#include "engine/settle/memory.h"
#include "model/model_file.h"
#include "plan/run_plan.h"

namespace pith {

const char * name_of(RequestState state) {
    switch (state) {
        case RequestState::kWaiting:
            return "waiting";
        case RequestState::kReading:
            return "reading";
        case RequestState::kAnswering:
            return "answering";
        case RequestState::kSetAside:
            return "set aside";
        case RequestState::kDone:
            return "done";
        case RequestState::kFailed:
            return "failed";
        case RequestState::kCancelled:
            return "cancelled";
    }
    return "unknown";
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::Engine(Engine &&) noexcept = default;
Engine & Engine::operator=(Engine &&) noexcept = default;
Engine::~Engine() = default;

namespace {

// What lanes may take where they lie.
Result<size_t> memory_of_devices(const Model & model, const EngineOptions & options, const Execution & execution) {
    const ModelFile & file = file_of(model);
    CacheLayout layout = cache_layout(file, options.type_k, options.type_v);
    std::vector<DeviceUse> uses = file.placement()->uses();
    PITH_RETURN_IF_ERROR(place_lanes(*file.placement(), execution.lane_devices, layout, uses));
    PITH_ASSIGN_OR_RETURN(const double usable, memory_for_lanes(file, layout, /*beside=*/0));
    return static_cast<size_t>(usable);
}

Result<size_t> ceiling_of(const Model & model, const EngineOptions & options, const Execution & execution) {
    const Budget & ceiling = options.ceiling;
    switch (ceiling.kind) {
        case BudgetKind::kNone:
            return size_t{0};
        case BudgetKind::kBytes:
            PITH_RETURN_IF_ERROR(ceiling.check());
            return static_cast<size_t>(ceiling.value);
        case BudgetKind::kAuto: {
            if (!execution.lane_devices.empty()) { return memory_of_devices(model, options, execution); }
            const auto left = static_cast<double>(available_memory(mapped_bytes(file_of(model))));
            if (left > 0) { return static_cast<size_t>(kUsableMemory * left); }
            return {ErrorCode::kUnsupported,
                    item::kCeiling + " is auto, and this system does not say how much memory is left: give it in bytes"};
        }
        default:
            return {ErrorCode::kInvalidArgument, item::kCeiling + " is " + ceiling.to_string() +
                                                     ": it bounds the memory of all sequences, so give bytes (512M) or auto"};
    }
}

Status not_found(int64_t id) {
    return {ErrorCode::kNotFound, "there is no request " + std::to_string(id)};
}

}  // namespace

Result<Engine> Model::engine(const EngineOptions & options) const {
    return guarded([&]() -> Result<Engine> {
        PITH_RETURN_IF_ERROR(check_at_least(Item{"max_rows"}, options.max_rows, 1));
        PITH_RETURN_IF_ERROR(check_at_least(Item{"max_sequences"}, options.max_sequences, 0));
        PITH_RETURN_IF_ERROR(check_at_least(item::kThreads, options.n_threads, 0));
        PITH_ASSIGN_OR_RETURN(auto execution, make_execution(*this, options.n_threads));
        PITH_ASSIGN_OR_RETURN(const size_t ceiling, ceiling_of(*this, options, *execution));
        auto impl = std::make_unique<Engine::Impl>(*this, options, std::move(execution));
        impl->ledger.ceiling_bytes = ceiling;
        if (!options.cache_dir.empty() || options.cache_memory_bytes > 0) {
            const StoredStates::Places places{options.cache_dir, options.cache_bytes, options.cache_memory_bytes};
            PITH_ASSIGN_OR_RETURN(impl->store, StoredStates::open(*this, places));
        }
        return Engine(std::move(impl));
    });
}

Result<int64_t> Engine::submit(Request request) {
    return guarded([&]() -> Result<int64_t> {
        impl_->settle_moves();  // bytes are counted below
        auto job = std::make_unique<EngineJob>(impl_->next_id, std::move(request));
        const int64_t after = job->request().after;
        const EngineJob * base = after == 0 ? nullptr : impl_->asked(after);
        if (after != 0 && (base == nullptr || !base->kept())) {
            return {ErrorCode::kInvalidArgument, item::kAfter + " is " + std::to_string(after) +
                                                     ": no request of this number is done and was submitted with keep"};
        }
        if (base != nullptr && base->is_aside() && job->request().evict) {  // what is evicted is looked at now
            if (!impl_->has_memory(*job)) { impl_->set_idle_aside(*job); }
            if (!impl_->has_memory(*job)) {
                return {ErrorCode::kBudget,
                        "request " + std::to_string(after) +
                            " is set aside, and there is no room for it now: evict it when others have ended"};
            }
            impl_->make_space(impl_->reserved_bytes() + impl_->wanted_bytes(*job));
            PITH_RETURN_IF_ERROR(impl_->bring_back_base_of(*job));
        }
        const auto how_to_hold = [impl = impl_.get()](const EngineJob & of, size_t bytes) {
            return impl->how_to_hold(of, bytes);
        };
        PITH_RETURN_IF_ERROR(
            job->prepare(impl_->model, impl_->options, impl_->execution, base, impl_->store.get(), how_to_hold));
        const size_t ceiling = impl_->ledger.ceiling_bytes;
        const size_t of_base = base == nullptr ? 0 : base->reserved_bytes() + base->bytes_aside();
        if (ceiling > 0 && job->most_bytes() + of_base > ceiling && !job->shorten_to(ceiling)) {
            const auto bytes = [](size_t n) { return with_commas(static_cast<int64_t>(n)); };
            const bool chooses = base == nullptr || job->request().evict;  // a budget
            return {ErrorCode::kBudget,
                    "the request may come to need " + bytes(job->most_bytes()) + " bytes of KV cache" +
                        (base == nullptr ? "" : " beside the " + bytes(of_base) + " of request " + std::to_string(after)) +
                        ", and the ceiling for all is " + bytes(ceiling) + ": give it " +
                        (chooses ? "a smaller " + item::kBudget + " or " + item::kChunk : "fewer tokens") +
                        ", a shorter answer, or raise the ceiling"};
        }
        impl_->jobs.emplace(impl_->next_id, std::move(job));
        impl_->changed = true;
        return impl_->next_id++;
    });
}

Status Engine::cancel(int64_t id) {
    return guarded([&]() -> Status {
        EngineJob * job = impl_->asked(id);
        if (job == nullptr || job->ended()) { return not_found(id); }
        impl_->hold_moves();
        job->cancel();
        if (impl_->store) { impl_->store->shared().trim(); }
        impl_->changed = true;
        if (!impl_->in_step) {
            impl_->drop_forgotten();  // it may have been the last to read one
            impl_->release_devices_behind_prompts();
        }
        impl_->settle_bytes();
        return {};
    });
}

Status Engine::forget(int64_t id) {
    return guarded([&]() -> Status {
        EngineJob * job = impl_->asked(id);
        if (job == nullptr) { return not_found(id); }
        if (impl_->in_step) { return {ErrorCode::kInvalidArgument, "forget() was called by a hook of step()"}; }
        if (!job->ended()) {
            return {ErrorCode::kInvalidArgument, "request " + std::to_string(id) + " has not ended: cancel it first"};
        }
        job->set_forgotten();
        impl_->hold_moves();
        impl_->drop_forgotten();
        impl_->settle_bytes();
        return {};
    });
}

Result<bool> Engine::step(const std::atomic<bool> * cancel) {
    if (impl_->in_step) { return {ErrorCode::kInvalidArgument, "step() was called by a hook of step()"}; }
    impl_->in_step = true;
    const CancelScope cancelling(impl_->execution->forward, cancel);
    const Result<bool> more = guarded([&]() -> Result<bool> { return impl_->step(); });
    // A step that memory failed in may have admitted somebody, and not come to its end, where it counts.
    if (!more.ok()) {
        impl_->claims = {};
        impl_->settle_bytes();
    }
    impl_->in_step = false;
    return more;
}

Status Engine::run(const std::atomic<bool> * cancel) {
    for (bool more = true; more;) {
        if (cancel != nullptr && cancel->load()) { return {ErrorCode::kCancelled, "cancelled"}; }
        PITH_ASSIGN_OR_RETURN(more, step(cancel));
    }
    return {};
}

RequestState Engine::state(int64_t id) const {
    const EngineJob * job = impl_->asked(id);
    return job == nullptr ? RequestState::kFailed : job->state();
}

Status Engine::status(int64_t id) const {
    return guarded([&]() -> Status {
        const EngineJob * job = impl_->asked(id);
        return job == nullptr ? not_found(id) : job->status();
    });
}

std::span<const int32_t> Engine::answer(int64_t id) const {
    const EngineJob * job = impl_->asked(id);
    return job == nullptr ? std::span<const int32_t>() : job->answer();
}

Result<Ledger> Engine::ledger(int64_t id) const {
    return guarded([&]() -> Result<Ledger> {
        impl_->settle_moves();
        const EngineJob * job = impl_->asked(id);
        if (job == nullptr) { return not_found(id); }
        if (job->running()) { update_ledger(*job->session()); }  // tokens of a prompt that is still being read
        return job->ledger();
    });
}

int64_t Engine::n_cached(int64_t id) const {
    const EngineJob * job = impl_->asked(id);
    return job == nullptr ? 0 : job->n_cached();
}

int64_t Engine::n_read(int64_t id) const {
    const EngineJob * job = impl_->asked(id);
    return job == nullptr ? 0 : job->n_read_so_far();
}

bool Engine::questions_seen(int64_t id) const {
    const EngineJob * job = impl_->asked(id);
    return job != nullptr && job->questions_seen();
}

std::span<const int32_t> Engine::lane_positions(int64_t id, int layer, int kv_head) const {
    const EngineJob * job = impl_->asked(id);
    if (job == nullptr || job->session() == nullptr || !job->session()->seq.cache) { return {}; }
    const RaggedCache & cache = *job->session()->seq.cache;
    if (!cache.has_lane(layer, kv_head)) { return {}; }
    return cache.positions(cache.lane(0, layer, kv_head));
}

EngineLedger Engine::ledger() const {
    impl_->settle_moves();
    EngineLedger ledger = impl_->ledger;
    ledger.evidence_s = impl_->execution->forward.evidence_s();
    size_t of_model = 0;  // factors of W_O and the like: all its sequences share them
    for (const auto & [id, job] : impl_->jobs) {
        ledger.n_waiting += job->state() == RequestState::kWaiting ? 1 : 0;
        ledger.n_running += job->running() ? 1 : 0;
        ledger.n_set_aside += job->state() == RequestState::kSetAside || job->is_aside() ? 1 : 0;
        const size_t states = job->state_bytes(impl_->base_of(*job));
        ledger.kv_state_bytes += states;
        ledger.kv_kept_bytes += job->kept() ? job->kv_bytes(/*at_most=*/false) + states : 0;
        ledger.evidence_bytes += job->evidence_bytes();
        ledger.undo_bytes += job->undo_bytes();
        ledger.sequence_bytes += job->other_bytes();
        if (job->session() == nullptr) { continue; }
        of_model = job->session()->output->size_bytes();
        ledger.device_graph_bytes += job->session()->pass.states_there().size_bytes();
    }
    if (impl_->store) {
        const SharedStates & states = impl_->store->shared();
        ledger.n_cache_kept = impl_->store->n_kept();
        ledger.kv_state_bytes += states.state_bytes();
        ledger.kv_idle_bytes = states.bytes_idle();
        ledger.evidence_bytes += states.evidence_bytes();
        ledger.sequence_bytes += states.bytes_beside() - states.evidence_bytes();
    }
    ledger.weight_bytes = file_of(impl_->model).resident_copies_bytes();
    ledger.activation_bytes = impl_->activation_bytes();
    ledger.device_graph_bytes += impl_->pass.states_there().size_bytes();
    for (size_t device = 0; device < impl_->execution->devices.size(); ++device) {
        ledger.device_graph_bytes += impl_->execution->forward.device_bytes(device);
    }
    ledger.evidence_bytes += of_model;
    return ledger;
}

}  // namespace pith
