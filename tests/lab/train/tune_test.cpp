// tune_test.cpp - whole tiny runs of gate training: what changes and what must not, resuming, and bad input.
#include "train/tune.h"

#include <ggml.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>

#include "gate/gate_file.h"
#include "model/gguf_edit.h"
#include "model/lora_file.h"
#include "model/random/random_model.h"

namespace pith::train::tune_test {
namespace {

using pith::testing::edit_gguf;
using pith::testing::read_file;
using pith::testing::TempFolder;

class Tune : public ::testing::Test {
protected:
    std::shared_ptr<ModelFile> model(const std::string & type = "f32", int n_experts = 0) {
        RandomModelSpec spec;
        spec.n_embd = 32;
        spec.n_vocab = 400;
        spec.weight_type = type;
        if (n_experts > 0) {
            spec.n_experts = n_experts;
            spec.n_experts_used = 2;
            spec.n_ff_expert = 32;
        }
        const Status status = write_random_model(spec, folder_.file("model.gguf"));
        EXPECT_TRUE(status.ok()) << status.message();
        return open("model.gguf");
    }
    std::shared_ptr<ModelFile> open(const std::string & name) {
        ModelFileOptions options;
        options.repack = false;
        auto file = ModelFile::load(folder_.file(name), options);
        EXPECT_TRUE(file.ok()) << file.status().message();
        return *file;
    }
    static std::unique_ptr<Samples> samples(int n_tokens = 24, int n = 40) {
        corpus::Random random(3);
        std::vector<int32_t> text;
        for (int i = 0; i <= n_tokens * n; ++i) { text.push_back(random.below(20) + 20 * (i % 3)); }
        auto made = make_token_samples({text}, {n_tokens, 0, 1});
        EXPECT_TRUE(made.ok()) << made.status().message();
        return std::move(*made);
    }
    TuneOptions options(const std::string & name) const {
        TuneOptions o;
        o.gate.n_heads = 2;
        o.gate.head_dim = 8;
        o.n_sequences = 4;
        o.warmup_steps = 2;
        o.n_threads = 1;
        o.checkpoint_every = 3;
        o.learning_rate = 1e-2F;
        o.work_dir = folder_.file(name + ".work");
        o.output = folder_.file(name + ".gguf");
        return o;
    }
    std::vector<char> checkpoint(const std::string & name) const {
        return read_file(folder_.file(name + ".work/checkpoint.bin"));
    }

