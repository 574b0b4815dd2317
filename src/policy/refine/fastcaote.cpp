// fastcaote.cpp - CAOTE with the plain mean of the lane's values in place of the attention output. Stage: refine.
// Pure C++: no ggml, no I/O.
//
// c_j = a_j/(1-a_j) · |v_j - mean v|₂: one distance per KV head and entry serves all its query heads. Unlike CAOTE's it is not
// bounded: an entry that is nearly all of its lane scores as high as a float goes.
// Paper:   CAOTE: Optimizing KV Cache Memory through Attention Output Error-based Token Eviction (FastCAOTE).
// Differs: as caote.cpp.
#include <algorithm>

#include "policy/refine/caote_error.h"

namespace pith {
namespace {

class FastCaote final : public CaoteErrorRefiner {
public:
    explicit FastCaote(const Options & options) : CaoteErrorRefiner("fastcaote", options) {}

protected:
    Ragged<float> mean_weights(const LayerEvidence & evidence, Ragged<float> /*weights*/) const override {
        Ragged<float> uniform;
        for (int h = 0; h < evidence.n_kv_heads; ++h) {
            const auto n = static_cast<size_t>(evidence.length(h));
            uniform.push_row(std::vector<float>(n, 1.0F / static_cast<float>(std::max<size_t>(n, 1))));
        }
        return uniform;
    }
};

}  // namespace

RefinerInfo fastcaote_refiner() {
    return {"fastcaote",
            "CAOTE with the mean value in place of the attention output",
            "the same with the lane's mean value for X",
            "CAOTE: Optimizing KV Cache Memory through Attention Output Error-based Token Eviction",
            kCaoteErrorOptions,
            [](const Options & options) -> std::shared_ptr<const Refiner> { return std::make_shared<FastCaote>(options); },
            check_caote_options};
}

}  // namespace pith
