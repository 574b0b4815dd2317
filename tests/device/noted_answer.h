// noted_answer.h - what a sequence of an engine said, and what its lanes held as it did.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/likeliest_token.h"
#include "pith/batch_engine.h"

namespace pith::testing {

struct NotedAnswer {
    std::vector<int32_t> tokens;
    std::vector<std::vector<int32_t>> lanes;  // of tiny_spec()'s 3 layers with 2 KV heads, as the last token was chosen
    bool operator==(const NotedAnswer &) const = default;
};

// Numbers that depend on nothing but the text: one thread, K and V in f32, no grid.
inline EngineOptions exact_engine_options() {
    EngineOptions options;
    options.grid = 0;
    options.n_threads = 1;
    options.type_k = options.type_v = KvType::kF32;
    return options;
}

// For Request::choose: takes the likeliest token, and notes. REQUIRES: all three outlive the request.
inline std::function<Result<int32_t>(std::span<const float>)> noting(const Engine & engine, const int64_t & id,
                                                                     NotedAnswer & said) {
    return [&engine, &id, &said](std::span<const float> logits) -> Result<int32_t> {
        said.lanes.clear();
        for (int lane = 0; lane < 6; ++lane) {
            const auto positions = engine.lane_positions(id, lane / 2, lane % 2);
            said.lanes.emplace_back(positions.begin(), positions.end());
        }
        said.tokens.push_back(likeliest_token(logits));
        return said.tokens.back();
    };
}

}  // namespace pith::testing
