// lora_file.cpp - LoRA adapters as GGUF. Stage: model.
#include "model/lora_file.h"

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>
#include <gguf.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "core/hash64.h"
#include "device/backend.h"
#include "file/gguf_header.h"
#include "file/mapped_file.h"
#include "file/write_file.h"
#include "model/arch/architecture.h"
#include "model/model_identity.h"

namespace pith {
namespace {

Status bad_file(const std::string & path, const std::string & what) {
    return {ErrorCode::kBadFile, "adapter '" + path + "' " + what};
}

std::string tensor_name(int layer, const LoraTarget & target) {
    return "blk." + std::to_string(layer) + "." + target.name + ".weight";
}

// The tensor's numbers as f32.
Result<std::vector<float>> read_values(const std::string & path, const GgufTensor & info, std::span<const uint8_t> bytes) {
    std::vector<float> values(static_cast<size_t>(info.n_elements()));
    if (info.type == GGML_TYPE_F32) {
        std::memcpy(values.data(), bytes.data() + info.offset, info.size);
    } else if (const auto to_float = ggml_get_type_traits(info.type)->to_float; to_float != nullptr) {
        to_float(bytes.data() + info.offset, values.data(), info.n_elements());
    } else {
        return bad_file(path,
                        "has tensor '" + info.name + "' of type " + ggml_type_name(info.type) + ", which holds no weights");
    }
    if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
        return bad_file(path, "has a number that is not finite in tensor '" + info.name + "'");
    }
    return values;
}

Status check_kind(const std::string & path, const GgufHeader & header) {
    if (header.string("general.type") != "adapter") { return bad_file(path, "is a GGUF, but not one of an adapter"); }
    const std::string kind = header.string("adapter.type").value_or("none");
    if (kind != "lora") { return bad_file(path, "is of type '" + kind + "' where 'lora' belongs"); }
    // It counts from a mark in the text on, and was trained with the bare model before that.
    if (header.find("adapter.alora.invocation_tokens") != nullptr) {
        return {ErrorCode::kUnsupported,
                "adapter '" + path +
                    "' is an activated LoRA (adapter.alora.invocation_tokens), which counts from a mark in "
                    "the text on: that is not supported; use a plain LoRA of the same task"};
    }
    return {};
}

std::string hash_of(const GgufHeader & header, std::span<const uint8_t> bytes) {
    const IdentitySource source{&header, bytes};
    const std::string prefixes[] = {"adapter.lora.alpha"};
    const std::string hashes = metadata_hash(header, prefixes) + table_hash({&source, 1}) + contents_hash({&source, 1});
    return hash_text(hash64(std::span(reinterpret_cast<const uint8_t *>(hashes.data()), hashes.size())));
}

Result<double> read_alpha(const std::string & path, const GgufHeader & header) {
    const GgufValue * value = header.find("adapter.lora.alpha");
    if (value == nullptr) { return 0.0; }
    if (const auto * whole = std::get_if<int64_t>(value)) { return static_cast<double>(*whole); }
    const auto * alpha = std::get_if<double>(value);
    if (alpha == nullptr || !std::isfinite(*alpha)) {
        return bad_file(path, "has an adapter.lora.alpha that is no finite number");
    }
    return *alpha;
}

Status check_header(const std::string & path, const GgufHeader & header, const ModelFile & model) {
    PITH_RETURN_IF_ERROR(check_kind(path, header));
    const std::string arch = header.string("general.architecture").value_or("none");
    const Architecture * known = find_architecture(arch);  // converters have several names for some
    if (arch != model.hparams().arch_name && (known == nullptr || known != find_architecture(model.hparams().arch_name))) {
        return {ErrorCode::kInvalidArgument, "adapter '" + path + "' is for architecture '" + arch + "', '" + model.path() +
                                                 "' is '" + model.hparams().arch_name + "'"};
    }
    return {};
}

Status check_pair(const std::string & path, const std::string & name, const GgufTensor & a, const GgufTensor & b,
                  const ggml_tensor * weight) {
    if (a.ne[0] == weight->ne[0] && b.ne[1] == weight->ne[1] && a.ne[1] == b.ne[0] && a.ne[1] > 0) { return {}; }
    return {ErrorCode::kInvalidArgument, "adapter '" + path + "': the pair of '" + name + "' has shapes " + shape_text(a.ne) +
                                             " and " + shape_text(b.ne) + ", which do not fit " + shape_text(weight->ne) +
                                             ": it was made for another model"};
}

}  // namespace

