// gate_file.cpp - writes the file, and takes it apart with an error for each thing that may be wrong. Stage: gate.
#include "gate/gate_file.h"

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>
#include <gguf.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string_view>

#include "core/hash64.h"
#include "device/backend.h"
#include "file/gguf_header.h"
#include "file/mapped_file.h"
#include "file/write_file.h"
#include "model/model_identity.h"
#include "model/weight_store.h"

namespace pith {
namespace {

constexpr const char * kArchitecture = "pith-gate";
constexpr int kVersion = 1;
const std::string kPrefix = "pith.gate.";

Status bad_file(const std::string & path, const std::string & what) {
    return {ErrorCode::kBadFile, "gate '" + path + "' " + what + ": train it anew with `pith train gate`"};
}

// Takes typed values out of the metadata; remembers the first that is missing or of another kind.
class Values {
public:
    Values(const GgufHeader & header, const std::string & path) : header_(header), path_(path) {}

    int64_t integer(const std::string & key) {
        const auto * v = get<int64_t>(key);
        return v == nullptr ? 0 : *v;
    }
    int number(const std::string & key) { return static_cast<int>(std::clamp<int64_t>(integer(key), -1, int64_t{1} << 30)); }
    float real(const std::string & key) {
        const auto * v = get<double>(key);
        return v == nullptr ? 0.0F : static_cast<float>(*v);
    }
    std::string text(const std::string & key) {
        const auto * v = get<std::string>(key);
        return v == nullptr ? "" : *v;
    }
    // Of a key that older files lack.
    std::string text_or(const std::string & key, std::string_view otherwise) {
        return header_.find(kPrefix + key) == nullptr ? std::string(otherwise) : text(key);
    }
    const Status & status() const { return status_; }

private:
    template <class T>
    const T * get(const std::string & key) {
        const GgufValue * value = header_.find(kPrefix + key);
        const T * typed = value == nullptr ? nullptr : std::get_if<T>(value);
        if (typed == nullptr && status_.ok()) {
            status_ = bad_file(path_, (value == nullptr ? "lacks '" : "has another kind of value for '") + kPrefix + key + "'");
        }
        return typed;
    }
    const GgufHeader & header_;
    const std::string & path_;
    Status status_;
};

Status check_model(const std::string & path, Values & values, const ModelFile & model) {
    for (const auto & [key, wanted] : fingerprint_of(model)) {
        const bool is_text = std::holds_alternative<std::string>(wanted);
        const FingerprintValue found =
            is_text ? FingerprintValue(values.text("model." + key)) : FingerprintValue(values.integer("model." + key));
        PITH_RETURN_IF_ERROR(values.status());
        if (found != wanted) {
            return {ErrorCode::kInvalidArgument, "gate '" + path + "' was made for another model: its " + key + " is " +
                                                     to_text(found) + ", that of '" + model.path() + "' " + to_text(wanted) +
                                                     ": train one for this model with `pith train gate`"};
        }
    }
    return {};
}

Result<GateConfig> read_config(const std::string & path, Values & values, const Hparams & hparams) {
    GateConfig c;
    const Result<GateKind> kind = parse_gate_kind(values.text("kind"));
    const Result<GateSource> source = parse_gate_source(values.text("source"));
    const Result<GatePurpose> purpose = parse_gate_purpose(values.text_or("purpose", to_string(GatePurpose::kThreshold)));
    c.n_heads = values.number("heads");
    c.head_dim = values.number("head_dim");
    if (kind.ok() && *kind == GateKind::kMlp) { c.n_hidden = values.number("hidden"); }
    c.causal = values.integer("causal") != 0;
    c.n_recent = values.number("recent");
    c.first_layer = values.number("first_layer");
    c.tau = values.real("tau");
    c.gamma = values.real("gamma");
    PITH_RETURN_IF_ERROR(values.status());
    for (const Status & status : {kind.status(), source.status(), purpose.status()}) {
        if (!status.ok()) { return bad_file(path, "cannot be used (" + status.message() + ")"); }
    }
    c.kind = *kind;
    c.source = *source;
    c.purpose = *purpose;
    if (const Status status = check(c, hparams); !status.ok()) {
        return bad_file(path, "cannot be used (" + status.message() + ")");
    }
    return c;
}

// What a file must be before anything else in it is looked at.
Status check_kind(const std::string & path, const GgufHeader & header, Values & values) {
    if (header.string("general.architecture") != kArchitecture) { return bad_file(path, "is a GGUF, but not one of gates"); }
    const int64_t version = values.integer("version");
    PITH_RETURN_IF_ERROR(values.status());
    if (version != kVersion) {
        return bad_file(path,
                        "has version " + std::to_string(version) + " where this program reads " + std::to_string(kVersion));
    }
    return {};
}

std::string hash_of(const GgufHeader & header, std::span<const uint8_t> bytes) {
    std::vector<std::string> keys;
    for (const char * key :
         {"kind", "purpose", "hidden", "source", "heads", "head_dim", "causal", "recent", "first_layer", "tau", "gamma"}) {
        keys.push_back(kPrefix + key);
    }
    const IdentitySource source{&header, bytes};
    const std::string hashes = metadata_hash(header, keys) + table_hash({&source, 1}) + contents_hash({&source, 1});
    return hash_text(hash64(std::span(reinterpret_cast<const uint8_t *>(hashes.data()), hashes.size())));
}

// Of the tensor that every gate has, "gate.LAYER.out.bias".
std::optional<int> layer_of_gate(std::string_view name) {
    constexpr std::string_view kBegin = "gate.";
    int layer = 0;
    if (!name.starts_with(kBegin) || !name.ends_with(".out.bias")) { return std::nullopt; }
    const auto [end, error] = std::from_chars(name.data() + kBegin.size(), name.data() + name.size(), layer);
    return error == std::errc() ? std::optional<int>(layer) : std::nullopt;
}

GateTraining read_training(Values & values) {
    return {.alpha = values.real("training.alpha"),
            .beta = values.real("training.beta"),
            .n_steps = values.integer("training.steps"),
            .n_tokens = values.integer("training.tokens"),
            .retention = values.real("training.retention")};
}

std::span<const ggml_type> faster_types(GateProducts products) {
    static constexpr ggml_type kFastestFirst[] = {GGML_TYPE_Q8_0, GGML_TYPE_F16};
    if (products == GateProducts::kF32) { return {}; }
    return std::span(kFastestFirst).subspan(products == GateProducts::kQ8_0 ? 0 : 1);
}

// How a tensor lies in memory.
struct GateLayout {
    ggml_type type = GGML_TYPE_F32;
    ggml_backend_buffer_type_t buffer = nullptr;
};

GateLayout layout_of(const GateTensor & tensor, GateProducts products, int n_kv_heads) {
    // The projection to logits is thin: nothing is gained there.
    if (tensor.ne1 > n_kv_heads) {
        for (const ggml_type type : faster_types(products)) {
            if (tensor.ne0 % ggml_blck_size(type) != 0) { continue; }
            if (ggml_backend_buffer_type_t packed = repacked_buffer_type(type, tensor.ne0, tensor.ne1)) {
                return {type, packed};
            }
        }
    }
    return {GGML_TYPE_F32, ggml_backend_dev_buffer_type(cpu_device())};
}

// out: f32, or one of faster_types().
Status copy_tensor(const std::string & path, const GgufTensor & info, std::span<const uint8_t> bytes, ggml_tensor * out) {
    if (info.type != GGML_TYPE_F32 || !std::equal(info.ne, info.ne + 4, out->ne)) {
        return bad_file(path, "has tensor '" + info.name + "' of type " + ggml_type_name(info.type) + " and shape " +
                                  shape_text(info.ne) + " where f32 " + shape_text(out->ne) + " belongs");
    }
    std::vector<float> values(static_cast<size_t>(info.n_elements()));
    std::memcpy(values.data(), bytes.data() + info.offset, info.size);
    if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
        return bad_file(path, "has a number that is not finite in tensor '" + info.name + "'");
    }
    if (out->type == GGML_TYPE_F32) {
        ggml_backend_tensor_set(out, values.data(), 0, info.size);
        return {};
    }
    std::vector<uint8_t> rounded(ggml_nbytes(out));
    ggml_quantize_chunk(out->type, values.data(), rounded.data(), 0, ggml_nrows(out), out->ne[0], nullptr);
    ggml_backend_tensor_set(out, rounded.data(), 0, rounded.size());
    return {};
}

}  // namespace

