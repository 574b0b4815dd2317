// model.cpp - the public face of a loaded model, and how sessions are made from it. Stage: engine.
#include "pith/model.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "attention/lane_attention.h"
#include "attention/lane_places.h"
#include "core/guarded.h"
#include "device/available_memory.h"
#include "device/backend.h"
#include "engine/auto.h"
#include "engine/cache_layout.h"
#include "engine/execution.h"
#include "engine/find_heads.h"
#include "engine/live_session.h"
#include "engine/model_parts.h"
#include "evidence/evidence_notes.h"
#include "gate/gate_file.h"
#include "model/adapted_model.h"
#include "model/lora_file.h"
#include "model/model_file.h"
#include "pith/log.h"
#include "policy/named_policy.h"

namespace pith {
namespace {

// As exact as the model's own products, no more.
GateProducts products_of_gates(std::string_view weight_type) {
    if (weight_type == "f32") { return GateProducts::kF32; }
    return weight_type == "f16" || weight_type == "bf16" ? GateProducts::kF16 : GateProducts::kQ8_0;
}

ModelInfo describe(const ModelFile & file) {
    const Hparams & hp = file.hparams();
    ModelInfo info;
    info.path = file.path();
    info.architecture = hp.arch_name;
    info.name = hp.name;
    info.file_type = file.file_type();
    info.weight_type = file.weight_type_name();
    info.weight_types = file.weight_shares();
    info.n_params = file.n_params();
    info.weight_bytes = file.weight_bytes();
    info.n_layers = hp.n_layers;
    info.n_heads = hp.n_heads;
    info.n_kv_heads = hp.n_kv_heads;
    info.head_dim = hp.head_dim;
    info.n_embd = hp.n_embd;
    info.n_vocab = hp.n_vocab;
    info.n_ctx_train = hp.n_ctx_train;
    info.n_experts = hp.n_experts;
    return info;
}

// The model with the adapter of the options, where there is one.
Result<std::shared_ptr<const ModelFile>> add_adapter(std::shared_ptr<const ModelFile> file, const ModelOptions & options) {
    const float scale = options.lora_scale;
    if (!std::isfinite(scale)) {
        return {ErrorCode::kInvalidArgument, "the adapter's scale is " + std::to_string(scale) + ": give a finite number"};
    }
    if (options.lora_file.empty()) {
        if (scale == 1.0F) { return file; }
        return {ErrorCode::kInvalidArgument,
                "the adapter's scale is " + std::to_string(scale) + ", but there is no adapter: name its file too"};
    }
    PITH_ASSIGN_OR_RETURN(auto adapter, LoraAdapter::load(options.lora_file, *file));
    return adapt_model(std::move(file), std::move(adapter), scale);
}

// Whether `auto`, asked for by name or as one of the policies to observe, may come to want importances.
bool auto_wants_heads(const SessionOptions & options, bool has_gate) {
    const bool own = options.policy.is_auto() && !has_gate && options.budget.kind != BudgetKind::kNone;
    return own || std::ranges::any_of(options.observe, &PolicyChoice::is_auto);
}

// What `auto` may come to need when it is asked for by evict().
void observe_auto(LiveSession & session) {
    for (const KnownQuestion question : {KnownQuestion::kInSight, KnownQuestion::kUnknown}) {
        const AutoChoice choice = choose_policy({.limited = true,
                                                 .heads = session.known_heads,
                                                 .question = question,
                                                 .may_reread = session.options.auto_may_reread});
        session.observed.push_back(choice.policy.needs());
    }
}

// What the policy looks at and the model does otherwise.
void tell_evidence_notes(const Hparams & hparams, const Policy & policy) {
    for (const std::string & note : evidence_notes(hparams, {policy.needs(), policy.ranks_across_layers()})) {
        log_line(LogLevel::kInfo, "policy '" + policy.name() + "' on architecture '" + hparams.arch_name + "': " + note);
    }
}

// What options.observe asks for, and the importances where one of these policies wants them.
Status observe(const ModelHeads & heads, bool has_gate, LiveSession & session) {
    for (const PolicyChoice & choice : session.options.observe) {
        if (choice.is_auto()) {
            observe_auto(session);
            continue;
        }
        PITH_ASSIGN_OR_RETURN(const Policy policy, named_policy(choice));
        PITH_RETURN_IF_ERROR(policy.check_gates(has_gate));
        PITH_RETURN_IF_ERROR(find_heads(heads, policy, session.options));
        session.observed.push_back(policy.needs());
    }
    return {};
}

// Policies see governed layers alone; importances are of all that the model has.
std::shared_ptr<const HeadImportance> heads_governed(const SessionParts & parts) {
    const HeadImportance * all = parts.options.heads.get();
    if (all == nullptr || parts.layout.governs_all()) { return parts.options.heads; }
    auto chosen = std::make_shared<HeadImportance>();
    const auto n = static_cast<size_t>(parts.shape().n_heads());
    const auto choose = [&](const std::vector<double> & from, std::vector<double> & to) {
        for (const int layer : parts.governed) {
            const auto first = from.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(layer) * n);
            to.insert(to.end(), first, first + static_cast<std::ptrdiff_t>(n));
        }
    };
    choose(all->copy, chosen->copy);
    choose(all->reason, chosen->reason);
    return chosen;
}

}  // namespace

