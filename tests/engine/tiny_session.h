// tiny_session.h - sessions of one small model of random weights, and what their lanes hold.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "engine/tiny_model.h"
#include "pith/session.h"

namespace pith::testing {

using Lanes = std::vector<std::vector<int32_t>>;

// budget: entries a lane; 0: no limit.
inline SessionOptions tiny_options(const std::string & policy, int budget, PrefillSchedule schedule, int chunk) {
    SessionOptions options;
    options.policy = policy;
    options.budget = budget > 0 ? Budget(budget) : Budget();
    options.prefill = schedule;
    options.chunk = chunk;
    options.n_threads = 1;
    return options;
}

inline const Model & one_tiny_model() {
    static const Model model = tiny_model(tiny_spec()).value();
    return model;
}

inline Session open_tiny(const SessionOptions & options) {
    auto session = one_tiny_model().session(options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return std::move(*session);
}

// Positions below `end`, lane by lane.
inline Lanes lanes_below(const Session & session, int32_t end) {
    Lanes all;
    for (int l = 0; l < session.n_layers(); ++l) {
        for (int h = 0; h < session.n_kv_heads(); ++h) {
            all.emplace_back();
            for (const int32_t p : session.lane_positions(l, h)) {
                if (p < end) { all.back().push_back(p); }
            }
        }
    }
    return all;
}
inline Lanes lanes_of(const Session & session) {
    return lanes_below(session, std::numeric_limits<int32_t>::max());
}

}  // namespace pith::testing
