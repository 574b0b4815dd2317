// key_packer.h - keys of every type into the tiles that kernels read, and a thread's memory for it. Stage: attention →
// evidence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "attention/observe_kernel.h"
#include "ggml.h"

namespace pith {

inline constexpr size_t kScratchAlignment = 64;

// Memory of one thread, aligned; data() is null when there is none. No exception: it is made on ggml's threads.
class Scratch {
public:
    explicit Scratch(int64_t n_floats)
        : data_(static_cast<float *>(::operator new (static_cast<size_t>(n_floats) * sizeof(float),
                                                     std::align_val_t{kScratchAlignment}, std::nothrow))) {}
    ~Scratch() { ::operator delete (data_, std::align_val_t{kScratchAlignment}); }
    Scratch(const Scratch &) = delete;
    Scratch & operator=(const Scratch &) = delete;
    float * data() const { return data_; }

private:
    float * data_;
};

// One thread's.
class KeyPacker {
public:
    explicit KeyPacker(const ggml_tensor * keys)
        : keys_(keys), d_(static_cast<int>(keys->ne[0])), scratch_(int64_t{kTileEntries} * d_) {}
    bool ready() const { return scratch_.data() != nullptr; }

    // n entries, rows of the layer's keys from `cell` on  →  tile [d][kTileEntries].
    void pack(int64_t cell, int n, float * tile) {
        const auto * rows = static_cast<const uint8_t *>(keys_->data) + static_cast<size_t>(cell) * keys_->nb[1];
        const int64_t count = int64_t{n} * d_;
        const float * floats = scratch_.data();
        switch (keys_->type) {
            case GGML_TYPE_F32:
                floats = reinterpret_cast<const float *>(rows);
                break;
            case GGML_TYPE_F16:
                halves_to_floats(reinterpret_cast<const uint16_t *>(rows), count, scratch_.data());
                break;
            case GGML_TYPE_BF16:
                bfloats_to_floats(reinterpret_cast<const uint16_t *>(rows), count, scratch_.data());
                break;
            default:
                ggml_get_type_traits(keys_->type)->to_float(rows, scratch_.data(), count);
        }
        pack_tile(floats, n, d_, tile);
    }

private:
    const ggml_tensor * keys_;
    int d_;
    Scratch scratch_;
};

}  // namespace pith