const std::vector<LoraTarget> & lora_targets() {
    static const std::vector<LoraTarget> targets = {
        {"attn_q", &LayerWeights::wq, &LayerWeights::lora_q},
        {"attn_k", &LayerWeights::wk, &LayerWeights::lora_k},
        {"attn_v", &LayerWeights::wv, &LayerWeights::lora_v},
        {"attn_output", &LayerWeights::wo, &LayerWeights::lora_o},
    };
    return targets;
}

Result<std::shared_ptr<const LoraAdapter>> LoraAdapter::load(const std::string & path, const ModelFile & model) {
    PITH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path, "adapter"));
    PITH_ASSIGN_OR_RETURN(const GgufHeader header, parse_gguf(file.bytes(), path));
    PITH_RETURN_IF_ERROR(check_header(path, header, model));
    PITH_ASSIGN_OR_RETURN(const double alpha, read_alpha(path, header));

    std::map<std::string, const GgufTensor *> left;  // not yet used
    for (const GgufTensor & t : header.tensors) { left[t.name] = &t; }
    std::shared_ptr<LoraAdapter> self(new LoraAdapter);
    self->path_ = path;
    self->hash_ = hash_of(header, file.bytes());
    self->pairs_.layers.resize(model.weights().layers.size());
    self->ctx_ = ggml_init({(header.tensors.size() + 1) * ggml_tensor_overhead(), nullptr, true});
    if (self->ctx_ == nullptr) { return {ErrorCode::kOutOfMemory, "no memory for the adapter's table"}; }
    std::vector<std::pair<ggml_tensor *, const GgufTensor *>> placed;
    for (size_t l = 0; l < self->pairs_.layers.size(); ++l) {
        for (const LoraTarget & target : lora_targets()) {
            const std::string name = tensor_name(static_cast<int>(l), target);
            const auto a = left.find(name + ".lora_a"), b = left.find(name + ".lora_b");
            if (a == left.end() && b == left.end()) { continue; }
            if (a == left.end() || b == left.end()) { return bad_file(path, "has only half a pair for '" + name + "'"); }
            if (model.weights().layers[l].*target.weight == nullptr) {
                return bad_file(path, "has a pair for '" + name + "', a matrix that the model does not have");
            }
            PITH_RETURN_IF_ERROR(check_pair(path, name, *a->second, *b->second, model.weights().layers[l].*target.weight));
            LoraPair & pair = self->pairs_.layers[l].*target.pair;
            for (const auto & [tensor, info] : {std::pair{&pair.a, a->second}, std::pair{&pair.b, b->second}}) {
                *tensor = ggml_new_tensor_2d(self->ctx_, GGML_TYPE_F32, info->ne[0], info->ne[1]);
                ggml_set_name(*tensor, info->name.c_str());
                placed.emplace_back(*tensor, info);
            }
            const auto rank = static_cast<double>(pair.b->ne[0]);
            pair.scale = static_cast<float>(alpha != 0 ? alpha / rank : 1.0);  // as llama.cpp has it
            self->rank_ = std::max(self->rank_, static_cast<int>(rank));
            ++self->n_pairs_;
            left.erase(a);
            left.erase(b);
        }
    }
    if (!left.empty()) {
        return {ErrorCode::kUnsupported,
                "adapter '" + path + "' has tensor '" + left.begin()->first +
                    "': only those of attn_q, attn_k, attn_v and attn_output of the model's layers can be used"};
    }
    if (self->n_pairs_ == 0) { return bad_file(path, "holds no tensors"); }
    self->buffer_ = ggml_backend_alloc_ctx_tensors_from_buft(self->ctx_, ggml_backend_dev_buffer_type(cpu_device()));
    if (self->buffer_ == nullptr) { return {ErrorCode::kOutOfMemory, "no memory for the adapter '" + path + "'"}; }
    for (const auto & [tensor, info] : placed) {
        PITH_ASSIGN_OR_RETURN(const std::vector<float> values, read_values(path, *info, file.bytes()));
        ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
    }
    return std::shared_ptr<const LoraAdapter>(std::move(self));
}

