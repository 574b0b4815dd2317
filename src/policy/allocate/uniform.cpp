// uniform.cpp - every lane the same. Stage: allocate.
// Pure C++: no ggml, no I/O.
#include <algorithm>

#include "policy/allocate/allocator.h"

namespace pith {
namespace {

class Uniform final : public Allocator {
public:
    void expect(const NetBudget & /*budget*/, std::span<double> weights) const override {
        std::fill(weights.begin(), weights.end(), 1.0);
    }
    Status weigh(const LayerView & /*layer*/, const NetBudget & /*budget*/, AllocatorState * /*state*/,
                 std::span<double> /*weights*/) const override {
        return {};  // as expected
    }
};

}  // namespace

AllocatorInfo uniform_allocator() {
    const auto make = [](const Options &) -> std::shared_ptr<const Allocator> { return std::make_shared<Uniform>(); };
    return {"uniform", "every head the same; what a short head leaves goes to the others", "1", "", {}, make};
}

}  // namespace pith
