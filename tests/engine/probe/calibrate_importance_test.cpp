// calibrate_importance_test.cpp - learns a random model's second reading, and keeps what that would have kept.
#include "engine/probe/calibrate_importance.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <random>
#include <utility>

#include "engine/layer_probe.h"
#include "engine/parts/model_parts.h"
#include "engine/policy_probe.h"
#include "engine/probe/importance_texts.h"
#include "engine/tiny_model.h"
#include "gate/gate_file.h"
#include "model/gguf_edit.h"
#include "model/head_importance_file.h"
#include "pith/batch_engine.h"
#include "pith/cache_file.h"

namespace pith::calibrate_importance_test {
namespace {

class CalibrateImportance : public ::testing::Test {
protected:
    void SetUp() override {
        path_ = testing::scratch_file("importance.gguf");
        ASSERT_TRUE(write_random_model(testing::tiny_spec(), path_).ok());
        auto model = Model::load(path_);
        ASSERT_TRUE(model.ok()) << model.status().message();
        model_ = std::make_unique<Model>(*model);
    }
    std::vector<std::vector<int32_t>> texts(int n, int n_tokens) const {
        std::mt19937 random(3);
        std::vector<std::vector<int32_t>> out;
        for (int i = 0; i < n; ++i) {
            std::vector<int32_t> text;
            for (int t = 0; t < n_tokens; ++t) {
                text.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(model_->info().n_vocab)));
            }
            out.push_back(std::move(text));
        }
        return out;
    }
    static ImportanceOptions options() {
        ImportanceOptions options;
        options.n_threads = 1;
        return options;
    }
    std::string path_;
    std::unique_ptr<Model> model_;
};

TEST_F(CalibrateImportance, ForetellsTextsThatItDidNotLearnFromBetterThanAGuess) {
    const auto done = fit_importance(*model_, texts(10, 256), 2, options());
    ASSERT_TRUE(done.ok()) << done.status().message();
    EXPECT_EQ(done->n_tokens, 8 * 256);
    EXPECT_EQ(done->held_out.n_tokens, 2 * 256);
    EXPECT_GT(done->held_out.found, 0.3) << "a guess finds a fifth";
    EXPECT_LE(done->held_out.found, 1.0);
}

TEST_F(CalibrateImportance, ItsFileRanksInASessionWithABudget) {
    const auto done = fit_importance(*model_, texts(6, 128), 1, options());
    ASSERT_TRUE(done.ok()) << done.status().message();
    const std::string file = testing::scratch_file("importance.gate.gguf");
    ASSERT_TRUE(save_importance(file, *done, *model_).ok());
    ModelOptions with_gate;
    with_gate.gate_file = file;
    const auto model = Model::load(path_, with_gate);
    ASSERT_TRUE(model.ok()) << model.status().message();

    SessionOptions session_options;
    session_options.n_threads = 1;
    session_options.budget = 64;
    auto session = model->session(session_options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_TRUE(session->prefill(texts(1, 256).front()).ok());
    EXPECT_EQ(session->ledger().policy, "gate+global:normalise=off") << "what `auto` takes";
    EXPECT_EQ(session->ledger().policy_reason, "importance was learnt for the model");

    session_options.policy = "gated+snapkv";
    const auto refused = model->session(session_options);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.status().message().find("only rank entries"), std::string::npos) << refused.status().message();
}

