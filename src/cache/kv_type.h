// kv_type.h - the cache types a user names, as ggml's. Stage: cache.
#pragma once

#include "ggml.h"
#include "pith/kv_type.h"

namespace pith {

inline ggml_type to_ggml(KvType type) {
    switch (type) {
        case KvType::kF32:
            return GGML_TYPE_F32;
        case KvType::kF16:
            return GGML_TYPE_F16;
        case KvType::kBF16:
            return GGML_TYPE_BF16;
        case KvType::kQ8_0:
            return GGML_TYPE_Q8_0;
        case KvType::kQ4_0:
            return GGML_TYPE_Q4_0;
    }
    return GGML_TYPE_F16;
}

}  // namespace pith
