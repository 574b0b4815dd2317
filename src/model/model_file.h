// model_file.h - a GGUF model opened for inference: hyper-parameters, weights in memory, tokeniser metadata. Stage: model.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/placement.h"
#include "model/arch/hparams.h"
#include "model/model_identity.h"
#include "model/weights.h"
#include "pith/model.h"
#include "pith/status.h"

typedef struct ggml_backend * ggml_backend_t;

namespace pith {

struct ModelFileOptions {
    bool use_mmap = true;
    bool repack = true;  // place weights in the CPU device's extra buffer types where it offers them (q4_0's fast prompt path)
    std::function<bool(double fraction)> progress;  // may be empty; false cancels
    // Memory that is left: weights that do not fit in it are used in the mapped file, whose pages the system may drop and read
    // again, and not copied. 0: not known.
    size_t free_bytes = 0;
    DeviceOptions devices = {};
};

// Weights live as long as the object. Threads: const-safe after load.
class ModelFile {
public:
    // Errors: kNotFound (path), kBadFile (truncated, garbage, text, tensor data past the end of the file),
    //         kUnsupported (architecture, names it), kBadFile naming a missing tensor or a wrong shape;
    //         where devices are asked for, those of place_layers() and WeightStore::place().
    static Result<std::shared_ptr<ModelFile>> load(const std::string & path, const ModelFileOptions & options);
    // All of load() but placing the weights: what it would refuse is refused, and weights() of the result are empty.
    // With devices, placement() says what would lie where.
    // Errors: as load().   Cost: reads the headers.
    static Result<std::shared_ptr<ModelFile>> check(const std::string & path, const DeviceOptions & devices = {});
    virtual ~ModelFile() = default;

    virtual const std::string & path() const = 0;  // the first part of a split file
    virtual const Hparams & hparams() const = 0;
    virtual const Weights & weights() const = 0;
    virtual size_t weight_bytes() const = 0;                   // sum of the sizes in the file of the tensors that are read
    virtual size_t weight_bytes_per_token() const = 0;         // ModelInfo::weight_bytes_per_token
    virtual size_t resident_copies_bytes() const = 0;          // bytes copied out of the map (repacked, norms made f32)
    virtual const std::string & weight_type_name() const = 0;  // the type most weight bytes have, e.g. "q4_0"
    virtual const std::vector<WeightShare> & weight_shares() const = 0;  // of the tensors that are read, most bytes first
    virtual const std::string & file_type() const = 0;                   // ModelInfo::file_type
    virtual int64_t n_params() const = 0;
    virtual const Placement * placement() const { return nullptr; }  // null: all of it is computed on the CPU

    // W_O of a layer, dequantised from the file's bytes (a repacked weight cannot be read back): f32 [D][H·dv].
    // Errors: kUnsupported for a type that cannot be dequantised.   Cost: reads the tensor; nothing is kept.
    virtual Result<std::vector<float>> read_output_projection(int layer) const = 0;

    // Which model it is, an adapter included, gates not.   Cost: the first call reads the tensors (model_identity.h).
    virtual ModelIdentity identity() const = 0;

    // What all quantisations of a model share and its fine-tunes hardly ever do: a hash (core/hash64.h, 16 hexadecimal digits)
    // of every norm's f32 values, the norms in the order of their names. Read from the file, also where weights() are empty.
    virtual std::string norms_hash() const = 0;

    // The adapter that is part of it, and how often it counts, as ModelOptions has them; no path: none.
    struct Adapter {
        std::string path;
        float scale = 1.0F;
    };
    virtual Adapter adapter() const { return {}; }
};

}  // namespace pith
