// kv_type.h - how the cache stores keys and values.
#pragma once

#include <string_view>

#include "pith/status.h"

namespace pith {

enum class KvType { kF32, kF16, kBF16, kQ8_0, kQ4_0 };
Result<KvType> parse_kv_type(std::string_view text);
std::string_view to_string(KvType type);
// Whether rows are rounded in blocks, to fewer bits than a float's.
constexpr bool is_quantised(KvType type) {
    return type == KvType::kQ8_0 || type == KvType::kQ4_0;
}

}  // namespace pith
