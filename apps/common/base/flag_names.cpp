// flag_names.cpp - the table of items and flags.
#include "common/base/flag_names.h"

#include <array>

#include "core/items.h"

namespace pith::app {
namespace {

struct FlagName {
    Item item;
    std::string_view flag;
};
constexpr auto kNames = std::to_array<FlagName>({
    {item::kBudget, "--budget"},
    {item::kCausalGates, "causal gates (`pith train gate --causal`)"},
    {item::kCeiling, "--kv-budget"},
    {item::kChatTemplate, "--chat-template NAME"},
    {item::kChunk, "--chunk"},
    {item::kContext, "--ctx-size"},
    {item::kDeviceLayers, "-ngl"},
    {item::kDevices, "--device"},
    {item::kEvictEvery, "--evict-every"},
    {item::kGates, "--gate"},
    {item::kGrammar, "--grammar"},
    {item::kGrid, "--grid"},
    {item::kHeads, "--heads"},
    {item::kHost, "--host"},
    {item::kKvOffload, "--no-kv-offload"},
    {item::kLora, "--lora"},
    {item::kLoraScale, "--lora-scale"},
    {item::kMmap, "--no-mmap"},
    {item::kPolicy, "--policy"},
    {item::kPort, "--port"},
    {item::kPrefill, "--prefill"},
    {item::kPrompt, "-p or -f"},
    {item::kRaw, "--raw"},
    {item::kRpcServers, "--rpc"},
    {item::kTensorSplit, "--tensor-split"},
    {item::kTypeK, "--cache-type-k"},
    {item::kTypeV, "--cache-type-v"},
    {item::kDepths, "--depth"},
    {item::kLlamaBench, "--no-llama"},
    {item::kNewTokens, "--n-predict"},
    {item::kPromptTokens, "--n-prompt"},
    {item::kRepetitions, "--repetitions"},
    {item::kTextTokens, "--tokens"},
    {item::kThreads, "--threads"},
});
static_assert(item::has_all(kNames) && item::has_all(kNames, item::kOfMeasuring));

}  // namespace

std::string_view flag_of(std::string_view name) {
    const FlagName * found = item::find(kNames, name);
    return found != nullptr ? found->flag : name;
}

std::string message_of(const Status & status) {
    return status.message(flag_of);
}

}  // namespace pith::app
