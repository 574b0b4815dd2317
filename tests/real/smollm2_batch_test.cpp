// smollm2_batch_test.cpp - SmolLM2 answering many at a time, and several that go on from one prompt: each says what it says
// alone, up to rounded activations.
#include "real/smollm2.h"

namespace pith::smollm2_batch_test {
namespace {

class SmolLM2Batch : public testing::SmolLM2 {
protected:
    static constexpr int kAnswer = 16;

    static SessionOptions options(const std::string & policy, Budget budget) {
        SessionOptions options = testing::full_f32_options();
        options.policy = policy;
        options.budget = budget;
        options.chunk = 64;
        return options;
    }
    static Result<Engine> engine_of(const Model & model) {
        EngineOptions options;
        options.grid = 0;  // evicts where a session would
        options.type_k = options.type_v = KvType::kF32;
        options.max_rows = 64;
        return model.engine(options);
    }
    // The logits by which each token of its answer was chosen.
    struct Said {
        int64_t id = 0;
        std::vector<int32_t> answer;
        testing::LogitRows rows;
    };
    static void listen(Request & request, Said & said) {
        request.max_tokens = kAnswer;
        request.choose = [&said](std::span<const float> row) {
            said.rows.add(row);
            return static_cast<int32_t>(testing::best_of(row));
        };
    }
    // A session that reads the same pieces and is told the same answer.
    static testing::LogitRows alone(const Model & model, const SessionOptions & options,
                                    std::initializer_list<std::span<const int32_t>> pieces, const Said & said) {
        testing::LogitRows rows;
        auto session = model.session(options);
        EXPECT_TRUE(session.ok()) << session.status().message();
        for (const auto piece : pieces) { EXPECT_TRUE(session->prefill(piece).ok()); }
        for (const int32_t token : said.answer) {
            rows.add(session->logits());
            EXPECT_TRUE(session->append(token).ok());
        }
        return rows;
    }
    static void finish(Engine & engine, std::vector<Said> & all) {
        ASSERT_TRUE(engine.run().ok());
        for (Said & said : all) {
            ASSERT_EQ(engine.state(said.id), RequestState::kDone) << engine.status(said.id).message();
            const auto answer = engine.answer(said.id);
            said.answer.assign(answer.begin(), answer.end());
            ASSERT_EQ(said.answer.size(), static_cast<size_t>(kAnswer));
        }
    }
    static void expect_as_alone(const Said & said, const testing::LogitRows & alone, double noise) {
        const testing::Distance d = testing::distance(said.rows, alone);
        testing::report("together from alone", d);
        testing::expect_inside_noise(d, noise);
    }

    static void expect_batch_as_alone(const Model & model, double noise) {
        const auto tokens = story(400);
        struct One {
            size_t from, n;
            SessionOptions options;
        };
        const std::vector<One> ones = {{0, 150, options("full", {})},
                                       {200, 90, options("snapkv:window=8", 48)},
                                       {100, 170, options("snapkv:window=8+ada", 64)},
                                       {300, 60, options("full", {})}};
        auto engine = engine_of(model);
        ASSERT_TRUE(engine.ok()) << engine.status().message();
        std::vector<Said> all(ones.size());
        for (size_t i = 0; i < ones.size(); ++i) {
            Request request;
            const auto part = std::span(tokens).subspan(ones[i].from, ones[i].n);
            request.tokens.assign(part.begin(), part.end());
            request.options = ones[i].options;
            listen(request, all[i]);
            const auto id = engine->submit(request);
            ASSERT_TRUE(id.ok()) << id.status().message();
            all[i].id = *id;
        }
        finish(*engine, all);
        for (size_t i = 0; i < ones.size() && !HasFatalFailure(); ++i) {
            SCOPED_TRACE(i);
            const auto part = std::span(tokens).subspan(ones[i].from, ones[i].n);
            expect_as_alone(all[i], alone(model, ones[i].options, {part}, all[i]), noise);
        }
    }

    // Two that go on from one prompt, which is read once.
    static void expect_forks_as_alone(const Model & model, double noise) {
        const auto tokens = story(260);
        const auto base_tokens = std::span(tokens).first(180);
        for (const SessionOptions & of : {options("full", {}), options("snapkv:window=8+ada", 64)}) {
            SCOPED_TRACE(of.policy.name());
            auto engine = engine_of(model);
            ASSERT_TRUE(engine.ok());
            Request base;
            base.tokens.assign(base_tokens.begin(), base_tokens.end());
            base.options = of;
            base.keep = true;
            base.max_tokens = 0;
            const auto kept = engine->submit(base);
            ASSERT_TRUE(kept.ok()) << kept.status().message();
            ASSERT_TRUE(engine->run().ok());
            std::vector<Said> all(2);
            const std::span<const int32_t> rest[] = {std::span(tokens).subspan(180, 30), std::span(tokens).subspan(210, 50)};
            for (size_t i = 0; i < all.size(); ++i) {
                Request fork;
                fork.after = *kept;
                fork.tokens.assign(rest[i].begin(), rest[i].end());
                listen(fork, all[i]);
                const auto id = engine->submit(fork);
                ASSERT_TRUE(id.ok()) << id.status().message();
                all[i].id = *id;
            }
            finish(*engine, all);
            EXPECT_EQ(engine->ledger().n_prompt, 180 + 30 + 50);
            for (size_t i = 0; i < all.size() && !HasFatalFailure(); ++i) {
                expect_as_alone(all[i], alone(model, of, {base_tokens, rest[i]}, all[i]), noise);
            }
        }
    }
};

TEST_F(SmolLM2Batch, AnswersAsEachAlone) {
    expect_batch_as_alone(model(), both().noise);
}
TEST_F(SmolLM2Batch, AnswersAsEachAloneOnItsWeightsInF32) {
    expect_batch_as_alone(f32(), testing::kSummation);
}
TEST_F(SmolLM2Batch, ForksAnswerAsEachAlone) {
    expect_forks_as_alone(model(), both().noise);
}
TEST_F(SmolLM2Batch, ForksAnswerAsEachAloneOnItsWeightsInF32) {
    expect_forks_as_alone(f32(), testing::kSummation);
}

}  // namespace
}  // namespace pith::smollm2_batch_test
