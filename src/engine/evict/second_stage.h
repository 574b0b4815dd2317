// second_stage.h - what a first eviction has left, evicted once more in the sight of what is asked. Stage: engine.
#pragma once

#include <cstdint>
#include <span>

#include "engine/pass/live_session.h"

namespace pith {

// Session::evict_for_questions(), a transaction by itself.
Status evict_for(LiveSession & session, std::span<const int32_t> questions, const PolicyChoice & asked, const Budget & budget);

}  // namespace pith