Result<LoraFileInfo> read_lora_info(const std::string & path) {
    PITH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path, "adapter"));
    PITH_ASSIGN_OR_RETURN(const GgufHeader header, parse_gguf(file.bytes(), path));
    PITH_RETURN_IF_ERROR(check_kind(path, header));
    LoraFileInfo info;
    info.architecture = header.string("general.architecture").value_or("none");
    PITH_ASSIGN_OR_RETURN(info.alpha, read_alpha(path, header));
    std::set<std::string> layers;
    for (const GgufTensor & t : header.tensors) {
        info.n_params += t.n_elements();
        info.size_bytes += t.size;
        // "blk.LAYER.TARGET.weight.lora_a", or another matrix's name in front of ".weight"
        std::string name = t.name.substr(0, t.name.find(".weight"));
        if (const size_t dot = name.find('.', 4); name.starts_with("blk.") && dot != std::string::npos) {
            layers.insert(name.substr(4, dot - 4));
            name = name.substr(dot + 1);
        }
        auto target = std::ranges::find(info.targets, name, &LoraFileInfo::Target::name);
        if (target == info.targets.end()) { target = info.targets.insert(target, {.name = name}); }
        if (t.name.ends_with(".lora_a")) {
            ++target->n_pairs;
            target->n_in = t.ne[0];
            info.rank = std::max(info.rank, static_cast<int>(t.ne[1]));
        } else {
            target->n_out = t.ne[1];
        }
    }
    info.n_layers = static_cast<int>(layers.size());
    return info;
}

LoraAdapter::~LoraAdapter() {
    if (buffer_ != nullptr) { ggml_backend_buffer_free(buffer_); }
    if (ctx_ != nullptr) { ggml_free(ctx_); }
}

Weights LoraAdapter::apply(const Weights & weights, float strength) const {
    Weights out = weights;
    for (size_t l = 0; l < out.layers.size(); ++l) {
        for (const LoraTarget & target : lora_targets()) {
            LoraPair pair = pairs_.layers[l].*target.pair;
            pair.scale *= strength;
            out.layers[l].*target.pair = pair.scale != 0.0F ? pair : LoraPair();
        }
    }
    return out;
}

Status save_lora(const std::string & path, const Weights & weights, const ModelFile & model) {
    const std::unique_ptr<gguf_context, decltype(&gguf_free)> gguf(gguf_init_empty(), &gguf_free);
    gguf_context * g = gguf.get();
    gguf_set_val_str(g, "general.type", "adapter");
    gguf_set_val_str(g, "general.architecture", model.hparams().arch_name.c_str());
    gguf_set_val_str(g, "adapter.type", "lora");
    const std::unique_ptr<ggml_context, decltype(&ggml_free)> ctx(
        ggml_init({(weights.layers.size() * lora_targets().size() * 2 + 1) * ggml_tensor_overhead(), nullptr, true}),
        &ggml_free);
    if (ctx == nullptr) { return {ErrorCode::kOutOfMemory, "no memory for the adapter's table"}; }
    std::vector<const void *> data;
    for (size_t l = 0; l < weights.layers.size(); ++l) {
        for (const LoraTarget & target : lora_targets()) {
            const LoraPair & pair = weights.layers[l].*target.pair;
            if (pair.a == nullptr) { continue; }
            gguf_set_val_f32(g, "adapter.lora.alpha", pair.scale * static_cast<float>(pair.b->ne[0]));
            const std::string name = tensor_name(static_cast<int>(l), target);
            for (const auto & [end, tensor] : {std::pair{".lora_a", pair.a}, std::pair{".lora_b", pair.b}}) {
                ggml_tensor * described = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, tensor->ne[0], tensor->ne[1]);
                ggml_set_name(described, (name + end).c_str());
                gguf_add_tensor(g, described);
                data.push_back(tensor->data);
            }
        }
    }
    return write_gguf(path, g, data);
}

}  // namespace pith
