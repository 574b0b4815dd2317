// window_pool.h - the options `window`, `pool`, `pool_over` and `pool_edges`, and what they mean for a row. Stage: score.
// Pure C++: no ggml, no I/O.
#pragma once

#include <cstddef>
#include <span>

#include "policy/evidence/evidence.h"
#include "policy/part/options.h"
#include "policy/score/pool.h"

namespace pith {

inline constexpr OptionSpec kWindowOption =
    integer_option("window", "32", 1, 65536, "last queries observed; as many of the newest entries are protected");
constexpr OptionSpec pool_option(std::string_view default_value) {
    return pooling_option("pool", default_value, "max7|avg5|avg7|none", "pooling along the tokens");
}
// A query finds what it looks for by the words that stand before it ("the key of the granary is 7041"): with `before` the score
// of these words lifts all of what follows them, as far as the kernel is wide; with `around` half as far, and what led there,
// too.
inline constexpr OptionSpec kPoolOverOption =
    word_option("pool_over", "around", "around|before", "the kernel lies around an entry, or on it and those before it");
inline constexpr OptionSpec kPoolEdgesOption =
    word_option("pool_edges", "count", "count|zero", "averages divide by the entries under the kernel, or by its size");

class WindowPool {
public:
    // REQUIRES: a table with the four options above.
    explicit WindowPool(const Options & options);

    int window() const { return window_; }
    // How many of a lane's entries lie before the window, and before all whose queries were observed: of a question in sight
    // that is longer than the window these are more.
    size_t n_past(const LayerEvidence & evidence, int kv_head) const;

    // out [n] = in [n] with its first n_past() entries pooled; the others are cut off first, and stay as they are.
    // REQUIRES: no overlap. Cost: O(n · kernel).
    void apply(const LayerEvidence & evidence, int kv_head, std::span<const float> in, std::span<float> out) const;

private:
    int window_;
    bool largest_;
    PoolKernel kernel_;
    PoolEdges edges_;
};

}  // namespace pith
