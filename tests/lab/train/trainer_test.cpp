// trainer_test.cpp - the optimiser's step, clipping, accumulation, and checkpoints that go on exactly.
#include "train/trainer.h"

#include <ggml.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "tiny_model.h"

namespace pith::train::trainer_test {
namespace {

std::unique_ptr<Trainer> make_trainer(const AdamW & adamw = {}, int n_threads = 1) {
    auto trainer = Trainer::make(tiny_shape(), adamw, n_threads);
    EXPECT_TRUE(trainer.ok()) << trainer.status().message();
    return std::move(*trainer);
}

std::vector<float> all_values(Trainer & trainer) {
    std::vector<float> out;
    for (const Parameter & p : trainer.parameters().list()) {
        for (const ggml_tensor * t : {p.value, p.m, p.v}) { out.insert(out.end(), values(t), values(t) + ggml_nelements(t)); }
    }
    return out;
}

Batch batch_of(uint64_t seed) {
    return random_batch({32, 4}, tiny_shape().n_vocab, seed);
}

std::string temporary(const std::string & name) {
    return (std::filesystem::temp_directory_path() / ("pith_trainer_test_" + name + std::to_string(::getpid()))).string();
}

TEST(Trainer, StepIsAdamWOfTheGradientClippedToTheNormAllowed) {
    AdamW adamw;
    adamw.clip_norm = 0.1F;
    adamw.weight_decay = 0.3F;
    auto trainer = make_trainer(adamw);
    const std::vector<float> before = all_values(*trainer);
    const auto result = trainer->step({batch_of(1)}, 1e-2F);
    ASSERT_TRUE(result.ok());
    EXPECT_GT(result->gradient_norm, 0.1);
    double norm = 0;
    size_t at = 0;
    for (const Parameter & p : trainer->parameters().list()) {
        const auto n = static_cast<size_t>(ggml_nelements(p.value));
        for (size_t i = 0; i < n; ++i) {
            const double g = values(p.gradient)[i];
            norm += g * g;
            // After one step the corrected moments are g and g².
            const double old = before[at + i];
            const double decayed = p.decays ? old * (1 - 1e-2 * 0.3) : old;
            const double expected = decayed - 1e-2 * g / (std::fabs(g) + 1e-8);
            if (std::fabs(g) > 1e-6) { ASSERT_NEAR(values(p.value)[i], expected, 1e-4) << p.name << " " << i; }
        }
        at += 3 * n;
    }
    EXPECT_NEAR(std::sqrt(norm), 0.1, 1e-4);
}

TEST(Trainer, AccumulatedBatchesEqualOneLargeBatch) {
    AdamW adamw;
    adamw.clip_norm = 0;
    auto whole = make_trainer(adamw);
    auto parts = make_trainer(adamw);
    const Batch a = batch_of(1), b = batch_of(2);
    Batch both = a;
    both.shape.n_sequences += b.shape.n_sequences;
    both.tokens.insert(both.tokens.end(), b.tokens.begin(), b.tokens.end());
    both.targets.insert(both.targets.end(), b.targets.begin(), b.targets.end());
    both.weights.insert(both.weights.end(), b.weights.begin(), b.weights.end());
    const auto one = whole->step({both}, 1e-3F);
    const auto two = parts->step({a, b}, 1e-3F);
    ASSERT_TRUE(one.ok() && two.ok());
    EXPECT_NEAR(one->loss, two->loss, 1e-6);
    EXPECT_NEAR(one->gradient_norm, two->gradient_norm, 1e-5);
}

TEST(Trainer, SeveralWorkersComputeTheSameGradient) {
    auto one = make_trainer({}, 1);
    auto three = make_trainer({}, 3);  // 4 sequences: 2, 1, 1
    const auto a = one->step({batch_of(1)}, 1e-3F);
    const auto b = three->step({batch_of(1)}, 1e-3F);
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_NEAR(a->loss, b->loss, 1e-6);
    EXPECT_NEAR(a->gradient_norm, b->gradient_norm, 1e-5);
}

TEST(Trainer, LearnsABatchByHeart) {
    auto trainer = make_trainer();
    const Batch batch = batch_of(1);
    double loss = 0;
    for (int i = 0; i < 150; ++i) {
        const auto result = trainer->step({batch}, 1e-2F);
        ASSERT_TRUE(result.ok());
        loss = result->loss;
    }
    EXPECT_LT(loss, 0.5);  // from log(40) = 3.7
}

TEST(Trainer, ResumedRunEqualsTheUnbrokenOneBitForBit) {
    auto unbroken = make_trainer();
    for (uint64_t i = 0; i < 6; ++i) { ASSERT_TRUE(unbroken->step({batch_of(i)}, 1e-3F).ok()); }

    const std::string path = temporary("resume");
    auto first = make_trainer();
    for (uint64_t i = 0; i < 3; ++i) { ASSERT_TRUE(first->step({batch_of(i)}, 1e-3F).ok()); }
    ASSERT_TRUE(first->save(path, "options", "state").ok());
    auto second = make_trainer();
    const auto state = second->load(path, "options");
    ASSERT_TRUE(state.ok()) << state.status().message();
    EXPECT_EQ(*state, "state");
    EXPECT_EQ(second->n_steps(), 3);
    for (uint64_t i = 3; i < 6; ++i) { ASSERT_TRUE(second->step({batch_of(i)}, 1e-3F).ok()); }
    EXPECT_EQ(all_values(*unbroken), all_values(*second));
    EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
    std::filesystem::remove(path);
}

void flip_a_bit(const std::string & path, uintmax_t at) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 0x10));
}

