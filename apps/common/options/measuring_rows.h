// measuring_rows.h - what bench, demo and calibrate measure, as the library's messages call it.
#pragma once

#include <array>

#include "common/options/option_row.h"
#include "core/items.h"

namespace pith::app {

inline constexpr auto kMeasuringRows = std::to_array<OptionRow>({
    {.names = "--depth", .kind = ValueKind::kText, .item = item::kDepths},
    {.names = "--n-prompt", .kind = ValueKind::kText, .item = item::kPromptTokens},
    {.names = "--repetitions", .kind = ValueKind::kText, .item = item::kRepetitions},
    {.names = "--tokens", .kind = ValueKind::kText, .item = item::kTextTokens},
    {.names = "--no-llama", .item = item::kLlamaBench},
});

}  // namespace pith::app
