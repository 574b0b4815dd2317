// decode_graph_test.cpp - tokens decoded by a graph that is kept give, to the bit, what a graph built for each of them gives.
// The oracle feeds the same tokens one by one through Session::prefill() with all logits asked for: that goes layer by layer,
// through graphs built anew.
#include "engine/pass/decode_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "device/backend.h"
#include "engine/layer_probe.h"
#include "engine/pass/forward.h"
#include "engine/tiny_model.h"

namespace pith::decode_graph_test {
namespace {

using testing::random_tokens;
using testing::tiny_model;
using testing::tiny_spec;

class DecodeGraphTest : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        auto model = tiny_model(tiny_spec());
        ASSERT_TRUE(model.ok()) << model.status().message();
        model_ = new Model(*model);
    }
    static void TearDownTestSuite() {
        delete model_;
        model_ = nullptr;
    }
    static Session open(const std::string & policy, Budget budget, int evict_every, int n_threads = 1) {
        SessionOptions options;
        options.policy = policy;
        options.budget = budget;
        options.evict_every = evict_every;
        options.chunk = 32;
        options.n_threads = n_threads;
        options.max_context = 128;
        auto session = model_->session(options);
        EXPECT_TRUE(session.ok()) << session.status().message();
        return std::move(*session);
    }
    static std::vector<int32_t> tokens(int n, unsigned seed = 1) { return random_tokens(n, model_->info().n_vocab, seed); }
    static int64_t n_built(Session & session) { return LayerProbe(session).n_decode_graphs_built(); }

    // A session that keeps its graph, and one that does not, fed the same.
    class Pair {
    public:
        Pair(Session kept, Session built) : kept_(std::move(kept)), built_(std::move(built)) {}
        Session & kept() { return kept_; }
        void prefill(std::span<const int32_t> prompt) {
            ASSERT_TRUE(kept_.prefill(prompt).ok());
            ASSERT_TRUE(built_.prefill(prompt).ok());
        }
        void feed(std::span<const int32_t> more) {
            RunHooks all_logits;
            all_logits.on_logits = [](int64_t, std::span<const float>) {};
            for (const int32_t token : more) {
                ASSERT_TRUE(kept_.append(token).ok());
                ASSERT_TRUE(built_.prefill(std::span(&token, 1), all_logits).ok());
                ASSERT_TRUE(std::ranges::equal(kept_.logits(), built_.logits())) << "token " << kept_.n_tokens();
            }
            for (int l = 0; l < kept_.n_layers(); ++l) {
                for (int h = 0; h < kept_.n_kv_heads(); ++h) {
                    ASSERT_TRUE(std::ranges::equal(kept_.lane_positions(l, h), built_.lane_positions(l, h)));
                }
            }
        }
        using Saved = std::pair<std::shared_ptr<Session::Snapshot>, std::shared_ptr<Session::Snapshot>>;
        Saved snapshot() { return {*kept_.snapshot(), *built_.snapshot()}; }
        void restore(const Saved & saved) {
            ASSERT_TRUE(kept_.restore(saved.first).ok());
            ASSERT_TRUE(built_.restore(saved.second).ok());
        }

    private:
        Session kept_;
        Session built_;
    };

    static Model * model_;
};

Model * DecodeGraphTest::model_ = nullptr;

// Every kind of evidence that decoding captures: windows, the last query, running sums, moments, samples; ragged lanes.
TEST_F(DecodeGraphTest, EqualsGraphsBuiltForEveryTokenUnderEveryKindOfEvidence) {
    const auto fed = tokens(140);
    for (const char * policy :
         {"full", "random", "snapkv", "adakv", "tova", "h2o", "expected", "score", "laprox", "h2o+caote"}) {
        SCOPED_TRACE(policy);
        const bool full = std::string(policy) == "full";
        Pair pair(open(policy, full ? Budget() : Budget(48), 5), open(policy, full ? Budget() : Budget(48), 5));
        pair.prefill(std::span(fed).first(80));
        pair.feed(std::span(fed).subspan(80));
        if (!full) { EXPECT_GE(pair.kept().ledger().n_evictions, 10); }
        EXPECT_EQ(n_built(pair.kept()), 1);
    }
}

// Each expert that a token uses is two operations more, in a layer's graph as in the one that is kept.
TEST_F(DecodeGraphTest, HasRoomForEveryExpertOfALayerAtOnce) {
    RandomModelSpec spec = tiny_spec();
    spec.arch = "qwen3moe";
    spec.n_layers = 2;
    spec.n_experts = spec.n_experts_used = 256;
    spec.n_ff_expert = 32;
    const auto model = tiny_model(spec);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto fed = random_tokens(20, model->info().n_vocab);
    SessionOptions options;
    options.policy = "full";
    options.observe = {"expected", "snapkv", "h2o"};
    options.n_threads = 1;
    auto kept = model->session(options);
    auto built = model->session(options);
    ASSERT_TRUE(kept.ok() && built.ok());
    Pair pair(std::move(*kept), std::move(*built));
    pair.prefill(std::span(fed).first(16));
    pair.feed(std::span(fed).subspan(16));
}

