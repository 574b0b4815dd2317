// core_sees_no_ggml.cpp - compiles only while pith_core's include path holds neither ggml nor libllama.
#include "core/shape.h"

#if __has_include(<ggml.h>) || __has_include(<gguf.h>) || __has_include(<llama.h>)
#error "pith_core can see ggml or libllama: a target that it links brings them"
#endif

int lanes_of(const pith::CacheShape & shape) {
    return shape.n_lanes();
}
