// prefill_schedule.h - how a prompt is read, and how often a cache is brought back to its budget.
#pragma once

namespace pith {

enum class PrefillSchedule {
    // One-shot when the prompt is no longer than budget + chunk, or when it ends in a question (RunHooks::n_question) and one
    // layer's whole KV fits in memory beside the prompt's hidden states; chunked else.
    kAuto,
    kOneShot,  // layer by layer over the whole prompt, each layer evicted before the next
    kChunked,  // chunk by chunk through all layers, evicted after each chunk (guided: RunHooks::n_question)
};

inline constexpr int kDefaultChunk = 512;       // tokens
inline constexpr int kDefaultEvictEvery = 128;  // decoded tokens
inline constexpr int kDefaultGrid = 256;        // tokens, of engines (SessionOptions::grid)

}  // namespace pith
