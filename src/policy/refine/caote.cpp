// caote.cpp - how far evicting an entry moves the attention output, exactly, for the scores taken as attention. Stage: refine.
// Pure C++: no ggml, no I/O.
//
// c_j = a_j/(1-a_j) · |v_j - X|₂, a = scores normalised to 1 over the lane, X = Σ a_i·v_i (caote_error.h).
// Paper:   CAOTE: Optimizing KV Cache Memory through Attention Output Error-based Token Eviction.
// Differs: the norm is not squared ((6) and (8), not (7): squared=true); scores that can be negative are shifted by their
//          minimum; grouped heads by the error of their outputs together (Appendix C.2's second case), from each head's scores.
#include <utility>

#include "policy/refine/caote_error.h"

namespace pith {
namespace {

class Caote final : public CaoteErrorRefiner {
public:
    explicit Caote(const Options & options) : CaoteErrorRefiner("caote", options) {}

protected:
    Ragged<float> mean_weights(const LayerEvidence & /*evidence*/, Ragged<float> weights) const override { return weights; }
};

}  // namespace

RefinerInfo caote_refiner() {
    return {"caote",
            "the change of the attention output that evicting the entry makes",
            "a_j/(1−a_j) · ‖v_j − X‖₂, X = Σ a_i v_i: how far evicting j alone moves the output",
            "CAOTE: Optimizing KV Cache Memory through Attention Output Error-based Token Eviction",
            kCaoteErrorOptions,
            [](const Options & options) -> std::shared_ptr<const Refiner> { return std::make_shared<Caote>(options); },
            check_caote_options};
}

}  // namespace pith
