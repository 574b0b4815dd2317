// weight_store.cpp - places tensors in memory. Stage: model.
#include "model/weight_store.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/items.h"
#include "core/on_threads.h"
#include "device/backend.h"
#include "device/cpu_count.h"
#include "device/device_work.h"
#include "device/huge_pages.h"
#include "device/sent_graphs.h"
#include "model/mul_mat.h"

namespace pith {
namespace {

constexpr int64_t kProbeTokens = 512;  // batch of the operation that a buffer type is asked about, as libllama asks

std::vector<ggml_backend_buffer_type_t> extra_buffer_types() {
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(cpu_device());
    auto get = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
        ggml_backend_reg_get_proc_address(reg, "ggml_backend_dev_get_extra_bufts"));
    std::vector<ggml_backend_buffer_type_t> types;
    if (get == nullptr) { return types; }
    for (ggml_backend_buffer_type_t * type = get(cpu_device()); type != nullptr && *type != nullptr; ++type) {
        types.push_back(*type);
    }
    return types;
}

// Would the device run this weight's product from a buffer of `type`? Asked with the very operation, on tensors without data.
bool accepts(ggml_backend_dev_t device, ggml_backend_buffer_type_t type, const PlacedWeight & weight, int n_experts_used) {
    ggml_context * ctx = ggml_init({8 * ggml_tensor_overhead(), nullptr, true});
    if (ctx == nullptr) { return false; }
    const int64_t * ne = weight.info->ne;
    ggml_tensor * w = ggml_new_tensor(ctx, weight.info->type, 4, ne);
    ggml_tensor * op = nullptr;
    if (weight.use == WeightUse::kExperts) {
        ggml_tensor * x = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, ne[0], n_experts_used, kProbeTokens);
        op = ggml_mul_mat_id(ctx, w, x, ggml_new_tensor_2d(ctx, GGML_TYPE_I32, n_experts_used, kProbeTokens));
    } else {
        op = ggml_mul_mat(ctx, w, ggml_new_tensor_2d(ctx, GGML_TYPE_F32, ne[0], kProbeTokens));
    }
    w->buffer = ggml_backend_buft_alloc_buffer(type, 0);
    const bool yes = w->buffer != nullptr && ggml_backend_dev_supports_op(device, op);
    ggml_backend_buffer_free(w->buffer);
    ggml_free(ctx);
    return yes;
}

ggml_type type_in_memory(const PlacedWeight & weight) {
    return weight.use == WeightUse::kVector ? GGML_TYPE_F32 : weight.info->type;
}

bool is_multiplied(const PlacedWeight & weight) {
    return weight.use == WeightUse::kMatmul || weight.use == WeightUse::kExperts;
}

bool has_own_product(const PlacedWeight & weight) {
    const GgufTensor & info = *weight.info;
    if (weight.use == WeightUse::kExperts) { return has_expert_product(info.type, info.ne[0], info.ne[2]); }
    return weight.use == WeightUse::kMatmul && has_quantised_product(info.type, info.ne[0]);
}

// Errors: kUnsupported: the device has no product with it; kIo: it is gone.
Result<ggml_backend_buffer_type_t> device_buffer_type(const Device & device, const PlacedWeight & weight, int n_experts_used) {
    ggml_backend_buffer_type_t type = ggml_backend_dev_buffer_type(device.handle);
    if (type == nullptr) { return {ErrorCode::kIo, "device '" + device.info.name + "' cannot be reached any more"}; }
    if (!is_multiplied(weight) || accepts(device.handle, type, weight, n_experts_used)) { return type; }
    return {ErrorCode::kUnsupported, "device '" + device.info.name + "' cannot multiply by '" + weight.info->name +
                                         "' of type " + ggml_type_name(weight.info->type) + ": place fewer layers (" +
                                         item::kDeviceLayers + "), leave the device out, or use another file"};
}