Result<std::shared_ptr<const Gate>> Gate::load(const std::string & path, const ModelFile & model, GateProducts products) {
    PITH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path, "gate"));
    PITH_ASSIGN_OR_RETURN(const GgufHeader header, parse_gguf(file.bytes(), path));
    Values values(header, path);
    PITH_RETURN_IF_ERROR(check_kind(path, header, values));
    PITH_RETURN_IF_ERROR(check_model(path, values, model));

    std::shared_ptr<Gate> gate(new Gate);
    PITH_ASSIGN_OR_RETURN(gate->config_, read_config(path, values, model.hparams()));
    gate->training_ = read_training(values);
    gate->path_ = path;
    gate->hash_ = hash_of(header, file.bytes());
    PITH_RETURN_IF_ERROR(values.status());

    std::map<std::string, const GgufTensor *> tensors;
    for (const GgufTensor & t : header.tensors) { tensors[t.name] = &t; }
    const std::vector<GateTensor> wanted = gate_tensors(gate->config_, model.hparams(), gate->weights_);
    for (const GateTensor & t : wanted) {
        const GateLayout layout = layout_of(t, products, model.hparams().n_kv_heads);
        auto place = std::ranges::find(gate->places_, layout.buffer, &Place::type);
        if (place == gate->places_.end()) {
            place = gate->places_.insert(
                place, {layout.buffer, ggml_init({(wanted.size() + 1) * ggml_tensor_overhead(), nullptr, true}), nullptr});
            if (place->ctx == nullptr) { return {ErrorCode::kOutOfMemory, "no memory for the table of gates"}; }
        }
        *t.slot = ggml_new_tensor_2d(place->ctx, layout.type, t.ne0, std::max<int64_t>(t.ne1, 1));
        ggml_set_name(*t.slot, t.name.c_str());
        gate->n_params_ += ggml_nelements(*t.slot);
    }
    for (Place & place : gate->places_) {
        place.buffer = ggml_backend_alloc_ctx_tensors_from_buft(place.ctx, place.type);
        if (place.buffer == nullptr) { return {ErrorCode::kOutOfMemory, "no memory for the gates of '" + path + "'"}; }
        ggml_backend_buffer_set_usage(place.buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }
    for (const GateTensor & t : wanted) {
        const auto it = tensors.find(t.name);
        if (it == tensors.end()) { return bad_file(path, "lacks tensor '" + t.name + "'"); }
        PITH_RETURN_IF_ERROR(copy_tensor(path, *it->second, file.bytes(), *t.slot));
    }
    if (tensors.size() != wanted.size()) {
        return bad_file(
            path, "holds " + std::to_string(tensors.size()) + " tensors where its gates have " + std::to_string(wanted.size()));
    }
    return std::shared_ptr<const Gate>(std::move(gate));
}

