// engine_flags.cpp - shared options, checked before anything is loaded.
#include "common/flags/engine_flags.h"

#include <cstdio>
#include <utility>

#include "common/base/byte_count.h"
#include "common/base/errors.h"
#include "common/base/progress.h"
#include "common/options/options.h"
#include "core/check.h"
#include "core/parse_tolerance.h"
#include "device/available_memory.h"
#include "policy/named_policy.h"
#include "policy/tolerance.h"

namespace pith::app {
namespace {

constexpr double kMostBareTolerance = 0.1;  // that a share without a % may be

// What a policy needs and cannot use; `auto` takes what there is.
Status check_named_policy(const PolicyChoice & choice, const std::optional<std::string> & budget, bool has_gates) {
    if (choice.is_auto()) { return {}; }
    PITH_ASSIGN_OR_RETURN(const Policy policy, named_policy(choice));
    // What gates are for is known once they are read, and those that rank may lie beside the model: the session checks that.
    if (policy.gated()) { PITH_RETURN_IF_ERROR(policy.check_gates(has_gates ? KnownGates::kThreshold : KnownGates::kNone)); }
    if (policy.evicts() && !budget) {
        return {ErrorCode::kInvalidArgument,
                "policy '" + policy.name() +
                    "' needs a budget: add --budget 1024 (tokens per head), 20% or 512M, or use --policy full"};
    }
    if (!policy.evicts() && budget) {
        return {ErrorCode::kInvalidArgument, "policy '" + policy.name() + "' evicts nothing" +
                                                 (policy.gated() ? " more than its gates do" : "") + ": leave out --budget " +
                                                 *budget + ", or choose another policy"};
    }
    return {};
}

// Half a percent is what people mean by 0.5, and half of all attention is what it says.
Result<double> clear_tolerance(const std::string & text) {
    PITH_ASSIGN_OR_RETURN(const double share, parse_tolerance(text));
    if (share <= kMostBareTolerance || text.find('%') != std::string::npos) { return share; }
    char percent[32];
    std::snprintf(percent, sizeof percent, "%g", 100 * share);
    return Status(ErrorCode::kInvalidArgument, "--tolerance is '" + text + "', which is " + percent +
                                                   " % of all attention: write " + percent + "% where that is meant, " + text +
                                                   "% for a hundredth of it");
}

}  // namespace

void ModelFlags::add_to(CLI::App & command, bool is_required) {
    ModelSource::add_to(command, is_required);
    add(command, option("--no-mmap"), no_mmap);
    add(command, option("--no-repack"), no_repack);
    add(command, option("--lora"), lora);
    add(command, option("--lora-scale"), lora_scale)->capture_default_str();
    add(command, option("--gate"), gate);
    devices.add_to(command);
}

Status ModelFlags::find() {
    PITH_RETURN_IF_ERROR(devices.options().status());
    PITH_RETURN_IF_ERROR(ModelSource::find());
    devices.watch();
    return {};
}

ModelOptions ModelFlags::options() const {
    ModelOptions options;
    options.use_mmap = !no_mmap;
    options.repack = !no_repack;
    options.lora_file = lora;
    options.lora_scale = lora_scale;
    options.gate_file = gate;
    options.devices = devices.options().value();
    return options;
}

Result<Model> ModelFlags::load() const {
    ModelOptions options = this->options();
    ProgressLine line("loading");
    if (line.visible()) {
        options.progress = [&line](double fraction) {
            line.show_fraction(fraction);
            return true;
        };
    }
    return Model::load(path, options);
}

void add_heads_option(CLI::App & command, std::string & path) {
    add(command, option("--heads"), path);
}

void CacheFlags::add_to(CLI::App & command) {
    add(command, option("--cache-type-k"), type_k)->capture_default_str();
    add(command, option("--cache-type-v"), type_v)->capture_default_str();
    add(command, option("--no-kv-rotation"), no_rotation);
    add(command, option("--no-context-shift"), no_context_shift);
}

void warn_of_coarse_keys(const SessionOptions & options) {
    static bool told = false;
    if (options.type_k != KvType::kQ4_0 || options.rotate_kv || std::exchange(told, true)) { return; }
    warn(
        "keys in q4_0 that are not rotated can make a model lose what it has read: leave out --no-kv-rotation, or use "
        "-ctk q8_0");
}

void SessionFlags::add_to(CLI::App & command, const std::string & default_policy, const std::string & without_budget) {
    constexpr const OptionRow & what_to_keep = option("--policy");
    constexpr const OptionRow & how_much = option("--budget");
    add(command, what_to_keep, policy, std::string(what_to_keep.help) + " (default: " + default_policy + ")");
    default_budget = without_budget;
    std::string help(how_much.help);
    if (!default_budget.empty()) { help += " (default: " + default_budget + "; none with a --policy)"; }
    add(command, how_much, budget, help);
    add_heads_option(command, heads);
    cache.add_to(command);
    add(command, option("--prefill"), prefill)->capture_default_str();
    add(command, option("--chunk"), chunk)->capture_default_str();
    add(command, option("--evict-every"), evict_every)->capture_default_str();
    add(command, option("--grid"), grid);
    add(command, option("--threads"), n_threads);
    add(command, option("--ctx-size"), ctx_size);
}

void SessionFlags::add_tolerance_to(CLI::App & command) {
    add(command, option("--tolerance"), tolerance);
}

void ColdFlags::add_to(CLI::App & command, const std::string & default_type) {
    constexpr const OptionRow & what_is_evicted = option("--cold");
    std::string help(what_is_evicted.help);
    if (!default_type.empty()) { help += " (default: " + default_type + ")"; }
    auto * kept = add(command, what_is_evicted, type, help);
    auto * size = add(command, option("--cold-size"), most)->capture_default_str();
    auto * looks = add(command, option("--look-back"), look_back);
    if (default_type.empty()) {
        size->needs(kept);
        looks->needs(kept);
    }
}

void ColdFlags::add_repair_every_to(CLI::App & command) {
    add(command, option("--repair-every"), repair_every)->capture_default_str();
}

Status ColdFlags::set(SessionOptions & options) const {
    PITH_ASSIGN_OR_RETURN(options.cold_bytes, parse_byte_count("--cold-size", most));
    options.look_back = look_back;
    options.repair_every = repair_every;
    if (!keeps()) { return {}; }
    const auto parsed = parse_kv_type(type);
    if (!parsed.ok()) {
        return {ErrorCode::kInvalidArgument, "--cold is '" + type + "': give q4_0, q8_0, bf16, f16, f32 or none"};
    }
    options.cold = *parsed;
    return {};
}

Result<PrefillSchedule> parse_prefill(const std::string & text) {
    if (text == "auto") { return PrefillSchedule::kAuto; }
    if (text == "one-shot") { return PrefillSchedule::kOneShot; }
    if (text == "chunked") { return PrefillSchedule::kChunked; }
    return {ErrorCode::kInvalidArgument, "--prefill is '" + text + "': give auto, one-shot or chunked"};
}

Result<SessionOptions> SessionFlags::options(bool has_gates) const {
    const PolicyChoice choice = policy.empty() ? PolicyChoice() : PolicyChoice(policy);
    if (!tolerance) { return options_with(choice, has_gates); }
    PITH_RETURN_IF_ERROR(choice.check());
    PITH_ASSIGN_OR_RETURN(const double share, clear_tolerance(*tolerance));
    PITH_ASSIGN_OR_RETURN(const PolicyChoice tolerant, with_tolerance(choice, share));
    SessionFlags with_ceiling = *this;
    if (!budget) { with_ceiling.budget = tolerant_budget; }
    return with_ceiling.options_with(tolerant, has_gates);
}

Result<SessionOptions> SessionFlags::options_with(const PolicyChoice & choice, bool has_gates) const {
    SessionOptions options;
    if (budget) {
        if (budget->empty()) {
            return {ErrorCode::kInvalidArgument, "--budget is empty: give 1024 (tokens per head), 20% or 512M"};
        }
        PITH_ASSIGN_OR_RETURN(options.budget, Budget::parse(*budget));
    }
    options.policy = choice;
    // A policy that was named wants its budget named, too: whoever compares policies does not mean "what memory allows".
    if (!budget && !default_budget.empty() && options.policy.is_auto() && available_memory() > 0) {
        PITH_ASSIGN_OR_RETURN(options.budget, Budget::parse(default_budget));
    }
    PITH_RETURN_IF_ERROR(check_named_policy(options.policy, budget, has_gates));
    PITH_RETURN_IF_ERROR(cache.set(options));
    PITH_RETURN_IF_ERROR(cold.set(options));
    PITH_ASSIGN_OR_RETURN(options.prefill, parse_prefill(prefill));
    PITH_RETURN_IF_ERROR(check_at_least("--threads", n_threads, 0));
    PITH_RETURN_IF_ERROR(check_at_least("--ctx-size", ctx_size, 0));
    PITH_RETURN_IF_ERROR(check_at_least("--chunk", chunk, 1));
    PITH_RETURN_IF_ERROR(check_at_least("--evict-every", evict_every, 0));
    PITH_RETURN_IF_ERROR(check_at_least("--grid", grid, 0));
    warn_of_coarse_keys(options);
    options.heads_file = heads;
    options.n_threads = n_threads;
    options.max_context = ctx_size;
    options.chunk = chunk;
    options.evict_every = evict_every;
    options.grid = grid;
    return options;
}

}  // namespace pith::app
