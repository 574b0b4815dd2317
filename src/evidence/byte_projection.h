// byte_projection.h - the output projection of a layer in signed bytes, for norms behind it. Stage: attention → evidence.
//
// W_O^g of query head g as D rows of dv bytes: row r is what the head's values give to element r of the layer's output.
// Cost: D·H·(dv + 8) bytes; to make one O(D·H·dv), on the runner's threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "attention/cpu/cpu_byte_products.h"
#include "device/graph_runner.h"
#include "model/model_file.h"

namespace pith {

class ByteProjection {
public:
    // projection [D][H·dv], as OutputProjection holds it. REQUIRES: can_multiply_bytes(dv); the runner is on the CPU.
    // Errors: kOutOfMemory.
    static Result<ByteProjection> make(GraphRunner & runner, std::span<const float> projection, int n_heads, int head_dim_v);

    ByteRows head(int g) const;
    size_t size_bytes() const {
        return lines_.capacity() * sizeof(Line) + scales_.capacity() * sizeof(float) + starts_.capacity() * sizeof(int32_t);
    }

private:
    struct alignas(64) Line {  // what a tile reads at once lies in one
        int8_t bytes[64];
    };

    int n_rows_ = 0;  // D, and what makes it a multiple of kByteRows
    int dim_ = 0;
    std::vector<Line> lines_;      // [H][n_rows][dim] bytes
    std::vector<float> scales_;    // [H][n_rows]
    std::vector<int32_t> starts_;  // [H][n_rows]
};

// Of all layers of a model, made when asked for. The first time a layer's is made for whoever asks and not kept: a prompt read
// in one go asks once. From the second time on, after chunks, while decoding or for another session, it stays. Two that ask at
// once make it twice, and neither waits for the other's threads: there is no lock.   Threads: safe.
class ByteProjections {
public:
    explicit ByteProjections(std::shared_ptr<const ModelFile> file)
        : file_(std::move(file)), slots_(static_cast<size_t>(file_->hparams().n_layers)) {}

    // Errors: of ModelFile::read_output_projection, kOutOfMemory.
    Result<std::shared_ptr<const ByteProjection>> layer(GraphRunner & runner, int index, int n_heads, int head_dim_v);
    size_t size_bytes() const { return size_bytes_; }

private:
    struct Slot {
        std::atomic<bool> asked_before{false};
        std::atomic<bool> taken{false};  // by the one who writes `kept`
        std::shared_ptr<const ByteProjection> kept;
        std::atomic<bool> is_kept{false};  // from then on it stays as it is
    };
    std::shared_ptr<const ModelFile> file_;
    std::vector<Slot> slots_;  // [layer]
    std::atomic<size_t> size_bytes_{0};
};

}  // namespace pith