    TempFolder folder_;
};

TEST_F(Tune, GatesLearnAndTheModelStaysAsItIsBitForBit) {
    for (const char * type : {"f32", "q8_0"}) {
        const auto file = model(type);
        const std::vector<char> before = read_file(folder_.file("model.gguf"));
        std::vector<float> norms(static_cast<size_t>(file->hparams().n_embd));
        std::memcpy(norms.data(), file->weights().output_norm->data, norms.size() * sizeof(float));
        const auto data = samples();
        TuneOptions o = options(type);
        o.loss.alpha = 20.0F;
        o.n_epochs = 4;
        std::vector<double> kept;
        TuneHooks hooks;
        int plans = 0, validations = 0;
        hooks.plan = [&](const TunePlan & plan) {
            ++plans;
            EXPECT_EQ(plan.n_steps, 38);
            EXPECT_EQ(plan.n_tokens, 38 * 4 * 24);
            EXPECT_GT(plan.graph_bytes, 0U);
            EXPECT_GT(plan.seconds, 0);
            return true;
        };
        hooks.progress = [&](const TuneProgress & p) {
            kept.push_back(p.mean_retention());
            EXPECT_EQ(p.retention.size(), 2U);
            EXPECT_GT(p.tokens_per_second, 0);
            return true;
        };
        hooks.validation = [&](const TuneValidation & v) {
            ++validations;
            EXPECT_GT(v.loss_before, 0);
            EXPECT_GT(v.loss, 0);
        };
        const Status status = tune(*file, *data, o, hooks);
        ASSERT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(plans, 1);
        EXPECT_EQ(validations, 13);
        ASSERT_EQ(kept.size(), 38U);
        EXPECT_GT(kept.front(), 0.9);
        EXPECT_LT(kept.back(), 0.7);
        EXPECT_EQ(read_file(folder_.file("model.gguf")), before);
        EXPECT_EQ(std::memcmp(norms.data(), file->weights().output_norm->data, norms.size() * sizeof(float)), 0);
        const auto gate = Gate::load(o.output, *file);
        ASSERT_TRUE(gate.ok()) << gate.status().message();
        EXPECT_EQ((*gate)->training().n_steps, 38);
        EXPECT_EQ((*gate)->config().n_heads, 2);
    }
}

TEST_F(Tune, EveryAblationTrains) {
    const auto file = model();
    const auto try_one = [&](const std::string & name, const std::function<void(GateConfig &)> & change) {
        const auto data = samples(24, 8);
        TuneOptions o = options(name);
        change(o.gate);
        double norm = 0;
        TuneHooks hooks;
        hooks.progress = [&](const TuneProgress & p) {
            norm = p.gradient_norm;
            return true;
        };
        const Status status = tune(*file, *data, o, hooks);
        ASSERT_TRUE(status.ok()) << name << ": " << status.message();
        EXPECT_GT(norm, 0) << name;
        const auto gate = Gate::load(o.output, *file);
        ASSERT_TRUE(gate.ok()) << name << ": " << gate.status().message();
    };
    try_one("heads", [](GateConfig & g) { g.n_heads = 1; });
    try_one("half", [](GateConfig & g) { g.head_dim = 4; });
    try_one("linear", [](GateConfig & g) { g.kind = GateKind::kLinear; });
    try_one("causal", [](GateConfig & g) { g.causal = true; });
    try_one("recent", [](GateConfig & g) { g.n_recent = 10; });
    try_one("previous", [](GateConfig & g) {
        g.source = GateSource::kPrevious;
        g.first_layer = 1;
    });
}

TEST_F(Tune, ResumedRunEqualsTheUnbrokenOneBitForBit) {
    const auto file = model();
    const auto data = samples();
    ASSERT_TRUE(tune(*file, *data, options("unbroken")).ok());
    int steps = 0;
    TuneHooks hooks;
    hooks.progress = [&](const TuneProgress &) { return ++steps != 5; };
    const auto fresh = samples();
    EXPECT_EQ(tune(*file, *fresh, options("broken"), hooks).code(), ErrorCode::kCancelled);
    std::string note;
    hooks.note = [&](const std::string & text) { note = text; };
    const auto again = samples();
    ASSERT_TRUE(tune(*file, *again, options("broken"), hooks).ok());
    EXPECT_EQ(note, "resumed at step 5");
    EXPECT_EQ(checkpoint("unbroken"), checkpoint("broken"));
    EXPECT_EQ(read_file(folder_.file("unbroken.gguf")), read_file(folder_.file("broken.gguf")));
}

TEST_F(Tune, CheckpointOfOtherOptionsOrOtherTextIsRefused) {
    const auto file = model();
    const auto data = samples();
    ASSERT_TRUE(tune(*file, *data, options("a")).ok());
    const std::vector<char> before = checkpoint("a");
    TuneOptions other = options("a");
    other.loss.alpha = 1.0F;
    const Status status = tune(*file, *data, other);
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(status.message().find("other options"), std::string::npos) << status.message();
    EXPECT_EQ(tune(*file, *samples(24, 30), options("a")).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(checkpoint("a"), before);
}

TEST_F(Tune, NaNStopsTheRunNamesTheStepAndLeavesTheCheckpoint) {
    model();
    const auto data = samples();
    TuneOptions o = options("nan");
    o.checkpoint_every = 2;
    std::vector<char> good;
    TuneHooks hooks;
    ModelFileOptions in_memory;
    in_memory.use_mmap = in_memory.repack = false;
    const auto copy = ModelFile::load(folder_.file("model.gguf"), in_memory);
    ASSERT_TRUE(copy.ok());
    hooks.progress = [&](const TuneProgress & p) {
        if (p.step == 3) {
            good = checkpoint("nan");  // of step 2
            static_cast<float *>((*copy)->weights().layers[1].ffn_norm->data)[0] = NAN;
        }
        return true;
    };
    const Status status = tune(**copy, *data, o, hooks);
    EXPECT_EQ(status.code(), ErrorCode::kNotFinite);
    EXPECT_NE(status.message().find("step 4"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("last checkpoint"), std::string::npos) << status.message();
    EXPECT_FALSE(good.empty());
    EXPECT_EQ(checkpoint("nan"), good);
}

TEST_F(Tune, FullDiskLeavesTheOldCheckpoint) {
    const auto file = model();
    const auto data = samples();
    std::vector<char> good;
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    TuneHooks hooks;
    hooks.progress = [&](const TuneProgress & p) {
        if (p.step == 5) {
            good = checkpoint("full");  // of step 3
            const rlimit small{8192, before.rlim_max};
            setrlimit(RLIMIT_FSIZE, &small);
        }
        return true;
    };
    const Status status = tune(*file, *data, options("full"), hooks);
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    EXPECT_EQ(status.code(), ErrorCode::kIo) << status.message();
    EXPECT_GT(good.size(), 8192U);
    EXPECT_EQ(checkpoint("full"), good);
    EXPECT_TRUE(read_file(folder_.file("full.work/checkpoint.bin.tmp")).empty());
}

TEST_F(Tune, ImpossibleOptionsAreNamed) {
    const auto file = model();
    const auto data = samples();
    const auto expect = [&](const std::function<void(TuneOptions &)> & change, const std::string & words) {
        TuneOptions o = options("bad");
        change(o);
        const Status status = tune(*file, *data, o);
        EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument) << words;
        EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
    };
    expect([](TuneOptions & o) { o.loss.beta = 0.6F; }, "beta is 0.6");
    expect([](TuneOptions & o) { o.loss.beta = -0.1F; }, "beta is -0.1");
    expect([](TuneOptions & o) { o.loss.alpha = NAN; }, "alpha is nan");
    expect([](TuneOptions & o) { o.learning_rate = 0.0F; }, "learning rate is 0");
    expect([](TuneOptions & o) { o.n_sequences = 0; }, "sequences");
    expect([](TuneOptions & o) { o.n_threads = 0; }, "threads is 0");
    expect([](TuneOptions & o) { o.gate.first_layer = 2; }, "first layer is 2");
    expect([](TuneOptions & o) { o.lora.rank = -1; }, "rank is -1");
    expect([](TuneOptions & o) { o.lora = {4, 0.0F}; }, "adapter's alpha is 0");
    expect([](TuneOptions & o) { o.gates = false; }, "nothing to train");
}

// Steps and tokens of a run are said before it begins: as numbers that can be.
TEST_F(Tune, MoreThanCanBeCountedIsRefused) {
    class Many final : public Samples {
    public:
        explicit Many(int64_t n) : n_(n), some_(samples()) {}
        int n_tokens() const override { return some_->n_tokens(); }
        int64_t n_samples() const override { return n_; }
        std::string fingerprint() const override { return "many"; }
        Batch batch(int64_t /*first*/, int n) override { return some_->batch(0, n); }
        Batch held_out(int64_t first, int n) override { return some_->held_out(first, n); }

    private:
        int64_t n_;
        std::unique_ptr<Samples> some_;
    };
    const auto file = model();
    const auto run = [&](int64_t n_samples, int n_epochs, int64_t & n_tokens) {
        Many many(n_samples);
        TuneOptions o = options("many");
        o.n_epochs = n_epochs;
        TuneHooks hooks;
        hooks.plan = [&n_tokens](const TunePlan & plan) {
            n_tokens = plan.n_tokens;
            return false;
        };
        return tune(*file, many, o, hooks);
    };
    int64_t n_tokens = -1;
    for (const auto & [n_samples, n_epochs] : {std::pair{std::numeric_limits<int64_t>::max(), 1},
                                               {int64_t{1} << 59, 4},
                                               {int64_t{1} << 40, std::numeric_limits<int>::max()}}) {
        const Status status = run(n_samples, n_epochs, n_tokens);
        EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument) << status.message();
        EXPECT_NE(status.message().find("are more than can be counted"), std::string::npos) << status.message();
    }
    EXPECT_EQ(n_tokens, -1);
    EXPECT_EQ(run(int64_t{1} << 50, 2, n_tokens).code(), ErrorCode::kCancelled);
    EXPECT_EQ(n_tokens, (int64_t{1} << 51) * 24);
}

TEST_F(Tune, ModelWithExpertsIsRefusedWithTheReason) {
    const auto file = model("f32", 4);
    const auto data = samples();
    const Status status = tune(*file, *data, options("moe"));
    EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
    EXPECT_NE(status.message().find("experts"), std::string::npos) << status.message();
}

// Pairs whose completion follows from the prompt's first token alone.
std::unique_ptr<Samples> pairs() {
    std::vector<PromptPair> list;
    corpus::Random random(3);
    for (int i = 0; i < 60; ++i) {
        PromptPair pair;
        pair.prompt = {1, 10 + i % 4};
        for (int t = random.between(3, 12); t > 0; --t) { pair.prompt.push_back(50 + random.below(20)); }
        pair.completion = {100 + i % 4, 2};
        list.push_back(pair);
    }
    list.push_back({std::vector<int32_t>(40, 1), {2}});  // too long
    size_t n_left_out = 0;
    auto made = make_pair_samples(list, {20, 1}, &n_left_out);
    EXPECT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ(n_left_out, 1U);
    return std::move(*made);
}

TEST_F(Tune, AdapterAloneLearnsAndIsReadBack) {
    const auto file = model("q8_0");
    const auto data = pairs();
    TuneOptions o = options("lora");
    o.gates = false;
    o.lora = {4, 8.0F};
    o.lora_output = folder_.file("lora.lora.gguf");
    o.n_epochs = 6;
    double first = 0, last = 0;
    TuneHooks hooks;
    hooks.progress = [&](const TuneProgress & p) {
        EXPECT_TRUE(p.retention.empty());
        (p.step == 1 ? first : last) = p.loss;
        return true;
    };
    const Status status = tune(*file, *data, o, hooks);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_LT(last, 0.6 * first);
    const auto adapter = LoraAdapter::load(o.lora_output, *file);
    ASSERT_TRUE(adapter.ok()) << adapter.status().message();
    EXPECT_EQ((*adapter)->rank(), 4);
    EXPECT_EQ((*adapter)->n_pairs(), 8U);
    EXPECT_TRUE(read_file(o.output).empty());
}

TEST_F(Tune, AdapterWithGatesResumesExactlyToo) {
    const auto file = model();
    const auto with_both = [&](const std::string & name) {
        TuneOptions o = options(name);
        o.gate.tau = 0.3F;
        o.gate.gamma = 0.0F;
        o.loss = {1.0F, 0.28F};
        o.lora = {2, 4.0F};
        o.lora_output = folder_.file(name + ".lora.gguf");
        return o;
    };
    ASSERT_TRUE(tune(*file, *pairs(), with_both("unbroken")).ok());
    TuneHooks hooks;
    hooks.progress = [&](const TuneProgress & p) { return p.step != 4; };
    EXPECT_EQ(tune(*file, *pairs(), with_both("broken"), hooks).code(), ErrorCode::kCancelled);
    ASSERT_TRUE(tune(*file, *pairs(), with_both("broken")).ok());
    EXPECT_EQ(checkpoint("unbroken"), checkpoint("broken"));
    EXPECT_EQ(read_file(folder_.file("unbroken.gguf")), read_file(folder_.file("broken.gguf")));
    EXPECT_EQ(read_file(folder_.file("unbroken.lora.gguf")), read_file(folder_.file("broken.lora.gguf")));
}

TEST(PairSamples, OnlyCompletionsAreLearntAndOnlyPromptsAreGated) {
    auto samples = make_pair_samples({{{1, 5, 6}, {7, 2}}, {{1, 9}, {8, 4, 3, 2}}}, {16, 1});
    ASSERT_TRUE(samples.ok());
    EXPECT_EQ((*samples)->n_tokens(), 5);
    const Batch batch = (*samples)->batch(0, 2);
    for (size_t s = 0; s < 2; ++s) {
        const bool first = batch.tokens[s * 5 + 1] == 5;
        const std::vector<float> weights(batch.weights.begin() + static_cast<ptrdiff_t>(s * 5),
                                         batch.weights.begin() + static_cast<ptrdiff_t>(s * 5 + 5));
        EXPECT_EQ(weights, first ? (std::vector<float>{0, 0, 1, 1, 0}) : (std::vector<float>{0, 1, 1, 1, 1}));
        EXPECT_EQ(batch.n_gated[s], first ? 3 : 2);
        EXPECT_EQ(batch.targets[s * 5 + 3], first ? 2 : 3);
    }
    EXPECT_NE(make_pair_samples({}, {16, 1}).status().message().find("no prompts"), std::string::npos);
    const auto none = make_pair_samples({{{1, 5, 6}, {7, 2}}}, {3, 1});
    EXPECT_NE(none.status().message().find("the shortest has 4"), std::string::npos) << none.status().message();
}

TEST(TokenSamples, EmptyOrTooShortTextIsRefusedWithTheNumbers) {
    const auto message = [](const std::vector<std::vector<int32_t>> & texts) {
        const auto made = make_token_samples(texts, {16, 0, 1});
        EXPECT_EQ(made.status().code(), ErrorCode::kInvalidArgument);
        return made.status().message();
    };
    EXPECT_NE(message({}).find("is empty"), std::string::npos);
    EXPECT_NE(message({{}}).find("is empty"), std::string::npos);
    EXPECT_NE(message({std::vector<int32_t>(16, 1)}).find("has 16 tokens: one sequence needs 17"), std::string::npos);
    EXPECT_TRUE(make_token_samples({std::vector<int32_t>(17, 1)}, {16, 0, 1}).ok());
}

TEST(TokenSamples, EveryEpochReadsEverySequenceOnceInAnOrderOfItsOwn) {
    std::vector<int32_t> text(8 * 50 + 1);
    for (size_t i = 0; i < text.size(); ++i) { text[i] = static_cast<int32_t>(i); }
    auto samples = make_token_samples({text}, {8, 0, 1});
    ASSERT_TRUE(samples.ok());
    ASSERT_EQ((*samples)->n_samples(), 48);  // two are held out
    std::vector<std::vector<int32_t>> orders;
    for (int epoch = 0; epoch < 2; ++epoch) {
        const Batch batch = (*samples)->batch(epoch * 48, 48);
        std::vector<int32_t> first;
        for (size_t s = 0; s < 48; ++s) {
            first.push_back(batch.tokens[s * 8]);
            for (size_t t = 0; t < 8; ++t) { EXPECT_EQ(batch.targets[s * 8 + t], batch.tokens[s * 8 + t] + 1); }
        }
        orders.push_back(first);
        std::sort(first.begin(), first.end());
        for (size_t s = 0; s < 48; ++s) { EXPECT_EQ(first[s], static_cast<int32_t>(8 * s)); }
    }
    EXPECT_NE(orders[0], orders[1]);
    const Batch held_out = (*samples)->held_out(0, 8);
    EXPECT_EQ(held_out.shape.n_sequences, 2);
    EXPECT_EQ(held_out.tokens[0], 8 * 48);
    EXPECT_EQ((*samples)->held_out(2, 8).shape.n_sequences, 0);
}

}  // namespace
}  // namespace pith::train::tune_test
