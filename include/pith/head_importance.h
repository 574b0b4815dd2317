// head_importance.h - how much each query head serves retrieval, measured beforehand on the model (pith calibrate heads).
#pragma once

#include <vector>

namespace pith {

// Both [n_layers · H], layer-major, ≥ 0. Empty: none given.
struct HeadImportance {
    std::vector<double> copy;    // how often the head's strongest entry was in the needle and the very token generated
    std::vector<double> reason;  // attention mass of its strongest entries that lay in the needle
    bool empty() const { return copy.empty(); }
};

}  // namespace pith