struct Model::Impl {
    static const Impl & of(const Model & model) { return *model.impl_; }

    std::shared_ptr<const ModelFile> file;
    std::shared_ptr<OutputMatrices> output;
    std::shared_ptr<const Gate> gate;  // null: none
    std::unique_ptr<const ModelHeads> heads;
    ModelInfo info;
};

Model::Model(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;

Result<Model> Model::load(const std::string & path, const ModelOptions & options) {
    return guarded([&]() -> Result<Model> {
        PITH_RETURN_IF_ERROR(load_backends());
        auto impl = std::make_shared<Impl>();
        PITH_ASSIGN_OR_RETURN(auto file, ModelFile::load(path, {options.use_mmap, options.repack, options.progress,
                                                                available_memory(), options.devices}));
        PITH_ASSIGN_OR_RETURN(impl->file, add_adapter(std::move(file), options));
        if (!options.gate_file.empty()) {
            const GateProducts products =
                options.repack ? products_of_gates(impl->file->weight_type_name()) : GateProducts::kF32;
            PITH_ASSIGN_OR_RETURN(impl->gate, Gate::load(options.gate_file, *impl->file, products));
        }
        impl->output = std::make_shared<OutputMatrices>(impl->file);
        impl->heads = std::make_unique<const ModelHeads>(impl->file);
        impl->info = describe(*impl->file);
        impl->info.has_gates = impl->gate != nullptr;
        return Model(std::move(impl));
    });
}

const ModelInfo & Model::info() const {
    return impl_->info;
}

std::vector<DeviceUse> Model::devices() const {
    const Placement * placement = impl_->file->placement();
    return placement == nullptr ? std::vector<DeviceUse>() : placement->uses();
}

const ModelFile & file_of(const Model & model) {
    return *Model::Impl::of(model).file;
}
const ModelHeads & heads_of(const Model & model) {
    return *Model::Impl::of(model).heads;
}
std::shared_ptr<const Gate> gate_of(const Model & model) {
    return Model::Impl::of(model).gate;
}

Result<std::unique_ptr<LiveSession>> make_session(const Model & model, const SessionOptions & options,
                                                  const std::shared_ptr<Execution> & execution,
                                                  std::optional<KnownHeads> known) {
    PITH_RETURN_IF_ERROR(options.budget.check());
    const Model::Impl & impl = Model::Impl::of(model);
    auto session = std::make_unique<LiveSession>();
    session->model = model;
    session->file = impl.file;
    session->output = impl.output;
    session->options = options;
    // `auto` is settled when the prompt comes: until then it keeps what it would keep of one that nobody asks anything of.
    session->seq.policy_asked = options.policy;
    session->seq.budget = options.budget;
    if (!options.policy.is_auto()) { PITH_ASSIGN_OR_RETURN(session->seq.policy, named_policy(options.policy)); }
    session->layout = cache_layout(*impl.file, options.type_k, options.type_v);
    if (options.rotate_kv) { PITH_RETURN_IF_ERROR(rotate_quantised(*impl.file, session->layout)); }
    for (int l = 0; l < session->n_layers(); ++l) {
        if (session->layout.governs(l)) { session->governed.push_back(l); }
    }
    // What can be refused before a prompt is known is refused here.
    const bool has_gate = impl.gate != nullptr;
    if (known) {
        session->known_heads = *known;
    } else if (auto_wants_heads(options, has_gate)) {
        PITH_ASSIGN_OR_RETURN(session->known_heads, find_heads_for_auto(*impl.heads, session->options));
    }
    settle_policy(session->seq, session->known_heads, {.has_gates = has_gate});
    PITH_RETURN_IF_ERROR(session->seq.policy.check_gates(has_gate));
    PITH_RETURN_IF_ERROR(find_heads(*impl.heads, session->seq.policy, session->options));
    tell_policy(policy_names(session->seq), session->ledger);
    tell_evidence_notes(impl.file->hparams(), session->seq.policy);
    PITH_RETURN_IF_ERROR(observe(*impl.heads, impl.gate != nullptr, *session));
    session->governed_heads = heads_governed(*session);
    PITH_RETURN_IF_ERROR(RaggedCache::check_types(session->layout));
    for (const PositionSpan & span : options.pinned) {
        if (span.begin < 0 || span.end < span.begin) {
            return {ErrorCode::kInvalidArgument,
                    "pinned span [" + std::to_string(span.begin) + ", " + std::to_string(span.end) + ") is not a span"};
        }
    }
    constexpr size_t kMostWords = 1024;
    for (const auto * words : {&options.reread.first, &options.reread.next, &options.reread.behind}) {
        const bool in_vocabulary =
            std::ranges::all_of(*words, [&](int32_t token) { return token >= 0 && token < impl.info.n_vocab; });
        if (!in_vocabulary || words->size() > kMostWords) {
            return {ErrorCode::kInvalidArgument, "the words that ask for the text again are " + std::to_string(words->size()) +
                                                     " tokens: give at most " + std::to_string(kMostWords) +
                                                     ", each in the vocabulary"};
        }
    }
    if (options.n_threads < 0 || options.max_context < 0 || options.n_snapshots < 0) {
        return {ErrorCode::kInvalidArgument, "threads, context size and the number of snapshots must not be negative"};
    }
    std::shared_ptr<Execution> runs_it = execution;
    if (!runs_it) { PITH_ASSIGN_OR_RETURN(runs_it, Execution::make(impl.file, options.n_threads)); }
    session->execution = runs_it;
    session->forward = std::shared_ptr<Forward>(runs_it, &runs_it->forward);
    if (impl.gate) { session->gates = std::make_unique<SessionGates>(impl.file, impl.gate, runs_it->backend.get()); }
    session->ledger.devices = model.devices();
    if (!runs_it->lane_devices.empty()) {
        const Placement & placement = *impl.file->placement();
        if (session->seq.policy.gated()) {
            keep_lanes_here(placement, session->layout, "policy gated hides entries from the prompt that brings them",
                            session->ledger.devices);
        } else {
            PITH_RETURN_IF_ERROR(place_lanes(placement, runs_it->lane_devices, session->layout, session->ledger.devices));
        }
    }
    session->ledger.attention = attention_kernels(session->forward->observer().custom_operations(), session->layout);
    return session;
}

Result<std::shared_ptr<Execution>> make_execution(const Model & model, int n_threads) {
    return Execution::make(Model::Impl::of(model).file, n_threads);
}

Result<Session> Model::session(const SessionOptions & options) const {
    return guarded([&]() -> Result<Session> {
        PITH_ASSIGN_OR_RETURN(auto session, make_session(*this, options, nullptr));
        return hand_out(std::move(session));
    });
}

}  // namespace pith