Result<GateFileInfo> read_gate_info(const std::string & path) {
    PITH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path, "gate"));
    PITH_ASSIGN_OR_RETURN(const GgufHeader header, parse_gguf(file.bytes(), path));
    Values values(header, path);
    PITH_RETURN_IF_ERROR(check_kind(path, header, values));
    GateFileInfo info;
    for (const char * key :
         {"architecture", "n_layers", "n_heads", "n_kv_heads", "head_dim", "n_embd", "n_vocab", "n_params", "norm_hash"}) {
        const std::string name = std::string("model.") + key;
        const GgufValue * value = header.find(kPrefix + name);
        const bool is_text = value != nullptr && std::holds_alternative<std::string>(*value);
        info.model.emplace_back(key, is_text ? FingerprintValue(values.text(name)) : FingerprintValue(values.integer(name)));
    }
    Hparams shape;  // as far as a gate's form depends on it
    shape.n_layers = values.number("model.n_layers");
    PITH_ASSIGN_OR_RETURN(info.config, read_config(path, values, shape));
    info.training = read_training(values);
    PITH_RETURN_IF_ERROR(values.status());
    for (const GgufTensor & t : header.tensors) {
        info.n_params += t.n_elements();
        if (const auto layer = layer_of_gate(t.name)) { info.layers.push_back(*layer); }
    }
    std::ranges::sort(info.layers);
    return info;
}

