// shared_vectors.cpp - one copy a device.
#include "model/shared_vectors.h"

#include <ggml.h>

#include <map>
#include <span>
#include <utility>

#include "device/device_work.h"

namespace pith {

Status copy_shared_vectors(const Placement & placement, WeightStore & store, Weights & weights) {
    std::map<std::pair<const ggml_tensor *, int>, ggml_tensor *> copies;
    const auto copy = [&](const ggml_tensor * vector, int device, ggml_tensor *& to) -> Status {
        if (vector == nullptr || device == Placement::kCpu) { return {}; }
        ggml_tensor *& there = copies[{vector, device}];
        if (there == nullptr) {
            const std::span values(static_cast<const float *>(vector->data), static_cast<size_t>(ggml_nelements(vector)));
            PITH_ASSIGN_OR_RETURN(there,
                                  store.add_vector(vector->name, values, &placement.devices[static_cast<size_t>(device)]));
        }
        to = there;
        return {};
    };
    return on_devices([&]() -> Status {
        for (size_t l = 0; l < weights.layers.size(); ++l) {
            LayerWeights & layer = weights.layers[l];
            PITH_RETURN_IF_ERROR(copy(layer.rope_freqs, placement.of_layer[l], layer.rope_freqs_there));
        }
        return copy(weights.output_norm, placement.of_output(), weights.output_norm_there);
    });
}

}  // namespace pith
