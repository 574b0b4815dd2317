// weight_store.h - places tensors in memory: in the mapped file itself, in a plain copy, repacked, or on a device. Stage:
// model. Repacked weights (the CPU device's extra buffer types) are write-only: they cannot be read back, viewed by columns, or
// looked up.
#pragma once

#include <ggml-backend.h>
#include <ggml.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/placement.h"
#include "file/gguf_header.h"
#include "file/mapped_file.h"
#include "model/weight_table.h"
#include "pith/status.h"

namespace pith {

// One tensor of the file that is to become a weight.
struct PlacedWeight {
    const GgufTensor * info = nullptr;
    const MappedFile * file = nullptr;
    WeightUse use = WeightUse::kVector;
    ggml_tensor ** slot = nullptr;     // its type is the file's, but for vectors, which are f32 whatever they were
    ggml_tensor ** same_as = nullptr;  // tied: the weight of the same bytes, shared unless this one can be repacked
    int device = Placement::kCpu;      // of Options::devices
    std::string name = {};             // as this program calls it, whatever the file does
};

// The memory of a model's weights. Freed with the object; the mapped files must outlive it.
class WeightStore {
public:
    struct Options {
        bool use_mmap = true;
        bool repack = true;
        int n_experts_used = 0;
        std::span<const Device> devices = {};
        std::function<bool(double fraction)> progress;
    };

    // Fills every slot. Errors: kOutOfMemory (names the bytes), kCancelled; kUnsupported: a device cannot multiply by a weight
    // that is placed on it.
    // REQUIRES: load_backends() succeeded; where there are devices, inside on_devices().
    Status place(std::span<const PlacedWeight> weights, const Options & options);

    // A vector that no file holds, or one that is wanted in two places; device null: in this machine's memory.
    // Errors: kOutOfMemory.   REQUIRES: on a device, inside on_devices().
    Result<ggml_tensor *> add_vector(const std::string & name, std::span<const float> values, const Device * device = nullptr);

    size_t copied_bytes() const { return copied_bytes_; }  // in this machine's memory

private:
    struct FreeContext {
        void operator()(ggml_context * ctx) const { ggml_free(ctx); }
    };
    struct FreeBuffer {
        void operator()(ggml_backend_buffer * buffer) const;
    };
    struct Group {  // the weights of one buffer type; null: used in the mapped file
        ggml_backend_buffer_type_t type = nullptr;
        std::vector<PlacedWeight> weights;
        std::string device = {};  // its name; empty: the CPU's memory
    };

    Status place_mapped(const Group & group);
    Status place_copied(const Group & group);
    struct Copying;
    Status copy_all(std::span<const Group> groups, const Options & options);
    Status copy_whole(const PlacedWeight & weight, Copying & copying);
    static Status copy_pieces(std::span<const PlacedWeight * const> weights, Copying & copying);
    ggml_context * create_tensors(const Group & group);

    std::vector<std::unique_ptr<ggml_context, FreeContext>> contexts_;
    std::vector<std::unique_ptr<ggml_backend_buffer, FreeBuffer>> buffers_;
    size_t copied_bytes_ = 0;
    std::vector<float> converted_;  // of the vector just copied
};

// Where ggml's CPU back end keeps matrices [ne0, ne1] of this type, of one or, of which a token uses some, of several experts,
// in a layout of its own, with a faster product; nullptr: it has none for them.   REQUIRES: load_backends() succeeded.
ggml_backend_buffer_type_t repacked_buffer_type(ggml_type type, int64_t ne0, int64_t ne1, int64_t n_experts = 1,
                                                int n_experts_used = 0);

// Whether ggml's CPU back end multiplies by weights of this type (q8_1, q8_K, integers and f64 are none).
bool is_weight_type(ggml_type type);

}  // namespace pith
