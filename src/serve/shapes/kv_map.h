// kv_map.h - where in a text the cache still holds entries, for each layer and head. Stage: serve.   Pure C++. Threads: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pith/position_span.h"
#include "serve/shapes/json.h"

namespace pith::serve {

class KvMap {
public:
    static constexpr int64_t kMostBins = 200;
    // n_tokens: of the text so far.
    KvMap(int64_t n_tokens, int n_layers, int n_heads);

    // positions: of the entries that a lane holds, ascending.
    void set_lane(int layer, int head, std::span<const int32_t> positions);
    void set_pinned(std::vector<PositionSpan> spans) { pinned_ = std::move(spans); }

    // {"n_tokens", "bin_tokens", "layers": [["9960…", … a text per head], …], "pinned": [[begin, end], …]}: a digit for each
    // run of bin_tokens positions, 0: none of them is held, 9: all are.
    Json json() const;

private:
    int64_t n_tokens_;
    int64_t bin_tokens_;
    std::vector<std::vector<std::string>> layers_;
    std::vector<PositionSpan> pinned_;
};

}  // namespace pith::serve