ggml_backend_buffer_type_t repacked_type(std::span<const ggml_backend_buffer_type_t> types, const PlacedWeight & weight,
                                         int n_experts_used) {
    if (!is_multiplied(weight)) { return nullptr; }
    for (ggml_backend_buffer_type_t type : types) {
        if (accepts(cpu_device(), type, weight, n_experts_used)) { return type; }
    }
    return nullptr;
}

}  // namespace

ggml_backend_buffer_type_t repacked_buffer_type(ggml_type type, int64_t ne0, int64_t ne1, int64_t n_experts,
                                                int n_experts_used) {
    GgufTensor info;
    info.type = type;
    info.ne[0] = ne0;
    info.ne[1] = ne1;
    info.ne[2] = n_experts;
    const WeightUse use = n_experts_used > 0 ? WeightUse::kExperts : WeightUse::kMatmul;
    return repacked_type(extra_buffer_types(), {.info = &info, .use = use}, n_experts_used);
}

bool is_weight_type(ggml_type type) {
    switch (type) {
        case GGML_TYPE_F32:
        case GGML_TYPE_F16:
        case GGML_TYPE_BF16:
            return true;
        case GGML_TYPE_Q8_1:
        case GGML_TYPE_Q8_K:
            return false;  // intermediate types of products
        default:
            return ggml_is_quantized(type);
    }
}

void WeightStore::FreeBuffer::operator()(ggml_backend_buffer * buffer) const {
    if (!is_on_device(buffer)) { return ggml_backend_buffer_free(buffer); }
    give_back([&] { ggml_backend_buffer_free(buffer); });
}

Status WeightStore::place(std::span<const PlacedWeight> weights, const Options & options) {
    const std::vector<ggml_backend_buffer_type_t> extra =
        options.repack ? extra_buffer_types() : std::vector<ggml_backend_buffer_type_t>{};
    // Pith's own products read weights as the file has them, but faster from huge pages than from a mapped file's small ones.
    ggml_backend_buffer_type_t copied = options.repack ? ggml_backend_dev_buffer_type(cpu_device()) : nullptr;
    ggml_backend_buffer_type_t plain = options.use_mmap ? nullptr : ggml_backend_dev_buffer_type(cpu_device());
    std::vector<Group> groups;
    for (const PlacedWeight & weight : weights) {
        if (weight.device != Placement::kCpu) {
            const Device & device = options.devices[static_cast<size_t>(weight.device)];
            PITH_ASSIGN_OR_RETURN(ggml_backend_buffer_type_t there, device_buffer_type(device, weight, options.n_experts_used));
            auto group = std::ranges::find(groups, there, &Group::type);
            if (group == groups.end()) { group = groups.insert(groups.end(), Group{there, {}, device.info.name}); }
            group->weights.push_back(weight);
            continue;
        }
        ggml_backend_buffer_type_t type =
            has_own_product(weight) ? copied : repacked_type(extra, weight, options.n_experts_used);
        if (type == nullptr && weight.same_as != nullptr) { continue; }
        if (type == nullptr) {
            const bool converts = type_in_memory(weight) != weight.info->type;
            type = converts ? ggml_backend_dev_buffer_type(cpu_device()) : plain;
        }
        auto group = std::find_if(groups.begin(), groups.end(), [&](const Group & g) { return g.type == type; });
        if (group == groups.end()) { group = groups.insert(groups.end(), Group{type, {}}); }
        group->weights.push_back(weight);
    }

    for (const Group & group : groups) {
        PITH_RETURN_IF_ERROR(group.type == nullptr ? place_mapped(group) : place_copied(group));
    }
    PITH_RETURN_IF_ERROR(copy_all(groups, options));
    for (const PlacedWeight & weight : weights) {
        if (*weight.slot == nullptr) { *weight.slot = *weight.same_as; }
    }
    if (options.progress && !options.progress(1.0)) { return {ErrorCode::kCancelled, "loading the model was cancelled"}; }
    return {};
}

