// batch_mask_oracle_test.cpp - of every sequence of a batch: what was really evicted equals a full cache in which those entries
// are masked for the queries that come after the eviction. Ragged lanes of unlike policies and lengths, all K/V types, groups
// of 1 to 8 query heads.
#include <gtest/gtest.h>

#include <cstdio>

#include "engine/mask_oracle.h"
#include "engine/tiny_model.h"
#include "pith/batch_engine.h"

namespace pith::batch_mask_oracle_test {
namespace {

using testing::EvictionLog;
using testing::kBudget;
using testing::masked_logits;
using testing::random_tokens;
using testing::relative_error;
using testing::tiny_model;
using testing::tiny_spec;

struct OracleCase {
    KvType type;
    int n_group;
};
void PrintTo(const OracleCase & c, std::ostream * out) {
    *out << to_string(c.type) << " G=" << c.n_group;
}

std::vector<OracleCase> all_cases() {
    std::vector<OracleCase> all;
    for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kQ8_0, KvType::kQ4_0}) {
        for (int n_group = 1; n_group <= 8; ++n_group) { all.push_back({type, n_group}); }
    }
    return all;
}

ggml_type rounded_as(KvType type) {
    return type == KvType::kF32    ? GGML_TYPE_F32
           : type == KvType::kF16  ? GGML_TYPE_F16
           : type == KvType::kBF16 ? GGML_TYPE_BF16
           : type == KvType::kQ8_0 ? GGML_TYPE_Q8_0
                                   : GGML_TYPE_Q4_0;
}

// Chosen, as mask_oracle_test's are.
double bound_of(KvType type) {
    return type == KvType::kF32 ? 1e-5 : type == KvType::kF16 ? 2e-3 : type == KvType::kQ4_0 ? 1.5e-2 : 8e-3;
}

struct OneOfBatch {
    std::string policy;
    PrefillSchedule prefill;
    int n_prompt;
    int n_decoded;
    int evict_every;
    std::vector<int32_t> tokens = {};  // all of them: what an answer says is given
    std::vector<float> logits = {};    // from the prompt's last token on
    EvictionLog log = {};
    int64_t id = 0;
};

class BatchMaskOracle : public ::testing::TestWithParam<OracleCase> {};

TEST_P(BatchMaskOracle, EvictionOfEachSequenceEqualsMasking) {
    RandomModelSpec spec = tiny_spec();
    spec.n_kv_heads = 2;
    spec.n_heads = 2 * GetParam().n_group;
    const auto model = tiny_model(spec);
    ASSERT_TRUE(model.ok()) << model.status().message();
    EngineOptions options;
    options.grid = 0;
    options.type_k = options.type_v = GetParam().type;
    options.n_threads = 1;
    options.max_rows = 40;
    auto engine = model->engine(options);
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    std::vector<OneOfBatch> all = {{"snapkv:window=8+ada", PrefillSchedule::kChunked, 100, 20, 7},
                                   {"h2o+caote", PrefillSchedule::kOneShot, 90, 25, 3},
                                   {"laprox", PrefillSchedule::kOneShot, 70, 30, 1},
                                   {"full", PrefillSchedule::kAuto, 60, 12, 0},
                                   {"expected+global", PrefillSchedule::kChunked, 110, 15, 5}};
    unsigned seed = 1;
    for (OneOfBatch & one : all) {
        one.tokens = random_tokens(one.n_prompt + one.n_decoded, spec.n_vocab, seed++);
        Request request;
        request.tokens.assign(one.tokens.begin(), one.tokens.begin() + one.n_prompt);
        request.options.policy = one.policy;
        if (one.policy != "full") { request.options.budget = kBudget; }
        request.options.prefill = one.prefill;
        request.options.chunk = 24;
        request.options.evict_every = one.evict_every;
        request.max_tokens = one.n_decoded + 1;
        request.choose = [&one, n = static_cast<size_t>(one.n_prompt)](std::span<const float> logits) mutable {
            one.logits.insert(one.logits.end(), logits.begin(), logits.end());
            return one.tokens[std::min(n++, one.tokens.size() - 1)];
        };
        const auto id = engine->submit(std::move(request));
        ASSERT_TRUE(id.ok()) << id.status().message();
        one.id = *id;
    }
    int64_t most_running = 0;
    for (bool more = true; more;) {
        const auto stepped = engine->step();
        ASSERT_TRUE(stepped.ok()) << stepped.status().message();
        more = *stepped;
        most_running = std::max(most_running, engine->ledger().n_running);
        for (OneOfBatch & one : all) {
            const RequestState state = engine->state(one.id);
            // While a prompt is read layer by layer, lanes of the layers behind are empty, and nothing has been evicted from
            // them.
            const bool reads_chunks = state == RequestState::kReading && one.prefill == PrefillSchedule::kChunked;
            if (!reads_chunks && state != RequestState::kAnswering) { continue; }
            const auto ledger = engine->ledger(one.id);
            ASSERT_TRUE(ledger.ok());
            one.log.look(spec.n_layers, spec.n_kv_heads, ledger->n_tokens,
                         [&](int layer, int kv_head) { return engine->lane_positions(one.id, layer, kv_head); });
        }
    }
    EXPECT_EQ(most_running, std::ssize(all)) << "they did not run together";
    double worst = 0;
    for (const OneOfBatch & one : all) {
        SCOPED_TRACE(one.policy);
        ASSERT_EQ(engine->state(one.id), RequestState::kDone) << engine->status(one.id).message();
        const auto least = static_cast<size_t>(spec.n_layers * spec.n_kv_heads * (one.n_prompt - kBudget));
        EXPECT_GE(one.log.size(), one.policy == "full" ? 0 : least);
        const auto expected = masked_logits(*model, one.log, one.tokens, rounded_as(GetParam().type));
        const auto first = static_cast<std::ptrdiff_t>(one.n_prompt - 1) * spec.n_vocab;
        const std::vector<float> from_there(expected.begin() + first, expected.end());
        worst = std::max(worst, relative_error(one.logits, from_there));
    }
    std::printf("largest difference %.2e of the range\n", worst);
    EXPECT_LE(worst, bound_of(GetParam().type));
}

INSTANTIATE_TEST_SUITE_P(TypesAndGroups, BatchMaskOracle, ::testing::ValuesIn(all_cases()));

}  // namespace
}  // namespace pith::batch_mask_oracle_test
