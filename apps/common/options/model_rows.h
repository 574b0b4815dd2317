// model_rows.h - which model, how its weights lie in memory, and what is added to them.
#pragma once

#include <array>

#include "common/options/option_row.h"
#include "core/items.h"

namespace pith::app {

inline constexpr auto kModelRows = std::to_array<OptionRow>({
    {.names = "-m,--model",
     .help = "GGUF file (the first part of a split one), or a model that Ollama, LM Studio, Hugging Face's tools or "
             "llama.cpp keep, by its name (`pith models` lists them)",
     .kind = ValueKind::kFile},
    {.names = "--hf-repo",
     .help = "USER/REPO or USER/REPO:QUANT: a model of Hugging Face, fetched where it is not there yet (-hf)",
     .kind = ValueKind::kText,
     .llama_names = "-hf -hfr"},
    {.names = "--hf-file",
     .help = "With --hf-repo: this file of the repository (-hff)",
     .kind = ValueKind::kText,
     .llama_names = "-hff"},
    {.names = "--hf-token",
     .help = "Token of Hugging Face, for what is gated or private (-hft; default: HF_TOKEN)",
     .kind = ValueKind::kText,
     .may_be_empty = true,
     .llama_names = "-hft"},
    {.names = "--offline", .help = "With --hf-repo: what is there already, without asking the hub"},
    {.names = "--no-mmap", .help = "Read the weights into memory instead of mapping the file", .item = item::kMmap},
    {.names = "--no-repack",
     .help = "Keep the weights as they are in the file (slower prompts, less memory)",
     .llama_names = "-nr"},
    {.names = "--lora",
     .help = "LoRA adapter on q, k, v and o, as GGUF (`pith train sft` and llama.cpp make them)",
     .kind = ValueKind::kFile,
     .item = item::kLora},
    {.names = "--lora-scale", .help = "The adapter counts so many times", .kind = ValueKind::kText, .item = item::kLoraScale},
    {.names = "--gate",
     .help = "Gates of the model, of `pith train gate` or `pith calibrate importance` (default: MODEL.importance.gguf beside "
             "MODEL.gguf, "
             "where it is there; `none`: no gates), for the policies gated, gate and auto",
     .kind = ValueKind::kFile,
     .item = item::kGates},
    {.names = "--causal",
     .help = "A gate sees only what came before: it works in chunks",
     .item = item::kCausalGates,
     .item_shown = "causal gates (`pith train gate --causal`)"},
});

}  // namespace pith::app
