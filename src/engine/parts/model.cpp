// model.cpp - the public face of a loaded model. Stage: engine.
#include "pith/model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>

#include "core/guarded.h"
#include "device/available_memory.h"
#include "device/backend.h"
#include "engine/parts/model_parts.h"
#include "gate/gate_file.h"
#include "model/adapted_model.h"
#include "model/head_importance_file.h"
#include "model/lora_file.h"
#include "model/model_file.h"
#include "pith/log.h"

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
    info.weight_bytes_per_token = file.weight_bytes_per_token();
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

// Those given, else the importance beside the model; null: none.
Result<std::shared_ptr<const Gate>> find_gates(const ModelOptions & options, const ModelFile & file) {
    const GateProducts products = options.repack ? products_of_gates(file.weight_type_name()) : GateProducts::kF32;
    if (options.gate_file == kNoGates) { return std::shared_ptr<const Gate>(); }
    if (!options.gate_file.empty()) { return Gate::load(options.gate_file, file, products); }
    const std::string beside = path_beside_model(file.path(), kImportanceFileEnd);
    std::error_code error;
    if (!std::filesystem::exists(beside, error)) { return std::shared_ptr<const Gate>(); }
    auto found = Gate::load(beside, file, products);
    if (found.ok() && (*found)->config().purpose == GatePurpose::kRank) { return found; }
    log_line(LogLevel::kWarning, "the importance beside the model is not used: " +
                                     (found.ok() ? "'" + beside + "' holds gates that evict" : found.status().message()));
    return std::shared_ptr<const Gate>();
}

}  // namespace

struct Model::Impl : ModelParts {
    static const Impl & of(const Model & model) { return *model.impl_; }

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
        PITH_ASSIGN_OR_RETURN(impl->gate, find_gates(options, *impl->file));
        impl->output = std::make_shared<OutputMatrices>(impl->file);
        impl->heads = std::make_unique<const ModelHeads>(impl->file);
        impl->info = describe(*impl->file);
        impl->info.has_gates = known_gates(impl->gate.get()) == KnownGates::kThreshold;
        impl->info.has_importance = known_gates(impl->gate.get()) == KnownGates::kRank;
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

const ModelParts & parts_of(const Model & model) {
    return Model::Impl::of(model);
}

}  // namespace pith
