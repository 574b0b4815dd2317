// kv_map.cpp - shares of runs of positions. Stage: serve.
#include "serve/shapes/kv_map.h"

#include <algorithm>

namespace pith::serve {

KvMap::KvMap(int64_t n_tokens, int n_layers, int n_heads)
    : n_tokens_(n_tokens),
      bin_tokens_(std::max<int64_t>(1, (n_tokens + kMostBins - 1) / kMostBins)),
      layers_(static_cast<size_t>(n_layers), std::vector<std::string>(static_cast<size_t>(n_heads))) {}

void KvMap::set_lane(int layer, int head, std::span<const int32_t> positions) {
    const auto n_bins = static_cast<size_t>((n_tokens_ + bin_tokens_ - 1) / bin_tokens_);
    std::string & lane = layers_[static_cast<size_t>(layer)][static_cast<size_t>(head)];
    lane.assign(n_bins, '0');
    auto from = std::ranges::lower_bound(positions, 0);
    for (size_t i = 0; i < n_bins; ++i) {
        const int64_t begin = static_cast<int64_t>(i) * bin_tokens_;
        const int64_t end = std::min(begin + bin_tokens_, n_tokens_);
        const auto to = std::lower_bound(from, positions.end(), end);  // not one by one: there may be very many
        const int64_t held = to - from;
        from = to;
        // 0 and 9 are kept for none and all.
        const int64_t n_all = end - begin;
        const int64_t digit = held == 0 ? 0 : held >= n_all ? 9 : std::clamp<int64_t>(held * 9 / n_all, 1, 8);
        lane[i] = static_cast<char>('0' + digit);
    }
}

Json KvMap::json() const {
    Json pinned = Json::array();
    for (const PositionSpan & span : pinned_) { pinned.push_back(Json::array({span.begin, span.end})); }
    return {{"n_tokens", n_tokens_}, {"bin_tokens", bin_tokens_}, {"layers", layers_}, {"pinned", std::move(pinned)}};
}

}  // namespace pith::serve
