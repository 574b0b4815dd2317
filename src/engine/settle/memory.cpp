// memory.cpp - what the system and devices leave, less what else is needed. Stage: engine.
#include "engine/settle/memory.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "core/items.h"
#include "device/available_memory.h"

namespace pith {
namespace {

std::string mebibytes(double bytes) {
    return std::to_string(static_cast<int64_t>(std::max(bytes, 0.0) / (1 << 20))) + " MiB";
}

}  // namespace

Result<double> memory_for_lanes(const ModelFile & file, const CacheLayout & layout, double beside) {
    double of_all = 0;
    std::map<std::shared_ptr<LaneDevice>, double> shares;  // null: here
    for (int l = 0; l < layout.n_layers(); ++l) {
        const LaneRows rows = layout.rows(l);
        const auto share = static_cast<double>(rows.bytes()) * rows.n_lanes;
        if (share > 0) { shares[layout.device(l)] += share; }
        of_all += share;
    }
    double usable = std::numeric_limits<double>::max();
    for (const auto & [device, share] : shares) {
        size_t left = device == nullptr ? available_memory(mapped_bytes(file)) : 0;
        if (device != nullptr) { PITH_ASSIGN_OR_RETURN(left, device->free_bytes()); }
        if (left == 0) {
            return {ErrorCode::kUnsupported, (device == nullptr ? "this machine" : device->name()) +
                                                 " does not say how much memory is left: give a budget in numbers"};
        }
        usable = std::min(usable, kUsableMemory * (static_cast<double>(left) - beside) * of_all / share);
    }
    return usable;
}

double chunk_bytes(const SessionParts & parts, int n_tokens) {
    const Hparams & hp = parts.file->hparams();
    const auto chunk = static_cast<double>(std::max(n_tokens, 1));
    double width = hp.n_embd;
    for (int l = 0; l < hp.n_layers; ++l) { width = std::max<double>(width, hp.n_heads * hp.head_dim_of(l)); }
    return 4.0 * (chunk * (8.0 * width + 4.0 * std::max(hp.n_ff, hp.n_ff_expert * hp.n_experts_used + hp.n_ff_shared)) +
                  2.0 * hp.n_vocab);
}

namespace {

// The budget `auto` where lanes lie on devices.
Result<Budget> device_budget(const SessionParts & parts) {
    PITH_ASSIGN_OR_RETURN(double usable,
                          memory_for_lanes(*parts.file, parts.layout, chunk_bytes(parts, chunk_there(parts.options.chunk))));
    if (usable < 1) { PITH_ASSIGN_OR_RETURN(usable, memory_for_lanes(*parts.file, parts.layout, chunk_bytes(parts))); }
    if (usable >= 1) { return Budget(BudgetKind::kBytes, usable); }
    return {ErrorCode::kBudget,
            item::kBudget + " auto: nothing is left for keys and values where layers lie, beside a chunk, which takes " +
                mebibytes(chunk_bytes(parts)) + ": use a smaller " + item::kChunk + ", place fewer layers (" +
                item::kDeviceLayers + "), or give a " + item::kBudget + " in numbers"};
}

}  // namespace

Result<Budget> memory_budget(const SessionParts & parts, int n_snapshots) {
    if (parts.layout.any_on_device()) { return device_budget(parts); }
    const size_t mapped = mapped_bytes(*parts.file);
    const auto left = static_cast<double>(available_memory(mapped));
    if (left == 0) {
        return {ErrorCode::kUnsupported, item::kBudget + " auto: this system does not say how much memory is left: give a " +
                                             item::kBudget + " in numbers"};
    }
    const double usable = kUsableMemory * (left - chunk_bytes(parts)) / (1.0 + std::max(n_snapshots, 0));
    if (usable >= 1) { return Budget(BudgetKind::kBytes, usable); }
    return {ErrorCode::kBudget,
            item::kBudget +
                " auto: nothing is left for the KV cache: of the memory that the system, the control group and ulimit leave, " +
                mebibytes(static_cast<double>(available_memory())) + ", the model's mapped weights take " +
                mebibytes(static_cast<double>(mapped)) + " and a chunk " + mebibytes(chunk_bytes(parts)) +
                ": free some, use a smaller model or " + item::kChunk + ", or give a " + item::kBudget + " in numbers"};
}

Result<int64_t> lane_capacity(const SessionParts & parts, const RunPlan & plan, int64_t n_all) {
    const SessionOptions & options = parts.options;
    const bool evicts = plan.budget > 0;
    const int64_t at_once =
        plan.budget + std::max<int64_t>({int64_t{plan.chunk} + plan.n_guide, plan.evict_every, plan.grid}) + plan.n_reread;
    const bool bounded = evicts && !plan.one_shot && !options.look_back;  // a layer is to hold all of it
    const int64_t wanted =
        std::max<int64_t>(options.max_context, (bounded ? std::min(n_all, 4 * at_once) : n_all) + plan.n_reread + 256);
    const size_t addresses = available_addresses();
    if (addresses == 0) { return wanted; }

    const auto width = static_cast<double>(parts.file->hparams().n_embd) * sizeof(float);
    const double states = plan.one_shot ? static_cast<double>(n_all) * width : 0;
    const double usable = kUsableMemory * (static_cast<double>(addresses) - chunk_bytes(parts)) - states;
    double bytes_of_all_lanes = 0;  // of one entry in each
    for (int l = 0; l < parts.n_layers(); ++l) {
        bytes_of_all_lanes += static_cast<double>(parts.layout.rows(l).bytes()) * parts.layout.lanes(l).n_kv_heads;
    }
    const auto room = static_cast<int64_t>(usable / bytes_of_all_lanes);
    const int64_t least = bounded ? std::min(n_all + plan.n_reread, at_once) : n_all + plan.n_reread;
    if (room < least) {
        return {ErrorCode::kOutOfMemory,
                "the limit on virtual memory (ulimit -v, -d) leaves " + mebibytes(static_cast<double>(addresses)) +
                    ", which holds " + std::to_string(std::max<int64_t>(room, 0)) + " tokens per head, and " +
                    std::to_string(least) + " are needed at once: raise the limit, or lower " +
                    (evicts ? item::kBudget + " or " + item::kChunk : "the context with a " + item::kBudget)};
    }
    if (options.max_context > room) { return wanted; }  // asked for by number: it fails, and says so
    return std::min(room, evicts ? std::max(wanted, 4 * at_once) : wanted);
}

}  // namespace pith
