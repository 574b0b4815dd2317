// model_file.cpp - opens a GGUF model: parts → hyper-parameters → tensors checked → tensors placed. Stage: model.
#include "model/model_file.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <unordered_map>

#include "core/hash64.h"
#include "core/items.h"
#include "device/backend.h"
#include "device/device_work.h"
#include "file/file_parts.h"
#include "model/arch/read_hparams.h"
#include "model/file_type.h"
#include "model/fused_weights.h"
#include "model/shared_vectors.h"
#include "model/weight_store.h"
#include "model/weight_table.h"
#include "pith/log.h"

namespace pith {
namespace {

struct FoundTensor {
    const GgufTensor * info = nullptr;
    const FilePart * part = nullptr;
    bool used = false;
};

// Why a tensor that no computation on text reads may be there.
enum class Unread {
    kNoReason,      // a model that computes something else
    kLeftover,      // of a converter
    kOtherSenses,   // the encoders of images and sound in Ollama's files, and what fits them to the model
    kFurtherTokens  // the blocks behind the last layer that predict further tokens
};

// Of "blk.12.attn_q.weight" 12; -1: of no block.
int block_of(const std::string & name) {
    int block = -1;
    if (name.starts_with("blk.")) { std::from_chars(name.data() + 4, name.data() + name.size(), block); }
    return block;
}

Unread why_unread(const std::string & name, const Hparams & hparams) {
    if (name.ends_with(".attn_rot_embd.weight") || name.ends_with(".attn_rot_embd") || name.ends_with(".rotary_emb.inv_freq")) {
        return Unread::kLeftover;
    }
    const int block = block_of(name);
    if (block >= 0 && block < hparams.n_layers && hparams.layer(block).kv_source >= 0) {
        for (const char * end : {".attn_k.weight", ".attn_v.weight", ".attn_k_norm.weight"}) {
            if (name.ends_with(end)) { return Unread::kLeftover; }  // the layer reads another's
        }
    }
    for (const char * begin : {"v.", "a.", "mm.", "model.vision_tower."}) {
        if (name.starts_with(begin)) { return Unread::kOtherSenses; }
    }
    if (name.starts_with("mtp.")) { return Unread::kFurtherTokens; }
    const bool is_counted = block < hparams.n_layers + hparams.n_nextn_layers;
    if (block >= hparams.n_layers && (is_counted || name.find(".nextn.") != std::string::npos)) {
        return Unread::kFurtherTokens;
    }
    return Unread::kNoReason;
}

class LoadedModel : public ModelFile {
public:
    Status open(const std::string & path);
    Status choose_devices(const DeviceOptions & options);  // for what open() found
    Status place(const ModelFileOptions & options);        // what open() found

    const std::string & path() const override { return parts_.front().path; }
    const Hparams & hparams() const override { return hparams_; }
    const Weights & weights() const override { return weights_; }
    size_t weight_bytes() const override { return weight_bytes_; }
    size_t weight_bytes_per_token() const override { return weight_bytes_per_token_; }
    size_t resident_copies_bytes() const override { return store_.copied_bytes(); }
    const std::string & weight_type_name() const override { return shares_.front().type; }
    const std::vector<WeightShare> & weight_shares() const override { return shares_; }
    const std::string & file_type() const override { return file_type_; }
    int64_t n_params() const override { return n_params_; }
    const Placement * placement() const override { return placement_.get(); }
    Result<std::vector<float>> read_output_projection(int layer) const override;
    ModelIdentity identity() const override;
    std::string norms_hash() const override;

private:
    Status index_tensors();
    Status split_fused();
    Status check_all_used() const;
    Result<PlacedWeight> match(const WantedWeight & wanted);
    Status check_shape(const WantedWeight & wanted, const FoundTensor & found) const;
    Status missing(const WantedWeight & wanted) const;
    static Status there_twice(const FoundTensor & found, const std::string & in);
    void sum_up();

    int device_of(const PlacedWeight & weight) const;