TEST_F(DecodeGraphTest, SurvivesEvictionsRestoresAndCutBacks) {
    const auto fed = tokens(200);
    Pair pair(open("snapkv", 48, 6), open("snapkv", 48, 6));
    pair.prefill(std::span(fed).first(90));
    const Pair::Saved early = pair.snapshot();
    pair.feed(std::span(fed).subspan(90, 4));
    const Pair::Saved later = pair.snapshot();  // nothing evicted in between: a cut
    pair.feed(std::span(fed).subspan(94, 1));
    pair.restore(later);
    pair.feed(std::span(fed).subspan(100, 30));  // evicts: coming back loads saved entries
    pair.restore(early);
    pair.feed(std::span(fed).subspan(120, 20));
    pair.prefill(std::span(fed).subspan(140, 20));  // other graphs in between
    pair.feed(std::span(fed).subspan(160, 10));
    EXPECT_EQ(n_built(pair.kept()), 1);
}

TEST_F(DecodeGraphTest, IsBuiltAgainWhenTheCacheGrows) {
    const auto fed = tokens(700);
    Pair pair(open("full", {}, 0), open("full", {}, 0));
    pair.prefill(std::span(fed).first(20));
    pair.feed(std::span(fed).subspan(20));
    EXPECT_EQ(n_built(pair.kept()), 3);  // room for 320 entries, for 640, for 1280
}

TEST_F(DecodeGraphTest, EqualsGraphsBuiltForEveryTokenOnSeveralThreads) {
    const auto fed = tokens(120);
    Pair pair(open("h2o", 48, 5, 3), open("h2o", 48, 5, 3));
    pair.prefill(std::span(fed).first(80));
    pair.feed(std::span(fed).subspan(80));
}

// A head size of 40 is no multiple of 16: the portable path, whose graphs cannot be kept.
TEST_F(DecodeGraphTest, IsNotUsedWhereAttentionIsGgmls) {
    RandomModelSpec spec = tiny_spec();
    spec.head_dim = 40;
    auto model = tiny_model(spec);
    ASSERT_TRUE(model.ok()) << model.status().message();
    SessionOptions options;
    options.n_threads = 1;
    auto session = model->session(options);
    ASSERT_TRUE(session.ok());
    ASSERT_TRUE(session->prefill(tokens(10)).ok());
    ASSERT_TRUE(session->append(1).ok());
    EXPECT_EQ(n_built(*session), 0);
}

// Two sequences of one cache decode in turns; each equals its layers run one by one over a cache of its own.
TEST_F(DecodeGraphTest, ServesSeveralSequencesInTurns) {
    ASSERT_TRUE(load_backends().ok());
    auto made = make_cpu_backend(2);
    ASSERT_TRUE(made.ok());
    const OwnedBackend backend(*made);
    const auto file = ModelFile::load(model_->info().path, {});
    ASSERT_TRUE(file.ok());
    const Hparams & hp = (*file)->hparams();
    CacheLayout layout;
    layout.shape = {hp.n_layers, hp.n_kv_heads, hp.n_group(), hp.head_dim};
    layout.head_dim_v = hp.head_dim_v;
    layout.attention_scale = hp.attention_scale;
    layout.n_seqs = 2;
    auto shared = RaggedCache::make(layout, 64);
    layout.n_seqs = 1;
    std::vector<std::unique_ptr<RaggedCache>> own;
    for (int seq = 0; seq < 2; ++seq) {
        auto cache = RaggedCache::make(layout, 64);
        ASSERT_TRUE(cache.ok());
        own.push_back(std::move(*cache));
    }
    Forward forward(*file, backend.get());
    EvidenceState none(layout.shape, EvidenceNeeds{});
    std::vector<float> logits(static_cast<size_t>(hp.n_vocab));
    std::vector<float> expected(logits.size());
    std::vector<float> hidden(static_cast<size_t>(hp.n_embd));
    const auto fed = tokens(40);
    for (int i = 0; i < 40; ++i) {
        const int seq = i % 3 == 0 ? 1 : 0;  // of different lengths
        const std::span token(&fed[static_cast<size_t>(i)], 1);
        RaggedCache & cache = *own[static_cast<size_t>(seq)];
        const auto position = static_cast<int32_t>(cache.length(0));
        const std::span<float> row = logits;
        const BatchPart part{shared->get(), &none, seq, 1, position};
        ASSERT_TRUE(forward.run_tokens(std::span(&part, 1), token, std::span(&row, 1)).ok());
        for (int l = 0; l < hp.n_layers; ++l) {
            const BatchPart alone{&cache, &none, 0, 1, position};
            ASSERT_TRUE(forward.run_layer(std::span(&alone, 1), l, token, hidden).ok());
        }
        ASSERT_TRUE(forward.run_head(hidden, 1, expected).ok());
        ASSERT_EQ(logits, expected) << "step " << i;
    }
}

TEST_F(DecodeGraphTest, GivesTheSameLogitsWhenItIsProfiled) {
    const auto fed = tokens(100);
    const auto run = [&](GraphProfile * profile) {
        Session session = open("expected", 48, 5);
        LayerProbe(session).set_profile(profile);
        EXPECT_TRUE(session.prefill(std::span(fed).first(80)).ok());
        for (const int32_t token : std::span(fed).subspan(80)) { EXPECT_TRUE(session.append(token).ok()); }
        return std::vector<float>(session.logits().begin(), session.logits().end());
    };
    GraphProfile profile;
    EXPECT_EQ(run(&profile), run(nullptr));
    EXPECT_GT(profile.weights_s, 0);
    EXPECT_GT(profile.attention_s, 0);
    EXPECT_GT(profile.evidence_s, 0);
    EXPECT_GT(profile.rest_s, 0);
    EXPECT_GT(profile.build_s, 0);
}

}  // namespace
}  // namespace pith::decode_graph_test