// What a session with the policy `auto` and a budget becomes.
std::string auto_policy_of(const Model & model, std::span<const int32_t> prompt) {
    SessionOptions options;
    options.n_threads = 1;
    options.budget = 64;
    auto session = model.session(options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    EXPECT_TRUE(session.ok() && session->prefill(prompt).ok());
    return session.ok() ? session->ledger().policy : "";
}

TEST_F(CalibrateImportance, WhatLiesBesideTheModelIsFoundUnlessItIsAnothers) {
    const auto prompt = texts(1, 256).front();
    EXPECT_EQ(auto_policy_of(*model_, prompt), "keydiff+ada:alpha=0");
    const auto done = fit_importance(*model_, texts(4, 128), 1, options());
    ASSERT_TRUE(done.ok()) << done.status().message();
    const std::string beside = path_beside_model(path_, kImportanceFileEnd);
    ASSERT_TRUE(save_importance(beside, *done, *model_).ok());
    const auto with = Model::load(path_);
    ASSERT_TRUE(with.ok()) << with.status().message();
    EXPECT_TRUE(with->info().has_importance);
    EXPECT_FALSE(with->info().has_gates);
    EXPECT_EQ(auto_policy_of(*with, prompt), "gate+global:normalise=off");
    ModelOptions without;
    without.gate_file = kNoGates;
    EXPECT_FALSE(Model::load(path_, without)->info().has_importance);

    RandomModelSpec other = testing::tiny_spec();
    other.seed += 1;
    const std::string path = testing::scratch_file("importance-other.gguf");
    ASSERT_TRUE(write_random_model(other, path).ok());
    std::filesystem::copy_file(beside, path_beside_model(path, kImportanceFileEnd),
                               std::filesystem::copy_options::overwrite_existing);
    const auto passed_over = Model::load(path);
    ASSERT_TRUE(passed_over.ok()) << passed_over.status().message();
    EXPECT_FALSE(passed_over->info().has_importance);
    std::filesystem::remove(beside);
}

// A model with its importance, for policy `gate`.
class RankedSession : public CalibrateImportance {
protected:
    void SetUp() override {
        CalibrateImportance::SetUp();
        const auto done = fit_importance(*model_, texts(4, 128), 1, options());
        ASSERT_TRUE(done.ok()) << done.status().message();
        ModelOptions with_gate;
        with_gate.gate_file = testing::scratch_file("ranked.gate.gguf");
        ASSERT_TRUE(save_importance(with_gate.gate_file, *done, *model_).ok());
        auto model = Model::load(path_, with_gate);
        ASSERT_TRUE(model.ok()) << model.status().message();
        ranked_ = std::make_unique<Model>(*model);
    }
    static SessionOptions session_options(const std::string & policy) {
        SessionOptions options;
        options.policy = policy;
        options.n_threads = 1;
        options.budget = 40;
        return options;
    }
    static std::vector<std::vector<int32_t>> lanes(const Session & session, const Model & model) {
        std::vector<std::vector<int32_t>> all;
        for (int l = 0; l < model.info().n_layers; ++l) {
            for (int h = 0; h < model.info().n_kv_heads; ++h) {
                const auto lane = session.lane_positions(l, h);
                all.emplace_back(lane.begin(), lane.end());
            }
        }
        return all;
    }
    std::unique_ptr<Model> ranked_;
};

TEST_F(RankedSession, AFileThatWasSavedWithoutTheImportanceOpensWhereItIsThere) {
    const auto prompt = texts(1, 128).front();
    auto session = model_->session(session_options("knorm"));
    ASSERT_TRUE(session.ok());
    ASSERT_TRUE(session->prefill(prompt).ok());
    const std::string file = testing::scratch_file("ranked.pith");
    ASSERT_TRUE(session->save(file).ok());
    auto opened = ranked_->open_session(file, 1);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(lanes(*opened, *model_), lanes(*session, *model_));

    auto asks = ranked_->session(session_options("gate"));
    ASSERT_TRUE(asks.ok());
    ASSERT_TRUE(asks->prefill(prompt).ok());
    ASSERT_TRUE(asks->save(file).ok());
    EXPECT_TRUE(ranked_->open_session(file, 1).ok());
    const auto refused = model_->open_session(file, 1);
    ASSERT_FALSE(refused.ok()) << "it goes on asking";
    EXPECT_NE(refused.status().message().find("gates"), std::string::npos) << refused.status().message();
}

TEST_F(RankedSession, QuestionsAreNotInItsSightAndChangeNothing) {
    const auto prompt = texts(1, 128).front();
    const std::vector<int32_t> questions(prompt.begin(), prompt.begin() + 9);
    auto plain = ranked_->session(session_options("gate+global:normalise=off"));
    auto asked = ranked_->session(session_options("gate+global:normalise=off"));
    ASSERT_TRUE(plain.ok() && asked.ok());
    ASSERT_TRUE(plain->prefill(prompt).ok());
    const auto seen = asked->prefill_for_questions(prompt, questions);
    ASSERT_TRUE(seen.ok()) << seen.status().message();
    EXPECT_FALSE(*seen);
    EXPECT_EQ(lanes(*plain, *ranked_), lanes(*asked, *ranked_));
    ASSERT_TRUE(plain->append(prompt.front()).ok());
    ASSERT_TRUE(asked->append(prompt.front()).ok());
    EXPECT_TRUE(std::ranges::equal(plain->logits(), asked->logits()));

    auto chosen = ranked_->session(session_options("auto"));
    ASSERT_TRUE(chosen.ok());
    const auto in_sight = chosen->prefill_for_questions(prompt, questions);
    ASSERT_TRUE(in_sight.ok()) << in_sight.status().message();
    EXPECT_TRUE(*in_sight) << "`auto` then takes another";
    EXPECT_EQ(chosen->ledger().policy, "vmax:pool=avg45:pool_over=before+entropy");
}

// What the file says, by hand: from the inputs that the layers' attention reads.
TEST_F(RankedSession, EveryTokenIsRankedByItsOwnInputDecodedOnesToo) {
    const auto prompt = texts(1, 60).front();
    SessionOptions options = session_options("full");
    options.budget = {};
    options.observe = {"gate"};
    auto session = ranked_->session(options);
    ASSERT_TRUE(session.ok());
    std::vector<std::vector<float>> inputs(static_cast<size_t>(ranked_->info().n_layers));
    {
        LayerProbe layers(*session);
        layers.set_input_observer([&](int layer, std::span<const float> rows, int, int32_t) -> Status {
            inputs[static_cast<size_t>(layer)].insert(inputs[static_cast<size_t>(layer)].end(), rows.begin(), rows.end());
            return {};
        });
        ASSERT_TRUE(session->prefill(prompt).ok());
        layers.set_input_observer({});
    }
    for (int i = 0; i < 5; ++i) { ASSERT_TRUE(session->append(7 + i).ok()); }  // by the graph that is kept
    auto again = ranked_->session(options);  // all of it as a prompt, to see the decoded tokens' inputs
    ASSERT_TRUE(again.ok());
    std::vector<int32_t> all = prompt;
    for (int i = 0; i < 5; ++i) { all.push_back(7 + i); }
    ASSERT_TRUE(again->prefill(all).ok());
    const auto gate = gate_of(*ranked_);
    const auto width = static_cast<size_t>(ranked_->info().n_embd);
    for (int l = 0; l < ranked_->info().n_layers; ++l) {
        const auto said = PolicyProbe(*session).evidence(l, {.retention = true});
        const auto wanted = PolicyProbe(*again).evidence(l, {.retention = true});
        ASSERT_TRUE(said.ok() && wanted.ok());
        const GateLayerWeights & weights = gate->weights().layers[static_cast<size_t>(l)];
        for (int h = 0; h < ranked_->info().n_kv_heads; ++h) {
            const auto row = said->retention.row(h);
            ASSERT_EQ(row.size(), 65U);
            for (size_t i = 0; i < row.size(); ++i) {
                EXPECT_NEAR(row[i], wanted->retention.row(h)[i], 1e-4 * row[i]) << l << " " << h << " " << i;
                EXPECT_LT(row[i], 0.9F) << "1 says that nobody was asked";
            }
            const float * w = static_cast<const float *>(weights.out->data) + static_cast<size_t>(h) * width;
            for (size_t i = 0; i < prompt.size(); ++i) {
                double logit = static_cast<const float *>(weights.bias->data)[h];
                for (size_t d = 0; d < width; ++d) { logit += double{w[d]} * inputs[static_cast<size_t>(l)][i * width + d]; }
                EXPECT_NEAR(row[i], 1 / (1 + std::exp(-logit)), 1e-4 * row[i] + 1e-9) << l << " " << h << " " << i;
            }
        }
    }
}

TEST_F(RankedSession, SequencesThatAnswerTogetherKeepWhatEachKeepsAlone) {
    const auto lanes_of = [&](int n_together) {
        EngineOptions engine_options;
        engine_options.n_threads = 1;
        engine_options.max_rows = 24;
        auto engine = ranked_->engine(engine_options);
        EXPECT_TRUE(engine.ok()) << engine.status().message();
        std::vector<int64_t> ids;
        const auto prompts = texts(n_together, 100);
        for (const auto & prompt : prompts) {
            Request request;
            request.tokens = prompt;
            request.options = session_options("gate+global:normalise=off");
            request.options.chunk = 16;
            request.options.evict_every = 4;
            request.max_tokens = 20;
            request.keep = true;
            request.choose = [](std::span<const float> logits) {
                return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
            };
            ids.push_back(engine->submit(std::move(request)).value());
        }
        EXPECT_TRUE(engine->run().ok());
        std::vector<std::vector<int32_t>> all;
        for (int l = 0; l < ranked_->info().n_layers; ++l) {
            for (int h = 0; h < ranked_->info().n_kv_heads; ++h) {
                const auto lane = engine->lane_positions(ids.front(), l, h);
                all.emplace_back(lane.begin(), lane.end());
            }
        }
        return all;
    };
    EXPECT_EQ(lanes_of(3), lanes_of(1));
}

TEST_F(RankedSession, AnEngineFindsPrefixesOfPromptsThatAreRanked) {
    const testing::TempFolder folder;
    EngineOptions engine_options;
    engine_options.n_threads = 1;
    engine_options.grid = 32;
    engine_options.cache_dir = folder.file("states");
    const auto answer = [&](const std::string & policy, int n_tokens) {
        Request request;
        request.tokens = texts(1, 150).front();
        request.tokens.resize(static_cast<size_t>(n_tokens), 5);
        request.options = session_options(policy);
        request.options.chunk = 16;
        request.options.evict_every = 5;
        request.max_tokens = 4;
        request.keep = true;
        request.choose = [](std::span<const float> logits) {
            return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
        };
        auto engine = ranked_->engine(engine_options);
        EXPECT_TRUE(engine.ok()) << engine.status().message();
        const auto id = engine->submit(std::move(request));
        EXPECT_TRUE(id.ok() && engine->run().ok());
        const auto lane = engine->lane_positions(*id, 0, 0);
        return std::pair(engine->n_cached(*id), std::vector<int32_t>(lane.begin(), lane.end()));
    };
    const auto first = answer("gate", 170);
    EXPECT_EQ(first.first, 0);
    const auto again = answer("gate", 170);
    EXPECT_GT(again.first, 0) << "read before";
    EXPECT_EQ(again.second, first.second);
    EXPECT_EQ(answer("knorm", 170).first, 0) << "another policy's state";
}

TEST_F(CalibrateImportance, SaysWhatIsMissing) {
    const auto one = fit_importance(*model_, texts(1, 128), 1, options());
    ASSERT_FALSE(one.ok());
    EXPECT_EQ(one.status().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(one.status().message().find("give 2 or more"), std::string::npos) << one.status().message();
}

TEST_F(CalibrateImportance, EndsWhenItIsCancelled) {
    ImportanceOptions cancelled = options();
    std::atomic<bool> flag{false};
    cancelled.cancel = &flag;
    cancelled.progress = [&flag](int64_t n_done, int64_t) { flag = n_done > 128; };
    const auto done = fit_importance(*model_, texts(6, 128), 1, cancelled);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.status().code(), ErrorCode::kCancelled);
}

TEST_F(CalibrateImportance, CutsTextsIntoPiecesSpreadOverAllOfThem) {
    const auto tokenizer = Tokenizer::load(path_);
    ASSERT_TRUE(tokenizer.ok());
    std::string text;
    for (int i = 0; i < 4000; ++i) { text += std::to_string(i) + " "; }
    ImportanceTextOptions how;
    how.n_texts = 3;
    how.n_tokens = 200;
    const auto pieces = pieces_of_texts(*tokenizer, {text}, how);
    ASSERT_TRUE(pieces.ok()) << pieces.status().message();
    ASSERT_EQ(pieces->size(), 3U);
    for (const auto & piece : *pieces) { EXPECT_EQ(piece.size(), 200U); }
    EXPECT_NE((*pieces)[1], (*pieces)[2]);
    const auto short_one = pieces_of_texts(*tokenizer, {"a few words"}, how);
    ASSERT_FALSE(short_one.ok());
    EXPECT_NE(short_one.status().message().find("too few tokens"), std::string::npos) << short_one.status().message();
}

}  // namespace
}  // namespace pith::calibrate_importance_test
