// session_rows.h - what is kept of a text, and when the rest is evicted.
#pragma once

#include <array>

#include "common/options/option_row.h"
#include "core/items.h"

namespace pith::app {

inline constexpr std::string_view kCacheTypes = "f32 f16 bf16 q8_0 q4_0";
inline constexpr std::string_view kColdTypes = "none f32 f16 bf16 q8_0 q4_0";

inline constexpr auto kSessionRows = std::to_array<OptionRow>({
    {.names = "--policy",
     .help = "What to keep; `pith policies` lists them",
     .kind = ValueKind::kPolicies,
     .list = policy_words,
     .item = item::kPolicy},
    {.names = "--budget",
     .help = "What may be kept: tokens per head (1024), share of the prompt (20%), bytes (512M), or auto: what memory allows",
     .kind = ValueKind::kText,
     .may_be_empty = true,
     .item = item::kBudget},
    {.names = "--tolerance",
     .help =
         "Keep as much as the text needs: what no later word would pay this share of attention to (1%) may go, and --budget "
         "is a ceiling; wants `pith calibrate importance`, or --policy reread, which reads the text twice",
     .kind = ValueKind::kText,
     .may_be_empty = true,
     .item = item::kTolerance},
    {.names = "--heads",
     .help = "Head importances, for policies that divide the budget by head, and for auto (`pith calibrate heads` "
             "makes them; default: MODEL.heads.json beside MODEL.gguf, else those that come with Pith for the model; "
             "none: neither)",
     .kind = ValueKind::kFile,
     .item = item::kHeads},
    {.names = "--cache-type-k",
     .help = "Type of cached keys: f32, f16, bf16, q8_0, q4_0 (-ctk)",
     .kind = ValueKind::kOneOf,
     .choices = kCacheTypes,
     .llama_names = "-ctk",
     .item = item::kTypeK},
    {.names = "--cache-type-v",
     .help = "Type of cached values: the same (-ctv)",
     .kind = ValueKind::kOneOf,
     .choices = kCacheTypes,
     .llama_names = "-ctv",
     .item = item::kTypeV},
    {.names = "--no-kv-rotation",
     .help = "Round keys and values of q8_0 and q4_0 as they are, without the Hadamard rotation that makes it cost less"},
    {.names = "--no-context-shift",
     .help = "Past the length that the model was trained on, leave kept keys where they stand (default: where entries are "
             "evicted, those that are left move together, and a text may go on without end)"},
    {.names = "--prefill",
     .help = "When to evict during the prompt: auto, one-shot, chunked",
     .kind = ValueKind::kOneOf,
     .choices = "auto one-shot chunked",
     .item = item::kPrefill},
    {.names = "--chunk", .help = "Tokens of a chunk, and of a batch", .kind = ValueKind::kText, .item = item::kChunk},
    {.names = "--evict-every",
     .help = "Generated tokens between evictions; 0: none",
     .kind = ValueKind::kText,
     .item = item::kEvictEvery},
    {.names = "--grid",
     .help = "Evict at every N-th token, prompt or answer, and at no other time: what is kept then depends on the "
             "text alone, not on how it came (default: 0, after every chunk and by --evict-every)",
     .kind = ValueKind::kText,
     .item = item::kGrid},
    {.names = "-t,--threads",
     .help = "Threads (default: one per core; 1 for models under 32 MiB)",
     .kind = ValueKind::kText,
     .item = item::kThreads},
    {.names = "-c,--ctx-size",
     .help = "Positions at most (default: as many as come)",
     .kind = ValueKind::kText,
     .item = item::kContext},
    {.names = "--cold",
     .help = "Keep what is evicted on disk, rounded to this type (q4_0 is 28 % of f16): a question that looks for it is "
             "told of, and what it looks for comes back within the budget",
     .kind = ValueKind::kOneOf,
     .choices = kColdTypes,
     .item = item::kCold},
    {.names = "--cold-size",
     .help = "Bytes on disk at most for what is evicted (8G); what would be more is gone",
     .kind = ValueKind::kText},
    {.names = "--look-back",
     .help =
         "With --cold: while a prompt is read its tokens see what was evicted, too, layer by layer, as if nothing had been; "
         "takes the time of a full cache, and memory for two of its layers",
     .item = item::kLookBack},
    {.names = "--repair-every",
     .help = "With --cold: behind every so many tokens of an answer, what these look for comes back, too; 0: what the question "
             "looks for is all",
     .kind = ValueKind::kText,
     .item = item::kRepairEvery},
    {.names = "--no-repair",
     .help = "Of a text that was read with --cold: tell when a question looks for what was evicted, and bring nothing back"},
    {.names = "--ask-budget",
     .help = "Of a cache file: compress what it holds once more for each question, in its sight and in a copy of its "
             "own, to so many tokens per head (256), share of the text (5%) or bytes",
     .kind = ValueKind::kText},
    {.names = "--ask-policy",
     .help = "With --ask-budget: what that keeps (default: auto)",
     .kind = ValueKind::kPolicies,
     .list = policy_words},
    {.names = "--policies",
     .help = "Report what these policies (separated by ','; nothing or all: every one but joint) add to a one-shot prefill of "
             "--depth or -p tokens (default: 8192)",
     .kind = ValueKind::kPolicies,
     .list = policies_or_all},
});

}  // namespace pith::app