// Version 1 had no checksum.
TEST(Trainer, ReadsACheckpointOfTheVersionBefore) {
    const std::string path = temporary("before");
    auto trainer = make_trainer();
    ASSERT_TRUE(trainer->save(path, "options", "state").ok());
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 8);
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(8);  // behind the magic
    file.put(1);
    file.close();
    const auto state = trainer->load(path, "options");
    ASSERT_TRUE(state.ok()) << state.status().message();
    EXPECT_EQ(*state, "state");
    std::filesystem::remove(path);
}

TEST(Trainer, DamagedOrForeignCheckpointIsRefusedAndChangesNothing) {
    const std::string path = temporary("damaged");
    auto trainer = make_trainer();
    const std::vector<float> before = all_values(*trainer);
    EXPECT_EQ(trainer->load(path, "options").status().code(), ErrorCode::kNotFound);
    ASSERT_TRUE(trainer->save(path, "options", "").ok());
    EXPECT_EQ(trainer->load(path, "other options").status().code(), ErrorCode::kInvalidArgument);
    const auto size = std::filesystem::file_size(path);
    for (const auto keep : {size - 1, size / 2, std::uintmax_t{30}, std::uintmax_t{4}, std::uintmax_t{0}}) {
        std::filesystem::resize_file(path, keep);
        EXPECT_EQ(trainer->load(path, "options").status().code(), ErrorCode::kBadFile) << keep;
    }
    ASSERT_TRUE(trainer->save(path, "options", "").ok());
    for (const auto at : {size - 4, size / 2, size / 3}) {  // the checksum, and two numbers
        flip_a_bit(path, at);
        EXPECT_EQ(trainer->load(path, "options").status().code(), ErrorCode::kBadFile) << at;
        flip_a_bit(path, at);
    }
    EXPECT_TRUE(trainer->load(path, "options").ok());
    EXPECT_EQ(all_values(*trainer), before);
    EXPECT_EQ(trainer->save("/no/such/folder/checkpoint", "options", "").code(), ErrorCode::kIo);
    std::filesystem::remove(path);
}

TEST(Trainer, NotFiniteGradientIsAnErrorAndLeavesTheWeights) {
    auto trainer = make_trainer();
    values(trainer->parameters().weights().output_norm)[0] = NAN;
    const auto before = std::vector<float>(values(trainer->parameters().weights().token_embd),
                                           values(trainer->parameters().weights().token_embd) + 100);
    const auto result = trainer->step({batch_of(1)}, 1e-3F);
    EXPECT_EQ(result.status().code(), ErrorCode::kNotFinite);
    EXPECT_EQ(before, std::vector<float>(values(trainer->parameters().weights().token_embd),
                                         values(trainer->parameters().weights().token_embd) + 100));
}

TEST(Trainer, BadBatchesAreErrors) {
    auto trainer = make_trainer();
    Batch outside = batch_of(1);
    outside.tokens[3] = 40;
    EXPECT_EQ(trainer->step({outside}, 1e-3F).status().code(), ErrorCode::kInvalidArgument);
    Batch weightless = batch_of(1);
    weightless.weights.assign(weightless.weights.size(), 0.0F);
    EXPECT_EQ(trainer->step({weightless}, 1e-3F).status().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace pith::train::trainer_test
