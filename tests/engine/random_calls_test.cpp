// random_calls_test.cpp - sessions under sequences of calls drawn at random, of which many fail: by what they are given, by a
// hook, by memory, pages, buffers, files or a graph run that there is not.
//
// Most sequences are short, so that there are many beginnings; every fortieth is long.
//
// PITH_RANDOM_SEQUENCES   in all (2,000; the label slow has 100,000; half where AddressSanitizer watches)
// PITH_RANDOM_SEED        only this sequence: a failure says which
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "engine/fail_at.h"
#include "engine/gated_model.h"
#include "engine/random_walk.h"
#include "engine/tiny_model.h"

namespace pith::random_calls_test {
namespace {

using testing::fail_at;
using testing::Fails;
using testing::RandomWalk;
using testing::stop_failing;
using testing::Trouble;

constexpr int kTrained = 100;  // tokens: behind so many, kept keys turn

enum class Gates { kNone, kCausal, kWholePrompt, kLinear, kRank };

struct Case {
    std::string name;
    std::string policy;
    Budget budget = 40;
    PrefillSchedule prefill = PrefillSchedule::kOneShot;
    KvType type_k = KvType::kF16;
    KvType type_v = KvType::kF16;
    int evict_every = 8;
    Gates gates = Gates::kNone;
    std::vector<PolicyChoice> observe = {};
    std::vector<PositionSpan> pinned = {};
    int grid = 0;
    bool windows = false;
};
std::ostream & operator<<(std::ostream & out, const Case & c) {
    return out << c.policy << ", budget " << c.budget.to_string();
}

constexpr auto kChunks = PrefillSchedule::kChunked;
constexpr auto kOneShot = PrefillSchedule::kOneShot;
constexpr auto kAny = PrefillSchedule::kAuto;
const Budget kSixtyKibibytes(BudgetKind::kBytes, 60 * 1024);

const std::vector<Case> & cases() {
    static const std::vector<Case> all = {
        {"snapkv", "snapkv:window=8"},
        {"snapkv_chunks", "snapkv:window=8", 40, kChunks},
        {"h2o_bytes", "h2o:recent=8", 40, kChunks, KvType::kQ8_0, KvType::kQ4_0},
        {"expected_ada", "expected:future=8:recent=8+ada", 40, kChunks, KvType::kF32, KvType::kF32},
        {"knorm_pinned", "knorm:recent=8", 40, kAny, KvType::kF16, KvType::kF16, 3, Gates::kNone, {}, {{4, 10}}},
        {"laprox", "laprox:window=8", 40, kOneShot, KvType::kBF16, KvType::kBF16},
        {"score", "snapkv:window=8+novelty+diverse"},
        {"tova", "tova:recent=8", Budget(BudgetKind::kPercent, 50), kAny},
        {"cake", "attnvar:window=8+preference", 40, kOneShot, KvType::kQ8_0, KvType::kQ8_0, 1},
        {"lava_ceiling", "vmax:window=8+entropy", kSixtyKibibytes, kChunks},
        {"caote_ceiling", "h2o:recent=8+caote", kSixtyKibibytes, kAny},
        {"joint", "keydiff:recent=8+joint", 40, kChunks},
        {"streaming_never_again", "streaming", 40, kOneShot, KvType::kF16, KvType::kF16, 0},
        {"headkv", "headkv:window=8", 40, kAny},
        {.name = "grid", .policy = "snapkv:window=8+ada", .prefill = kChunks, .grid = 16},
        {.name = "grid_ceiling", .policy = "h2o:recent=8", .budget = kSixtyKibibytes, .prefill = kChunks, .grid = 24},
        {.name = "grid_behind_one_shot", .policy = "laprox:window=8", .grid = 24},
        {"auto", "auto", 40, kAny},
        {"evict_later",
         "full",
         Budget(),
         kOneShot,
         KvType::kF16,
         KvType::kF16,
         8,
         Gates::kNone,
         {"snapkv:window=8", "h2o:recent=8+fastcaote", "laprox:window=8", "auto"}},
        {"evict_later_chunks",
         "full",
         Budget(),
         kChunks,
         KvType::kF16,
         KvType::kF16,
         0,
         Gates::kNone,
         {"knorm:recent=8", "expected:future=8:recent=8"}},
        {"gated", "gated+snapkv:window=8", 40, kChunks, KvType::kF16, KvType::kF16, 8, Gates::kCausal},
        {"gated_whole", "gated", Budget(), kAny, KvType::kF16, KvType::kF16, 8, Gates::kWholePrompt},
        {"gate_linear", "gate:recent=8", 40, kChunks, KvType::kF16, KvType::kF16, 8, Gates::kLinear},
        {"ranked", "gate:recent=8+global:normalise=off", 40, kAny, KvType::kF16, KvType::kF16, 3, Gates::kRank},
        {"auto_ranked", "auto", 40, kChunks, KvType::kF16, KvType::kF16, 8, Gates::kRank},
        {.name = "ranked_evict_later",
         .policy = "full",
         .budget = Budget(),
         .prefill = kAny,
         .gates = Gates::kRank,
         .observe = {"gate:recent=8", "auto"}},
        {.name = "windows", .policy = "full", .budget = Budget(), .prefill = kAny, .windows = true},
        {.name = "windows_snapkv", .policy = "snapkv:window=8", .prefill = kAny, .windows = true},
        {.name = "windows_h2o_ceiling",
         .policy = "h2o:recent=8",
         .budget = Budget(BudgetKind::kBytes, 200 * 1024),
         .prefill = kChunks,
         .windows = true},
        {.name = "windows_evict_later",
         .policy = "full",
         .budget = Budget(),
         .prefill = kAny,
         .observe = {"snapkv:window=8", "laprox:window=8", "auto"},
         .windows = true},
        {"auto_gated", "auto", 40, kAny, KvType::kF16, KvType::kF16, 8, Gates::kCausal},
    };
    return all;
}

const Model & model_with_windows() {
    static const Model model = [] {
        RandomModelSpec spec = testing::tiny_spec();
        spec.arch = "gemma2";
        spec.n_layers = 2;
        spec.n_ctx_train = kTrained;
        spec.window = 5;
        spec.n_ctx_train = kTrained;
        return testing::tiny_model(spec).value();
    }();
    return model;
}

const Model & model_with(Gates gates) {
    static std::map<Gates, Model> models;
    const auto found = models.find(gates);
    if (found != models.end()) { return found->second; }
    RandomModelSpec spec = testing::tiny_spec();
    spec.n_layers = 2;
    GateConfig gate = testing::even_gate();
    gate.causal = gates == Gates::kCausal;
    if (gates == Gates::kRank) { gate.purpose = GatePurpose::kRank; }
    gate.kind = gates == Gates::kLinear || gates == Gates::kRank ? GateKind::kLinear : GateKind::kAttention;
    auto model = gates == Gates::kNone ? testing::tiny_model(spec) : testing::gated_model(spec, gate);
    return models.emplace(gates, std::move(model).value()).first->second;
}

SessionOptions options_of(const Case & c) {
    SessionOptions options;
    options.policy = c.policy;
    options.budget = c.budget;
    options.type_k = c.type_k;
    options.type_v = c.type_v;
    options.n_threads = 1;
    options.prefill = c.prefill;
    options.chunk = 16;
    options.evict_every = c.evict_every;
    options.grid = c.grid;
    options.pinned = c.pinned;
    options.observe = c.observe;
    auto heads = std::make_shared<HeadImportance>();
    for (int i = 0; i < 8; ++i) {  // layers · heads
        heads->copy.push_back(0.1 * i);
        heads->reason.push_back(0.05 * (8 - i));
    }
    options.heads = std::move(heads);
    return options;
}

Trouble one_failure() {
    const auto begin = [](corpus::Random & dice) {
        const auto what = static_cast<Fails>(dice.below(static_cast<int>(Fails::kCancel)));
        const int magnitude = dice.below(what == Fails::kNew ? 12 : 6);
        fail_at(what, 1 + dice.below(1 << magnitude));
    };
    return {begin, stop_failing};
}

int64_t number_from(const char * variable, int64_t otherwise) {
    const char * text = std::getenv(variable);
    return text != nullptr ? std::atoll(text) : otherwise;
}

#if defined(__SANITIZE_ADDRESS__)
constexpr int64_t kSequences = 1000;
#else
constexpr int64_t kSequences = 2000;
#endif
constexpr int kShort = 5;  // calls
constexpr int kLong = 40;
constexpr int kOneIsLong = 40;  // of so many

class RandomCalls : public ::testing::TestWithParam<Case> {};

TEST_P(RandomCalls, EveryFailureLeavesNoTraceAndEverySurvivorIsAsBuiltAfresh) {
    const int64_t only = number_from("PITH_RANDOM_SEED", 0);
    const int64_t n_walks = number_from("PITH_RANDOM_SEQUENCES", kSequences) / std::ssize(cases()) + 1;
    const Model & model = GetParam().windows ? model_with_windows() : model_with(GetParam().gates);
    const auto row = std::ranges::find(cases(), GetParam().name, &Case::name) - cases().begin();
    for (int64_t seed = only > 0 ? only : 1; seed <= (only > 0 ? only : n_walks); ++seed) {
        const corpus::Random dice(corpus::SeedSpace::kTask, static_cast<uint64_t>(row), static_cast<uint64_t>(seed));
        RandomWalk walk(model, options_of(GetParam()), dice, one_failure());
        const int n_calls = seed % kOneIsLong == 0 ? kLong : kShort;
        for (int i = 0; i < n_calls && !HasFailure(); ++i) { walk.step(); }
        if (!HasFailure()) { walk.check_survivors(); }
        ASSERT_FALSE(HasFailure()) << "seed " << seed << " (PITH_RANDOM_SEED=" << seed << " walks it alone):\n" << walk.story();
    }
}

INSTANTIATE_TEST_SUITE_P(Sessions, RandomCalls, ::testing::ValuesIn(cases()),
                         [](const auto & test) { return test.param.name; });

}  // namespace
}  // namespace pith::random_calls_test
