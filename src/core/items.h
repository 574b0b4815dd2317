// items.h - what callers of the library can set, as messages name it: fields of SessionOptions, ModelOptions, EngineOptions
// and of the C structs, and what else an edge has a word of its own for. Stage: set-up.
//
// Pure C++: no ggml, no I/O.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "pith/status.h"

namespace pith::item {

inline constexpr Item kBudget{"budget"};
inline constexpr Item kCausalGates{"causal gates"};  // which are a kind, and trained so
inline constexpr Item kCeiling{"ceiling"};
inline constexpr Item kChatTemplate{"chat_template"};
inline constexpr Item kChunk{"chunk"};
inline constexpr Item kCold{"cold"};
inline constexpr Item kContext{"max_context"};
inline constexpr Item kDeviceLayers{"n_device_layers"};
inline constexpr Item kDevices{"devices"};
inline constexpr Item kDraftNgram{"draft_ngram"};
inline constexpr Item kEvictEvery{"evict_every"};
inline constexpr Item kGates{"gate_file"};
inline constexpr Item kGrammar{"grammar"};
inline constexpr Item kGrid{"grid"};
inline constexpr Item kHeads{"heads_file"};
inline constexpr Item kHost{"host"};
inline constexpr Item kKvOffload{"kv_offload"};
inline constexpr Item kLookBack{"look_back"};
inline constexpr Item kLora{"lora_file"};
inline constexpr Item kLoraScale{"lora_scale"};
inline constexpr Item kMmap{"use_mmap"};
inline constexpr Item kPolicy{"policy"};
inline constexpr Item kPort{"port"};
inline constexpr Item kPrefill{"prefill"};
inline constexpr Item kPrompt{"prompt"};
inline constexpr Item kRaw{"raw"};  // a text as it is, without the model's chat template
inline constexpr Item kRepairEvery{"repair_every"};
inline constexpr Item kRpcServers{"rpc_servers"};
inline constexpr Item kTensorSplit{"tensor_split"};
inline constexpr Item kTypeK{"type_k"};
inline constexpr Item kTypeV{"type_v"};

// How the next token is drawn: fields of SamplerOptions.
inline constexpr Item kDryAllowedLength{"dry_allowed_length"};
inline constexpr Item kDryBase{"dry_base"};
inline constexpr Item kDryLastN{"dry_last_n"};
inline constexpr Item kDryMultiplier{"dry_multiplier"};
inline constexpr Item kDynatempExponent{"dynatemp_exponent"};
inline constexpr Item kDynatempRange{"dynatemp_range"};
inline constexpr Item kFrequencyPenalty{"frequency_penalty"};
inline constexpr Item kMinP{"min_p"};
inline constexpr Item kMirostat{"mirostat"};
inline constexpr Item kMirostatEta{"mirostat_eta"};
inline constexpr Item kMirostatTau{"mirostat_tau"};
inline constexpr Item kPresencePenalty{"presence_penalty"};
inline constexpr Item kRepeatLastN{"repeat_last_n"};
inline constexpr Item kRepeatPenalty{"repeat_penalty"};
inline constexpr Item kTemperature{"temperature"};
inline constexpr Item kTopNSigma{"top_n_sigma"};
inline constexpr Item kTopP{"top_p"};
inline constexpr Item kTypicalP{"typical_p"};
inline constexpr Item kXtcProbability{"xtc_probability"};
inline constexpr Item kXtcThreshold{"xtc_threshold"};

// Of an engine's request.
inline constexpr Item kAfter{"after"};
inline constexpr Item kMaxTokens{"max_tokens"};
inline constexpr Item kQuestion{"n_question"};
inline constexpr Item kQuestions{"questions"};

// What only the command line and requests set: it becomes a part of the policy.
inline constexpr Item kTolerance{"tolerance"};

// What only commands set that measure and show: fields of BenchOptions, DemoOptions and CalibrateOptions.
inline constexpr Item kDepths{"depths"};
inline constexpr Item kLlamaBench{"llama"};  // whether llama-bench is measured too
inline constexpr Item kNewTokens{"n_generate"};
inline constexpr Item kPromptTokens{"n_prompt"};
inline constexpr Item kRepetitions{"n_repetitions"};
inline constexpr Item kTextTokens{"n_tokens"};
inline constexpr Item kThreads{"n_threads"};

// An edge's table is complete when it has each of these; the command line's has the others too.
inline constexpr std::array kAll = {kBudget,       kCausalGates, kCeiling,    kChatTemplate, kChunk, kCold,        kContext,
                                    kDeviceLayers, kDevices,     kDraftNgram, kEvictEvery,   kGates, kGrammar,     kGrid,
                                    kHeads,        kHost,        kKvOffload,  kLookBack,     kLora,  kLoraScale,   kMmap,
                                    kPolicy,       kPort,        kPrefill,    kPrompt,       kRaw,   kRepairEvery, kRpcServers,
                                    kTensorSplit,  kTypeK,       kTypeV};
inline constexpr std::array kOfMeasuring = {kDepths,      kLlamaBench, kNewTokens, kPromptTokens,
                                            kRepetitions, kTextTokens, kThreads};

// The row of an edge's table, rows with an `item`, that is about this one; nullptr: none is.
template <class Row, size_t n>
constexpr const Row * find(const std::array<Row, n> & table, std::string_view name) {
    for (const Row & row : table) {
        if (row.item.name == name) { return &row; }
    }
    return nullptr;
}

// Whether the table has all of these.
template <class Row, size_t n, size_t m = kAll.size()>
constexpr bool has_all(const std::array<Row, n> & table, const std::array<Item, m> & items = kAll) {
    for (const Item & one : items) {
        if (find(table, one.name) == nullptr) { return false; }
    }
    return true;
}

}  // namespace pith::item
