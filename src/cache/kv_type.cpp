// kv_type.cpp - the cache types by their names.
#include "cache/kv_type.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace pith {
namespace {

constexpr std::array<std::pair<std::string_view, KvType>, 5> kKvTypes = {
    {{"f32", KvType::kF32}, {"f16", KvType::kF16}, {"bf16", KvType::kBF16}, {"q8_0", KvType::kQ8_0}, {"q4_0", KvType::kQ4_0}}};

}  // namespace

Result<KvType> parse_kv_type(std::string_view text) {
    for (const auto & [name, type] : kKvTypes) {
        if (name == text) { return type; }
    }
    return {ErrorCode::kInvalidArgument, "unknown KV cache type '" + std::string(text) + "': use f32, f16, bf16, q8_0 or q4_0"};
}

std::string_view to_string(KvType type) {
    return std::ranges::find(kKvTypes, type, [](const auto & entry) { return entry.second; })->first;
}

}  // namespace pith