    std::vector<FilePart> parts_;           // before store_: the mapped files outlive the buffers over them,
    std::shared_ptr<Placement> placement_;  // and connections those on the other side; null: none
    Hparams hparams_;
    Weights weights_;
    WeightStore store_;
    std::unordered_map<std::string, FoundTensor> tensors_;
    std::deque<GgufTensor> parts_of_tensors_;  // in place of those that split_fused() took apart
    std::vector<PlacedWeight> wanted_;         // the tensors that become weights
    size_t weight_bytes_ = 0;
    size_t weight_bytes_per_token_ = 0;
    std::vector<WeightShare> shares_;
    std::string file_type_;
    int64_t n_params_ = 0;
    mutable std::once_flag identified_;
    mutable ModelIdentity identity_;
};

Status LoadedModel::index_tensors() {
    for (const FilePart & part : parts_) {
        for (const GgufTensor & tensor : part.header.tensors) {
            if (!tensors_.emplace(tensor.name, FoundTensor{&tensor, &part}).second) {
                return {ErrorCode::kBadFile, "'" + part.path + "': tensor '" + tensor.name + "' occurs in two parts"};
            }
        }
    }
    return {};
}

Status LoadedModel::split_fused() {
    for (const FusedWeight & fused : fused_weights(hparams_)) {
        const auto it = tensors_.find(fused.name);
        if (it == tensors_.end() || tensors_.contains(fused.parts.front().name)) { continue; }  // apart, as in other files
        const FoundTensor found = it->second;
        PITH_ASSIGN_OR_RETURN(std::vector<GgufTensor> parts, split_rows(*found.info, fused, found.part->path));
        tensors_.erase(it);
        for (GgufTensor & part : parts) {
            const GgufTensor & kept = parts_of_tensors_.emplace_back(std::move(part));
            if (!tensors_.emplace(kept.name, FoundTensor{&kept, found.part}).second) {
                return there_twice({&kept, found.part}, fused.name);
            }
        }
    }
    return {};
}

Status LoadedModel::there_twice(const FoundTensor & found, const std::string & in) {
    return {ErrorCode::kBadFile,
            "'" + found.part->path + "': tensor '" + found.info->name + "' is there twice, by itself and in '" + in + "'"};
}

Status LoadedModel::missing(const WantedWeight & wanted) const {
    const size_t cut = wanted.name.find("_exps.weight");
    if (cut != std::string::npos && tensors_.contains(wanted.name.substr(0, cut) + ".0.weight")) {
        return {ErrorCode::kUnsupported, "'" + path() + "': experts are stored one tensor each ('" +
                                             wanted.name.substr(0, cut) +
                                             ".0.weight'), as old Mixtral files have them: convert the model again"};
    }
    return {ErrorCode::kBadFile, "'" + path() + "': tensor '" + wanted.name + "' is missing (needed by architecture '" +
                                     hparams_.arch_name + "', shape " + shape_text(wanted.ne) + ")"};
}

Status LoadedModel::check_shape(const WantedWeight & wanted, const FoundTensor & found) const {
    const GgufTensor & info = *found.info;
    const std::string what = "'" + found.part->path + "': tensor '" + wanted.name + "' has ";
    if (!std::equal(wanted.ne.begin(), wanted.ne.end(), info.ne)) {
        return {ErrorCode::kBadFile, what + "shape " + shape_text(info.ne) + ", expected " + shape_text(wanted.ne)};
    }
    const bool is_float = info.type == GGML_TYPE_F32 || info.type == GGML_TYPE_F16 || info.type == GGML_TYPE_BF16;
    if (wanted.use == WeightUse::kVector ? !is_float : !is_weight_type(info.type)) {
        return {ErrorCode::kUnsupported,
                what + "type " + ggml_type_name(info.type) + ", expected " +
                    (wanted.use == WeightUse::kVector ? "f32, f16 or bf16" : "a floating-point or quantised weight type")};
    }
    return {};
}

// An absent optional tensor gives a PlacedWeight without info.
Result<PlacedWeight> LoadedModel::match(const WantedWeight & wanted) {
    auto it = tensors_.find(wanted.name);
    if (it == tensors_.end() && !wanted.other_name.empty()) { it = tensors_.find(wanted.other_name); }
    const bool has_other = !wanted.unless.empty() && tensors_.contains(wanted.unless);
    if (it == tensors_.end()) {
        if (wanted.required && !has_other) { return missing(wanted); }
        return PlacedWeight{};
    }
    if (has_other) { return there_twice(it->second, wanted.unless); }
    PITH_RETURN_IF_ERROR(check_shape(wanted, it->second));
    it->second.used = true;
    return PlacedWeight{it->second.info, &it->second.part->file, wanted.use, wanted.slot,
                        nullptr,         Placement::kCpu,        wanted.name};
}

// A tensor nobody reads (a bias, a scale) means a model that computes something else: a wrong answer, were it ignored.
Status LoadedModel::check_all_used() const {
    int n_of_senses = 0;
    int n_of_further = 0;
    for (const auto & [name, found] : tensors_) {
        if (found.used) { continue; }
        const Unread why = why_unread(name, hparams_);
        n_of_senses += why == Unread::kOtherSenses ? 1 : 0;
        n_of_further += why == Unread::kFurtherTokens ? 1 : 0;
        if (why == Unread::kNoReason) {
            return {ErrorCode::kUnsupported, "'" + found.part->path + "': tensor '" + name +
                                                 "' has no place in architecture '" + hparams_.arch_name +
                                                 "' as Pith computes it"};
        }
    }
    if (n_of_senses + n_of_further > 0) {
        log_line(LogLevel::kInfo, "'" + path() + "': text alone is run; left unread are " + std::to_string(n_of_senses) +
                                      " tensors for images and sound and " + std::to_string(n_of_further) +
                                      " that predict further tokens");
    }
    return {};
}

Result<std::vector<float>> LoadedModel::read_output_projection(int layer) const {
    const ggml_tensor * placed = weights_.layers[static_cast<size_t>(layer)].wo;
    const FoundTensor & found = tensors_.at(placed->name);
    const GgufTensor & info = *found.info;
    const uint8_t * bytes = found.part->file.bytes().data() + info.offset;
    std::vector<uint8_t> own;
    if (placed->data != bytes) {  // a model that was copied goes on when its file changes: no page of the map is touched
        own.resize(info.size);
        if (const Status read = found.part->file.copy(info.offset, own); !read.ok()) {
            return {read.code(), "'" + found.part->path + "': tensor '" + info.name + "' cannot be read: " + read.message()};
        }
        bytes = own.data();
    }
    std::vector<float> values(static_cast<size_t>(info.n_elements()));
    if (info.type == GGML_TYPE_F32) {
        std::memcpy(values.data(), bytes, info.size);
    } else {
        const auto to_float = ggml_get_type_traits(info.type)->to_float;
        if (to_float == nullptr) {
            return {ErrorCode::kUnsupported, "'" + found.part->path + "': tensor '" + info.name + "' of type " +
                                                 ggml_type_name(info.type) + " cannot be dequantised"};
        }
        to_float(bytes, values.data(), info.n_elements());
    }
    if (!own.empty()) { found.part->file.drop(info.offset, info.size); }  // or it would be resident twice
    return values;
}

ModelIdentity LoadedModel::identity() const {
    std::call_once(identified_, [this] {
        std::vector<IdentitySource> files;
        for (const FilePart & part : parts_) { files.push_back({&part.header, part.file.bytes(), &part.file}); }
        const std::string own = hparams_.arch_name + ".";
        const std::string prefixes[] = {own, "tokenizer.ggml."};
        identity_ = {{"architecture", hparams_.arch_name},
                     {"metadata", metadata_hash(parts_.front().header, prefixes)},
                     {"tensor table", table_hash(files)},
                     {"weights", contents_hash(files)},
                     {kLoraItem, "none"}};
    });
    return identity_;
}

std::string LoadedModel::norms_hash() const {
    // By the names that this program has for them: converters differ.
    std::map<std::string, const PlacedWeight *> norms;
    for (const PlacedWeight & weight : wanted_) {
        if (weight.use != WeightUse::kVector || weight.name.find("norm") == std::string::npos) { continue; }
        norms.emplace(weight.name, &weight);
    }
    Hash64 hash;
    std::vector<float> values;
    for (const auto & [name, norm] : norms) {
        const GgufTensor & info = *norm->info;
        const uint8_t * bytes = norm->file->bytes().data() + info.offset;
        values.resize(static_cast<size_t>(info.n_elements()));
        if (info.type == GGML_TYPE_F32) {
            std::memcpy(values.data(), bytes, info.size);
        } else {
            ggml_get_type_traits(info.type)->to_float(bytes, values.data(), info.n_elements());  // f16 or bf16: check_shape()
        }
        hash.add({reinterpret_cast<const uint8_t *>(values.data()), values.size() * sizeof(float)});
    }
    return hash_text(hash.value());
}

void LoadedModel::sum_up() {
    std::map<ggml_type, WeightShare> of_type;
    for (const auto & [name, found] : tensors_) {
        if (!found.used) { continue; }
        weight_bytes_ += found.info->size;
        n_params_ += found.info->n_elements();
        WeightShare & share = of_type[found.info->type];
        share.bytes += found.info->size;
        share.n_weights += found.info->n_elements();
        ++share.n_tensors;
    }
    for (auto & [type, share] : of_type) {
        share.type = ggml_type_name(type);
        shares_.push_back(std::move(share));
    }
    for (const PlacedWeight & weight : wanted_) {
        if (weight.use == WeightUse::kRows) { continue; }  // one row of it
        const size_t size = weight.info->size;
        const bool is_chosen = weight.use == WeightUse::kExperts && hparams_.n_experts > 0;
        weight_bytes_per_token_ +=
            is_chosen ? size / static_cast<size_t>(hparams_.n_experts) * static_cast<size_t>(hparams_.n_experts_used) : size;
    }
    std::ranges::stable_sort(shares_, std::ranges::greater(), &WeightShare::bytes);
    file_type_ = file_type_text(parts_.front().header, shares_);
}

Status LoadedModel::open(const std::string & path) {
    PITH_ASSIGN_OR_RETURN(parts_, open_parts(path));
    PITH_ASSIGN_OR_RETURN(hparams_, read_hparams(parts_.front().header, parts_.front().path));
    PITH_RETURN_IF_ERROR(index_tensors());
    if (hparams_.n_vocab == 0) {  // a file without a tokeniser
        const auto it = tensors_.find("token_embd.weight");
        hparams_.n_vocab = it == tensors_.end() ? 0 : static_cast<int>(std::min<int64_t>(it->second.info->ne[1], 1 << 28));
    }
    PITH_RETURN_IF_ERROR(split_fused());

    for (const WantedWeight & wanted : wanted_weights(hparams_, weights_)) {
        PITH_ASSIGN_OR_RETURN(const PlacedWeight weight, match(wanted));
        if (weight.info != nullptr) {
            wanted_.push_back(weight);
        } else if (wanted.slot == &weights_.output) {  // tied: a second, possibly repacked, use of the embedding's bytes
            const FoundTensor & embedding = tensors_.at("token_embd.weight");
            wanted_.push_back({embedding.info, &embedding.part->file, WeightUse::kMatmul, wanted.slot, &weights_.token_embd});
        }
    }
    PITH_RETURN_IF_ERROR(check_all_used());
    sum_up();
    return {};
}

// What the layer's own operations read goes with it. Sinks are read by the attention, and rows of embeddings are looked up one
// by one: they stay on the CPU. So do frequency factors and the last norm, of which copies lie there (shared_vectors.h).
int LoadedModel::device_of(const PlacedWeight & weight) const {
    if (weight.slot == &weights_.output || weight.slot == &weights_.output_bias) { return placement_->of_output(); }
    const int block = block_of(weight.info->name);
    if (block < 0 || weight.slot == &weights_.layers[static_cast<size_t>(block)].sinks) { return Placement::kCpu; }
    return placement_->of_layer[static_cast<size_t>(block)];
}

Status LoadedModel::choose_devices(const DeviceOptions & options) {
    if (!options.any()) { return {}; }
    PITH_ASSIGN_OR_RETURN(placement_, place_layers(options, hparams_.n_layers));
    for (PlacedWeight & weight : wanted_) {
        weight.device = device_of(weight);
        const int there = weight.slot == &weights_.output_norm ? placement_->of_output() : weight.device;
        if (there == Placement::kCpu) { continue; }
        const bool is_vector = weight.use == WeightUse::kVector;
        placement_->n_weight_bytes[static_cast<size_t>(there)] +=
            is_vector ? static_cast<size_t>(weight.info->n_elements()) * sizeof(float) : weight.info->size;
    }
    return {};
}

Status LoadedModel::place(const ModelFileOptions & options) {
    const size_t on_devices_bytes = placement_ ? placement_->weight_bytes() : 0;
    const size_t here_bytes = weight_bytes_ - std::min(weight_bytes_, on_devices_bytes);
    const bool too_large = options.free_bytes > 0 && here_bytes > options.free_bytes;
    if (too_large) {
        const std::string what = "'" + path() + "': the weights take " + std::to_string(here_bytes >> 20U) + " MiB, and " +
                                 std::to_string(options.free_bytes >> 20U) + " MiB of memory are left: ";
        if (!options.use_mmap) {
            return {ErrorCode::kOutOfMemory, what + "leave out " + item::kMmap + ", or use a smaller model"};
        }
        log_line(LogLevel::kWarning, what + "they are read from the file again and again, which is slow");
    } else {
        for (const FilePart & part : parts_) { part.file.prefetch(); }
    }
    const bool repack = options.repack && !too_large;
    const auto place_weights = [&] {
        const std::span<const Device> devices =
            placement_ ? std::span<const Device>(placement_->devices) : std::span<const Device>();
        return store_.place(wanted_, {options.use_mmap, repack, hparams_.n_experts_used, devices, options.progress});
    };
    const auto told = [&](Status placed) -> Status {
        if (!placement_ || placed.code() != ErrorCode::kIo) { return placed; }
        return {ErrorCode::kIo,
                placed.wording() + ": of " + placement_->names() + " one does not take the weights of '" + path() + "'"};
    };
    PITH_RETURN_IF_ERROR(told(placement_ ? on_devices(place_weights) : place_weights()));
    ggml_tensor * factors = weights_.layers.front().rope_freqs;
    if (factors == nullptr) { factors = hparams_.is_long_rope() ? weights_.rope_long : weights_.rope_short; }
    if (!hparams_.unrotated_pairs.empty()) {
        std::vector<float> values(static_cast<size_t>(hparams_.n_rot / 2), 1.0F);
        for (const int pair : hparams_.unrotated_pairs) {
            values[static_cast<size_t>(pair)] = std::numeric_limits<float>::infinity();  // frequencies are divided by it
        }
        PITH_ASSIGN_OR_RETURN(factors, store_.add_vector("rope_freqs.weight", values));
    }
    for (size_t l = 0; l < weights_.layers.size(); ++l) {
        weights_.layers[l].rope_freqs = hparams_.layers[l].rope_factors ? factors : nullptr;
    }
    return placement_ ? told(copy_shared_vectors(*placement_, store_, weights_)) : Status();
}

}  // namespace

Result<std::shared_ptr<ModelFile>> ModelFile::load(const std::string & path, const ModelFileOptions & options) {
    PITH_RETURN_IF_ERROR(load_backends());
    auto model = std::make_shared<LoadedModel>();
    PITH_RETURN_IF_ERROR(model->open(path));
    PITH_RETURN_IF_ERROR(model->choose_devices(options.devices));
    PITH_RETURN_IF_ERROR(model->place(options));
    return std::shared_ptr<ModelFile>(std::move(model));
}

Result<std::shared_ptr<ModelFile>> ModelFile::check(const std::string & path, const DeviceOptions & devices) {
    auto model = std::make_shared<LoadedModel>();
    PITH_RETURN_IF_ERROR(model->open(path));
    PITH_RETURN_IF_ERROR(model->choose_devices(devices));
    return std::shared_ptr<ModelFile>(std::move(model));
}

}  // namespace pith