ggml_context * WeightStore::create_tensors(const Group & group) {
    ggml_context * ctx = ggml_init({group.weights.size() * ggml_tensor_overhead(), nullptr, true});
    if (ctx == nullptr) { return nullptr; }
    contexts_.emplace_back(ctx);
    for (const PlacedWeight & weight : group.weights) {
        *weight.slot = ggml_new_tensor(ctx, type_in_memory(weight), GGML_MAX_DIMS, weight.info->ne);
        ggml_set_name(*weight.slot, weight.info->name.c_str());
    }
    return ctx;
}

Status WeightStore::place_mapped(const Group & group) {
    if (create_tensors(group) == nullptr) { return {ErrorCode::kOutOfMemory, "no memory for the table of weights"}; }
    std::vector<std::pair<const MappedFile *, ggml_backend_buffer_t>> of_file;
    for (const PlacedWeight & weight : group.weights) {
        auto known =
            std::find_if(of_file.begin(), of_file.end(), [&](const auto & entry) { return entry.first == weight.file; });
        if (known == of_file.end()) {
            ggml_backend_buffer_t buffer = cpu_buffer_from_ptr(weight.file->data(), weight.file->bytes().size());
            if (buffer == nullptr) { return {ErrorCode::kOutOfMemory, "ggml could not wrap the mapped model file"}; }
            ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
            buffers_.emplace_back(buffer);
            known = of_file.insert(of_file.end(), {weight.file, buffer});
        }
        uint8_t * address = static_cast<uint8_t *>(weight.file->data()) + weight.info->offset;
        if (ggml_backend_tensor_alloc(known->second, *weight.slot, address) != GGML_STATUS_SUCCESS) {
            return {ErrorCode::kInternal, "ggml refused to place tensor '" + weight.info->name + "' in the mapped file"};
        }
    }
    return {};
}

Status WeightStore::place_copied(const Group & group) {
    ggml_context * ctx = create_tensors(group);
    ggml_backend_buffer_t buffer = ctx == nullptr ? nullptr : ggml_backend_alloc_ctx_tensors_from_buft(ctx, group.type);
    if (buffer == nullptr) {
        size_t bytes = 0;
        for (const PlacedWeight & weight : group.weights) { bytes += weight.info->size; }
        if (!group.device.empty()) {
            return {ErrorCode::kOutOfMemory, "device '" + group.device + "' has no memory for " + std::to_string(bytes >> 20U) +
                                                 " MiB of weights: place fewer layers there (" + item::kDeviceLayers + ", " +
                                                 item::kTensorSplit + ")"};
        }
        return {ErrorCode::kOutOfMemory, "no memory for " + std::to_string(bytes) + " bytes of weights in " +
                                             ggml_backend_buft_name(group.type) +
                                             " buffers: load with mmap and without repacking"};
    }
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    buffers_.emplace_back(buffer);
    if (group.device.empty()) { use_huge_pages(ggml_backend_buffer_get_base(buffer), ggml_backend_buffer_get_size(buffer)); }
    return {};
}

Result<ggml_tensor *> WeightStore::add_vector(const std::string & name, std::span<const float> values, const Device * device) {
    const Status no_memory(ErrorCode::kOutOfMemory, "no memory for '" + name + "'" +
                                                        (device != nullptr ? " on device '" + device->info.name + "'" : ""));
    ggml_context * ctx = ggml_init({ggml_tensor_overhead(), nullptr, true});
    if (ctx == nullptr) { return no_memory; }
    contexts_.emplace_back(ctx);
    ggml_tensor * tensor = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, static_cast<int64_t>(values.size()));
    ggml_set_name(tensor, name.c_str());
    ggml_backend_buffer_type_t type = ggml_backend_dev_buffer_type(device != nullptr ? device->handle : cpu_device());
    ggml_backend_buffer_t buffer = type == nullptr ? nullptr : ggml_backend_alloc_ctx_tensors_from_buft(ctx, type);
    if (buffer == nullptr) { return no_memory; }
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    buffers_.emplace_back(buffer);
    ggml_backend_tensor_set(tensor, values.data(), 0, values.size_bytes());
    return tensor;
}