Gate::~Gate() {
    for (const Place & place : places_) {
        if (place.buffer != nullptr) { ggml_backend_buffer_free(place.buffer); }
        if (place.ctx != nullptr) { ggml_free(place.ctx); }
    }
}

Status save_gate(const std::string & path, const GateConfig & config, const GateWeights & weights,
                 const GateTraining & training, const ModelFile & model) {
    const std::unique_ptr<gguf_context, decltype(&gguf_free)> gguf(gguf_init_empty(), &gguf_free);
    gguf_context * g = gguf.get();
    const auto key = [](const std::string & name) { return kPrefix + name; };
    const auto text = [&](const std::string & name, std::string_view value) {
        gguf_set_val_str(g, key(name).c_str(), std::string(value).c_str());
    };
    const auto integer = [&](const std::string & name, int64_t value) { gguf_set_val_i64(g, key(name).c_str(), value); };
    const auto real = [&](const std::string & name, float value) { gguf_set_val_f32(g, key(name).c_str(), value); };
    gguf_set_val_str(g, "general.architecture", kArchitecture);
    integer("version", kVersion);
    text("kind", to_string(config.kind));
    text("source", to_string(config.source));
    if (config.purpose != GatePurpose::kThreshold) {
        text("purpose", to_string(config.purpose));
    }  // older readers know the rest
    if (config.kind == GateKind::kMlp) { integer("hidden", config.n_hidden); }
    integer("heads", config.n_heads);
    integer("head_dim", config.head_dim);
    gguf_set_val_bool(g, key("causal").c_str(), config.causal);
    integer("recent", config.n_recent);
    integer("first_layer", config.first_layer);
    real("tau", config.tau);
    real("gamma", config.gamma);
    for (const auto & [name, value] : fingerprint_of(model)) {
        if (const auto * number = std::get_if<int64_t>(&value)) {
            integer("model." + name, *number);
        } else {
            text("model." + name, std::get<std::string>(value));
        }
    }
    real("training.alpha", training.alpha);
    real("training.beta", training.beta);
    integer("training.steps", training.n_steps);
    integer("training.tokens", training.n_tokens);
    real("training.retention", training.retention);

    GateWeights places = weights;
    const std::vector<GateTensor> list = gate_tensors(config, model.hparams(), places);
    const std::unique_ptr<ggml_context, decltype(&ggml_free)> ctx(
        ggml_init({(list.size() + 1) * ggml_tensor_overhead(), nullptr, true}), &ggml_free);
    if (ctx == nullptr) { return {ErrorCode::kOutOfMemory, "no memory for the table of gates"}; }
    std::vector<const void *> data;
    for (const GateTensor & t : list) {
        const ggml_tensor * source = *t.slot;
        ggml_tensor * described = t.ne1 > 0 ? ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, t.ne0, t.ne1)
                                            : ggml_new_tensor_1d(ctx.get(), GGML_TYPE_F32, t.ne0);
        ggml_set_name(described, t.name.c_str());
        gguf_add_tensor(g, described);
        data.push_back(source->data);
    }
    return write_gguf(path, g, data);
}

}  // namespace pith
