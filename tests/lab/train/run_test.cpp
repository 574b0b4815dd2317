// run_test.cpp - whole tiny runs: recipe, vocabulary, stages, resuming, export; and the encoder against SentencePiece.
#include <ggml.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "corpus/corpus.h"
#include "model/model_file.h"
#include "train/data/encoder.h"
#include "train/data/samples.h"
#include "train/data/vocabulary.h"
#include "train/export.h"
#include "train/train.h"
#include "train/training_curve.h"

namespace pith::train::run_test {
namespace {

namespace fs = std::filesystem;

class TrainRun : public ::testing::Test {
protected:
    void SetUp() override {
        if (!can_train_vocabulary()) { GTEST_SKIP() << "built without SentencePiece"; }
        fs::create_directories(folder_);
    }
    void TearDown() override { fs::remove_all(folder_); }

    static Recipe tiny_recipe() {
        Recipe r;
        r.name = "tiny";
        r.shape.n_layers = 1;
        r.shape.n_embd = 32;
        r.shape.n_heads = 2;
        r.shape.n_kv_heads = 1;
        r.shape.head_dim = 16;
        r.shape.n_ff = 32;
        r.shape.n_ctx = 256;
        r.validate_every = 2;
        r.checkpoint_every = 2;
        r.n_validation = 4;
        Stage s;
        s.n_tokens = 64;
        s.n_sequences = 4;
        s.n_steps = 4;
        r.stages = {s, s};
        r.stages[1].n_tokens = 128;
        r.stages[1].accumulate = 2;
        r.stages[1].also = {96};
        r.stages[1].documents = {{"needles", 1.0}, {"talk", 1.0}};
        return r;
    }
    TrainOptions options(const std::string & name) const {
        TrainOptions o;
        o.work_dir = (folder_ / name).string();
        o.output = (folder_ / (name + ".gguf")).string();
        o.n_threads = 1;
        return o;
    }
    static std::string bytes(const std::string & path) {
        std::ifstream in(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }

    fs::path folder_ = fs::temp_directory_path() / ("pith_run_test_" + std::to_string(::getpid()));
};

TEST_F(TrainRun, StoppedAndResumedGivesTheSameModelBitForBit) {
    const Recipe recipe = tiny_recipe();
    ASSERT_TRUE(train(recipe, options("unbroken")).ok());

    // Stops in the middle of each stage, between two regular checkpoints.
    for (const int stop : {3, 3, 1 << 20}) {
        int steps = 0;
        TrainHooks hooks;
        hooks.progress = [&](const TrainProgress &) { return ++steps < stop; };
        const Status status = train(recipe, options("broken"), hooks);
        EXPECT_EQ(status.code(), stop < 100 ? ErrorCode::kCancelled : ErrorCode::kOk) << status.message();
    }
    EXPECT_EQ(bytes(options("unbroken").output), bytes(options("broken").output));
    EXPECT_EQ(bytes(options("unbroken").work_dir + "/checkpoint.bin"), bytes(options("broken").work_dir + "/checkpoint.bin"));

    // The curve has every validation once, as measured by either.
    const auto curve = read_curve(curve_path(options("unbroken")));
    const auto broken = read_curve(curve_path(options("broken")));
    ASSERT_TRUE(curve.ok()) << curve.status().message();
    ASSERT_TRUE(broken.ok()) << broken.status().message();
    ASSERT_EQ(curve->size(), broken->size());
    int n_compared = 0;
    for (size_t i = 0; i < curve->size(); ++i) {
        EXPECT_EQ((*curve)[i].step, (*broken)[i].step);
        EXPECT_EQ((*curve)[i].what, (*broken)[i].what);
        if ((*curve)[i].what == "loss") { continue; }  // a mean since the last row or the interruption
        EXPECT_EQ((*curve)[i].value, (*broken)[i].value) << (*curve)[i].what;
        ++n_compared;
    }
    EXPECT_GT(n_compared, 8);
}

TEST(TrainingCurve, DropsWhatLiesBeyondTheCheckpointAndRefusesForeignFiles) {
    const std::string path = (fs::temp_directory_path() / ("pith_curve_" + std::to_string(::getpid()))).string();
    {
        auto curve = TrainingCurve::open(path, 0);
        ASSERT_TRUE(curve.ok()) << curve.status().message();
        ASSERT_TRUE(curve->append({{2, 100, 64, "loss", 1.5}, {4, 200, 64, "answers of pairs", 0.25}}).ok());
        ASSERT_TRUE(curve->append({{6, 300, 128, "loss", 1.0}}).ok());
    }
    ASSERT_TRUE(TrainingCurve::open(path, 4).ok());
    const auto points = read_curve(path);
    ASSERT_TRUE(points.ok());
    ASSERT_EQ(points->size(), 2U);
    EXPECT_EQ((*points)[1].what, "answers of pairs");
    EXPECT_EQ((*points)[1].tokens_seen, 200);
    EXPECT_EQ((*points)[1].value, 0.25);
    std::ofstream(path, std::ios::app) << "4;200\n";
    const Status status = TrainingCurve::open(path, 9).status();
    EXPECT_EQ(status.code(), ErrorCode::kBadFile);
    EXPECT_NE(status.message().find("line 4"), std::string::npos) << status.message();
    fs::remove(path);
    EXPECT_EQ(read_curve(path).status().code(), ErrorCode::kNotFound);
}

TEST_F(TrainRun, ExportedModelLoads) {
    const Recipe recipe = tiny_recipe();
    int reports = 0;
    TrainHooks hooks;
    hooks.validation = [&](const ValidationReport & v) {
        ++reports;
        EXPECT_GT(v.loss, 0);
        EXPECT_FALSE(v.hits_by_kind.empty());
    };
    ASSERT_TRUE(train(recipe, options("model"), hooks).ok());
    EXPECT_EQ(reports, 4);
    const auto file = ModelFile::load(options("model").output, {});
    ASSERT_TRUE(file.ok()) << file.status().message();
    const Hparams & h = (*file)->hparams();
    EXPECT_EQ(h.arch_name, "llama");
    EXPECT_EQ(h.n_layers, 1);
    EXPECT_EQ(h.n_heads, 2);
    EXPECT_EQ(h.n_kv_heads, 1);
    EXPECT_EQ(h.head_dim, 16);
    EXPECT_EQ(h.n_ctx_train, 256);
    EXPECT_EQ(h.form.rope, RopeKind::kNeighbours);
    EXPECT_EQ((*file)->hparams().name, "tiny");
}

// Gates of the exported model train on the same text, with the vocabulary read back from the file.
TEST_F(TrainRun, ExportedVocabularyServesGeneratedSamples) {
    Recipe recipe = tiny_recipe();
    recipe.stages.resize(1);
    const std::string model = options("v").output;
    ASSERT_TRUE(train(recipe, options("v")).ok());
    const auto vocabulary = read_vocabulary(model);
    ASSERT_TRUE(vocabulary.ok()) << vocabulary.status().message();
    EXPECT_EQ(vocabulary->bos, 1);
    auto encoder = Encoder::make(*vocabulary);
    ASSERT_TRUE(encoder.ok());

    GeneratedText text;
    text.n_tokens = 256;
    text.tasks = {{"single", 1.0}};
    text.prompt_weight = 0.0F;
    auto samples = make_generated_samples(model, text);
    ASSERT_TRUE(samples.ok()) << samples.status().message();
    const Batch batch = (*samples)->batch(3, 2);
    const Batch again = (*samples)->batch(4, 1);
    ASSERT_EQ(batch.n_gated.size(), 2U);
    EXPECT_EQ(std::vector<int32_t>(batch.tokens.begin() + 256, batch.tokens.end()), again.tokens);
    for (size_t s = 0; s < 2; ++s) {  // what is learnt is what is not gated: the answer
        for (size_t t = 0; t < 256; ++t) {
            if (batch.weights[s * 256 + t] > 0) { EXPECT_GE(static_cast<int>(t) + 1, batch.n_gated[s]); }
        }
        EXPECT_GT(batch.weights[s * 256 + static_cast<size_t>(batch.n_gated[s]) - 1], 0);
    }
    text.n_tokens = 20;
    EXPECT_EQ(make_generated_samples(model, text).status().code(), ErrorCode::kInvalidArgument);
}

TEST_F(TrainRun, CheckpointOfAnotherRecipeIsRefused) {
    Recipe recipe = tiny_recipe();
    recipe.stages.resize(1);
    ASSERT_TRUE(train(recipe, options("a")).ok());
    recipe.seed = 2;
    EXPECT_EQ(train(recipe, options("a")).code(), ErrorCode::kInvalidArgument);
}

TEST_F(TrainRun, EvaluationGivesEveryTaskThatFits) {
    const Recipe recipe = tiny_recipe();
    ASSERT_TRUE(train(recipe, options("e")).ok());
    const auto evaluation = evaluate_checkpoint(recipe, options("e"), {256}, 2);
    ASSERT_TRUE(evaluation.ok()) << evaluation.status().message();
    EXPECT_FALSE(evaluation->tasks.empty());
    ASSERT_EQ(evaluation->perplexity.size(), 1U);
    EXPECT_GT(evaluation->perplexity[0].second, 1.0);
}

TEST_F(TrainRun, EncoderGivesSentencePiecesTokens) {
    const auto sentences = corpus::vocabulary_sentences();
    const auto vocabulary = train_vocabulary(sentences, {.size = 1024});
    ASSERT_TRUE(vocabulary.ok()) << vocabulary.status().message();
    auto encoder = Encoder::make(*vocabulary);
    ASSERT_TRUE(encoder.ok());
    const corpus::CountTokens count = [&](std::string_view text) { return encoder->count(text); };
    std::vector<std::string> texts = {"", " ", "  two  spaces ", "Zoë's café: 1234567, 7.5 %\n\n\ttab",
                                      "\xF0\x9F\x98\x80 unknown"};
    for (uint64_t i = 0; i < 20; ++i) {
        for (const auto & s : corpus::make_document(corpus::SeedSpace::kValidation, 3, i, 256, count).segments) {
            texts.push_back(s.text);
        }
    }
    for (const auto & text : texts) {
        const auto expected = encode_with_sentencepiece(*vocabulary, text);
        ASSERT_TRUE(expected.ok());
        std::vector<int32_t> tokens;
        encoder->append(text, tokens);
        EXPECT_EQ(tokens, *expected) << text;
        EXPECT_EQ(encoder->decode(tokens), text);
    }
}

TEST_F(TrainRun, UnwritableOutputIsAnErrorThatNamesIt) {
    Recipe recipe = tiny_recipe();
    recipe.stages.resize(1);
    TrainOptions o = options("w");
    o.output = (folder_ / "missing" / "model.gguf").string();
    const Status status = train(recipe, o);
    EXPECT_EQ(status.code(), ErrorCode::kIo);
    EXPECT_NE(status.message().find("model.gguf"), std::string::npos);
}

TEST(ReadRecipe, NamesWhatIsWrong) {
    const std::string path = (fs::temp_directory_path() / ("pith_recipe_" + std::to_string(::getpid()))).string();
    const auto read = [&](const std::string & text) {
        std::ofstream(path) << text;
        return read_recipe(path).status();
    };
    EXPECT_EQ(read_recipe("/no/such/recipe.json").status().code(), ErrorCode::kNotFound);
    EXPECT_EQ(read("not json").code(), ErrorCode::kBadFile);
    EXPECT_NE(read(R"({"stages": [{"tokens": 64, "stepz": 3}]})").message().find("stepz"), std::string::npos);
    EXPECT_NE(read(R"({"model": {"layers": "four"}, "stages": [{}]})").message().find("layers"), std::string::npos);
    EXPECT_EQ(read(R"({"stages": []})").code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(read(R"({"stages": [{"steps": 0}]})").code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(read(R"({"stages": [{"tokens": 64}]})").ok());
    EXPECT_TRUE(read(R"({"stages": [{"also": [128, 256], "documents": {"needles": 2, "talk": 0.5}}]})").ok());
    EXPECT_NE(read(R"({"stages": [{"documents": {"poems": 1}}]})").message().find("poems"), std::string::npos);
    EXPECT_NE(read(R"({"stages": [{"documents": {"talk": 0}}]})").message().find("all 0"), std::string::npos);
    EXPECT_NE(read(R"({"stages": [{"documents": {"talk": "many"}}]})").message().find("talk"), std::string::npos);
    EXPECT_NE(read(R"({"stages": [{"also": [12]}]})").message().find("12"), std::string::npos);
    EXPECT_EQ(read(R"({"stages": [{"also": ["long"]}]})").code(), ErrorCode::kBadFile);
    fs::remove(path);
    const auto reference = read_recipe(PITH_SOURCE_DIR "/models/pith-reference.json");
    EXPECT_TRUE(reference.ok()) << reference.status().message();
}

}  // namespace
}  // namespace pith::train::run_test
