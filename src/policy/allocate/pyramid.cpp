// pyramid.cpp - much for the lower layers, little for the upper ones. Stage: allocate.
// Pure C++: no ggml, no I/O.
//
// Weight of a lane, linear from layer 0 down: the smallest (last layer) = B/β, the largest (layer 0) = 2B - B/β; where that is
// more than a lane has to give, the largest is all it has and the smallest 2B less that, as in the authors' code.
// Paper:   PyramidKV: Dynamic KV Cache Compression based on Pyramidal Information Funneling.
// Differs: exact in sum (the public code floors its steps and overspends); B is net of protected entries.
#include <algorithm>

#include "policy/allocate/allocator.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    real_option("beta", "20", 1, 1e6, "the last layer gets 1/beta of the mean; 1 is uniform"),
};

class Pyramid final : public Allocator {
public:
    explicit Pyramid(const Options & options) : beta_(options.real("beta")) {}

    void expect(const NetBudget & budget, std::span<double> weights) const override {
        const CacheShape & shape = budget.shape;
        const double mean = budget.mean();
        const int most = *std::max_element(budget.net_lengths.begin(), budget.net_lengths.end());
        const double largest = std::min(2 * mean - mean / beta_, static_cast<double>(most));
        const double smallest = 2 * mean - largest;
        for (int layer = 0; layer < shape.n_layers; ++layer) {
            const double depth = shape.n_layers > 1 ? static_cast<double>(layer) / (shape.n_layers - 1) : 0.5;
            const double weight = largest - (largest - smallest) * depth;
            for (int h = 0; h < shape.n_kv_heads; ++h) { weights[static_cast<size_t>(shape.lane(layer, h))] = weight; }
        }
    }
    Status weigh(const LayerView & /*layer*/, const NetBudget & /*budget*/, AllocatorState * /*state*/,
                 std::span<double> /*weights*/) const override {
        return {};  // as expected: position in the stack is all that counts
    }

private:
    double beta_;
};

}  // namespace

AllocatorInfo pyramid_allocator() {
    return {"pyramid",
            "linear: most for the first layer, least for the last",
            "linear in depth, from 2B − B/β at the first layer to B/β at the last",
            "PyramidKV: Dynamic KV Cache Compression based on Pyramidal Information Funneling",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Allocator> { return std::make_shared<Pyramid>(options); }};
}

}  // namespace pith
