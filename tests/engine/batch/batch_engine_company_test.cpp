// batch_engine_company_test.cpp - what goes wrong with one sequence of a pass is that sequence's business: the others do not
// begin anew, and answer as alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/likeliest_token.h"
#include "engine/answers_alone.h"
#include "engine/tiny_model.h"
#include "model/gguf_edit.h"
#include "pith/batch_engine.h"
#include "pith/log.h"

namespace pith::batch_engine_company_test {
namespace {

using testing::answer_alone;
using testing::expect_answer;
using testing::f32_engine_options;

constexpr int32_t kBadToken = 383;  // what it is embedded in is no number

Result<Model> model_with_a_bad_token() {
    const std::string whole = testing::scratch_file("whole.gguf");
    const std::string damaged = testing::scratch_file("damaged.gguf");
    PITH_RETURN_IF_ERROR(write_random_model(testing::tiny_spec(), whole));
    const bool written = testing::edit_gguf(whole, damaged, {.tensor = [](ggml_tensor * tensor) {
                                                if (std::string(tensor->name) != "token_embd.weight") { return true; }
                                                auto * row = static_cast<float *>(tensor->data) + kBadToken * tensor->ne[0];
                                                std::fill_n(row, tensor->ne[0], NAN);
                                                return true;
                                            }});
    if (!written) { return {ErrorCode::kIo, "no file could be written"}; }
    return Model::load(damaged);
}

Request request_of(int n, int max_tokens) {
    return testing::f32_request(n, max_tokens, kBadToken);
}

// Until all have ended; nobody goes back to where it waited.
void run_without_beginning_anew(Engine & engine, const std::vector<int64_t> & ids) {
    for (bool more = true; more;) {
        const auto stepped = engine.step();
        ASSERT_TRUE(stepped.ok()) << stepped.status().message();
        more = *stepped;
        for (const int64_t id : ids) { ASSERT_NE(engine.state(id), RequestState::kWaiting) << id; }
    }
}

TEST(BatchEngineCompany, LogitsThatAreNoNumbersEndTheirPromptAlone) {
    const auto model = model_with_a_bad_token();
    ASSERT_TRUE(model.ok()) << model.status().message();
    auto engine = model->engine(f32_engine_options());
    ASSERT_TRUE(engine.ok());
    const std::vector<Request> good = {request_of(120, 6), request_of(150, 6)};
    std::vector<int64_t> ids;
    for (const Request & one : good) { ids.push_back(*engine->submit(one)); }
    Request bad = request_of(40, 6);
    bad.tokens.back() = kBadToken;
    const auto wrong = engine->submit(bad);
    ASSERT_NO_FATAL_FAILURE(run_without_beginning_anew(*engine, ids));
    EXPECT_EQ(engine->state(*wrong), RequestState::kFailed);
    EXPECT_NE(engine->status(*wrong).message().find("not a number"), std::string::npos) << engine->status(*wrong).message();
    for (size_t i = 0; i < ids.size(); ++i) {
        expect_answer(*engine, ids[i], answer_alone(*model, good[i].options, {good[i].tokens}, 6));
    }
    EXPECT_EQ(engine->ledger().kv_allocated_bytes, 0U);
}

TEST(BatchEngineCompany, LogitsThatAreNoNumbersEndTheirAnswerAlone) {
    const auto model = model_with_a_bad_token();
    ASSERT_TRUE(model.ok()) << model.status().message();
    auto engine = model->engine(f32_engine_options());
    ASSERT_TRUE(engine.ok());
    Request good = request_of(50, 12);
    good.options.policy = "snapkv:window=8";
    good.options.budget = 24;
    good.options.evict_every = 4;
    const auto right = engine->submit(good);
    Request bad = request_of(60, 12);
    bad.choose = [n = 0](std::span<const float> logits) mutable -> Result<int32_t> {
        return ++n == 3 ? kBadToken : likeliest_token(logits);
    };
    const auto wrong = engine->submit(bad);
    ASSERT_NO_FATAL_FAILURE(run_without_beginning_anew(*engine, {*right}));
    EXPECT_EQ(engine->state(*wrong), RequestState::kFailed);
    EXPECT_EQ(engine->answer(*wrong).size(), 3U);
    expect_answer(*engine, *right, answer_alone(*model, good.options, {good.tokens}, 12));
}

// A state cannot be kept, which is logged in the middle of a step.
TEST(BatchEngineCompany, ALogSinkThatThrowsEndsNobody) {
    const auto model = testing::tiny_model(testing::tiny_spec());
    ASSERT_TRUE(model.ok());
    const auto folder = testing::scratch_file("states-that-go");
    EngineOptions options = f32_engine_options();
    options.cache_dir = folder;
    auto engine = model->engine(options);
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    std::filesystem::remove_all(folder);
    int n_lines = 0;
    set_log_sink([&](LogLevel, std::string_view) {
        ++n_lines;
        throw std::runtime_error("the disk of the log is full");
    });
    const std::vector<Request> requests = {request_of(120, 6), request_of(150, 6), request_of(90, 6)};
    std::vector<int64_t> ids;
    for (const Request & one : requests) { ids.push_back(*engine->submit(one)); }
    const Status ran = engine->run();
    set_log_sink({});
    EXPECT_TRUE(ran.ok()) << ran.message();
    EXPECT_GT(n_lines, 0) << "nothing was logged";
    for (size_t i = 0; i < ids.size(); ++i) {
        EXPECT_EQ(engine->state(ids[i]), RequestState::kDone) << engine->status(ids[i]).message();
        expect_answer(*engine, ids[i], answer_alone(*model, requests[i].options, {requests[i].tokens}, 6));
    }
}

}  // namespace
}  // namespace pith::batch_engine_company_test