// How far it is. Whoever copies adds to it; the caller's thread alone asks whether to go on.
struct WeightStore::Copying {
    const std::function<bool(double)> & progress;
    size_t total_bytes = 0;
    std::atomic<size_t> done_bytes = 0;
    std::atomic<bool> cancelled = false;

    void tell() {
        const double fraction = static_cast<double>(done_bytes.load()) / static_cast<double>(total_bytes);
        if (progress && !progress(fraction)) { cancelled = true; }
    }
    Status status() const { return cancelled ? Status(ErrorCode::kCancelled, "loading the model was cancelled") : Status(); }
};

Status WeightStore::copy_all(std::span<const Group> groups, const Options & options) {
    Copying copying{options.progress};
    std::vector<const PlacedWeight *> as_they_are;
    std::vector<const PlacedWeight *> made_anew;
    for (const Group & group : groups) {
        if (group.type == nullptr) { continue; }
        const bool is_plain = group.type == ggml_backend_dev_buffer_type(cpu_device());
        for (const PlacedWeight & weight : group.weights) {
            copying.total_bytes += ggml_nbytes(*weight.slot);
            if (weight.device == Placement::kCpu) { copied_bytes_ += ggml_nbytes(*weight.slot); }
            const bool stays = is_plain && (*weight.slot)->type == weight.info->type;
            (stays ? as_they_are : made_anew).push_back(&weight);
        }
    }
    PITH_RETURN_IF_ERROR(copy_pieces(as_they_are, copying));
    for (const PlacedWeight * weight : made_anew) { PITH_RETURN_IF_ERROR(copy_whole(*weight, copying)); }
    return {};
}

// In f32, in a layout of ggml's, or on a device.
Status WeightStore::copy_whole(const PlacedWeight & weight, Copying & copying) {
    const GgufTensor & info = *weight.info;
    const void * data = weight.file->bytes().data() + info.offset;
    const size_t size = ggml_nbytes(*weight.slot);
    if ((*weight.slot)->type != info.type) {
        converted_.resize(static_cast<size_t>(info.n_elements()));
        ggml_get_type_traits(info.type)->to_float(data, converted_.data(), info.n_elements());
        data = converted_.data();
    }
    ggml_backend_tensor_set(*weight.slot, data, 0, size);
    if (weight.same_as == nullptr) { weight.file->drop(info.offset, info.size); }  // or the weights would be resident twice
    copying.done_bytes += size;
    copying.tell();
    return copying.status();
}

// The bytes as they are, by all cores: what takes its time is memory that the system gives, and clears, for the first time.
Status WeightStore::copy_pieces(std::span<const PlacedWeight * const> weights, Copying & copying) {
    constexpr size_t kPiece = size_t{8} << 20U;
    struct Piece {
        const PlacedWeight * weight = nullptr;
        size_t begin = 0;
        size_t size = 0;
    };
    std::vector<Piece> pieces;
    for (const PlacedWeight * weight : weights) {
        const size_t size = ggml_nbytes(*weight->slot);
        for (size_t begin = 0; begin < size; begin += kPiece) {
            pieces.push_back({weight, begin, std::min(kPiece, size - begin)});
        }
    }
    std::atomic<size_t> next = 0;
    const int n_threads = static_cast<int>(std::min<size_t>(static_cast<size_t>(available_cpus()), pieces.size()));
    PITH_RETURN_IF_ERROR(on_threads(n_threads, [&](int i_thread) -> Status {
        for (size_t i = next.fetch_add(1); i < pieces.size() && !copying.cancelled; i = next.fetch_add(1)) {
            const Piece & piece = pieces[i];
            const PlacedWeight & weight = *piece.weight;
            const size_t at = weight.info->offset + piece.begin;
            std::memcpy(static_cast<uint8_t *>((*weight.slot)->data) + piece.begin, weight.file->bytes().data() + at,
                        piece.size);
            if (weight.same_as == nullptr) { weight.file->drop(at, piece.size); }  // or they would be resident twice
            copying.done_bytes += piece.size;
            if (i_thread == 0) { copying.tell(); }
        }
        return {};
    }));
    return copying.status();
}

}  // namespace pith
