// carried_norms_test.cpp - norms behind W_O that are carried from eviction to eviction are, to the bit, those computed anew:
// through compaction, growth, evictions that came to nothing, rollbacks and snapshots.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "attention/random_lanes.h"
#include "engine/layer_probe.h"
#include "engine/policy_probe.h"
#include "engine/tiny_model.h"
#include "evidence/evidence_state.h"
#include "model/bare_model.h"
#include "pith/session.h"

namespace pith::carried_norms_test {
namespace {

using testing::random_tokens;
using testing::RandomLanes;
using testing::tiny_model;
using testing::tiny_spec;

EvidenceNeeds output_l1_needs() {
    EvidenceNeeds needs;
    needs.output_l1 = true;
    return needs;
}

// A model that is nothing but an output projection.
class ProjectionOnly : public testing::BareModel {
public:
    explicit ProjectionOnly(std::vector<float> projection) : projection_(std::move(projection)) { hparams_.n_layers = 1; }

    Result<std::vector<float>> read_output_projection(int) const override {
        ++n_reads;
        return projection_;
    }

    mutable int n_reads = 0;

private:
    std::vector<float> projection_;
};

class CarriedNorms : public ::testing::TestWithParam<const char *> {
protected:
    void SetUp() override { ASSERT_TRUE(use_cpu_attention_target(GetParam())); }
    void TearDown() override { use_cpu_attention_target(nullptr); }

    Ragged<float> gather(const EvidenceState & state) {
        const auto evidence = state.gather(lanes_.runner(), lanes_.cache(), 0, 0, 1000, output_l1_needs());
        EXPECT_TRUE(evidence.ok()) << evidence.status().message();
        return evidence.ok() ? evidence->output_l1 : Ragged<float>();
    }
    EvidenceState state_of(std::shared_ptr<OutputMatrices> output) const {
        return EvidenceState(lanes_.shape(), output_l1_needs(), std::move(output));
    }
    EvidenceState new_state() const { return state_of(std::make_shared<OutputMatrices>(model_)); }
    void expect_as_new(const EvidenceState & state) { EXPECT_EQ(gather(state), gather(new_state())); }

    RandomLanes lanes_{GGML_TYPE_F16, 2, 3, 64, 300, 40};
    std::shared_ptr<ProjectionOnly> model_ =
        std::make_shared<ProjectionOnly>(lanes_.random_values(size_t{75} * static_cast<size_t>(lanes_.row_size())));
};

TEST_P(CarriedNorms, AreThoseComputedAnew) {
    EvidenceState state = new_state();
    expect_as_new(state);
    lanes_.feed(70, 340);  // an eviction that came to nothing, then more entries
    expect_as_new(state);
    for (int round = 0; round < 3; ++round) {
        state.compact(0, lanes_.evict_at_random());
        lanes_.feed(33, 410 + 33 * round);
        if (round == 1) { continue; }  // nothing asked between two evictions
        expect_as_new(state);
    }
    state.compact(0, lanes_.evict_at_random(), /*evicts=*/false);
    expect_as_new(state);
}

TEST_P(CarriedNorms, ComeBackWithACopyOfTheState) {
    EvidenceState state = new_state();
    gather(state);
    const EvidenceState before = state;
    const std::vector<int> lengths = {lanes_.length(0), lanes_.length(1)};
    lanes_.feed(50, 340);
    gather(state);
    lanes_.cache().truncate(0, 0, lengths);
    state = before;
    lanes_.feed(60, 340);  // others at the same positions
    expect_as_new(state);
}

TEST_P(CarriedNorms, OfEntriesCutOffAreForgotten) {
    EvidenceState state = new_state();
    gather(state);
    const std::vector<int> lengths = {lanes_.length(0) - 20, lanes_.length(1) - 30};
    lanes_.cache().truncate(0, 0, lengths);
    expect_as_new(state);
    lanes_.feed(40, 340);
    expect_as_new(state);
}

TEST_P(CarriedNorms, AreNotComputedAgain) {
    const EvidenceState state = new_state();
    const Ragged<float> first = gather(state);
    EXPECT_EQ(model_->n_reads, 1);
    // What was carried is not looked at again: were it, this would show.
    ggml_tensor * values = lanes_.cache().v(0);
    std::memset(values->data, 0, values->nb[1] * static_cast<size_t>(lanes_.length(0)));
    EXPECT_EQ(gather(state), first);
    EXPECT_EQ(model_->n_reads, 1) << "nothing is new";
}

TEST_P(CarriedNorms, TheProjectionInBytesIsKeptFromTheSecondTimeOn) {
    const auto output = std::make_shared<OutputMatrices>(model_);
    const EvidenceState state = state_of(output);
    gather(state);
    EXPECT_EQ(output->size_bytes(), 0U);
    const bool by_bytes = !byte_units().empty();
    for (int i = 0; i < 3; ++i) {
        lanes_.feed(10, 340 + 10 * i);
        gather(state);
    }
    EXPECT_EQ(model_->n_reads, by_bytes ? 2 : 4);
    if (by_bytes) { EXPECT_GT(output->size_bytes(), size_t{75} * static_cast<size_t>(lanes_.row_size())); }
}

TEST_P(CarriedNorms, SessionsOfOneModelShareTheProjectionInBytes) {
    if (byte_units().empty()) { GTEST_SKIP() << "no products of bytes"; }
    const auto output = std::make_shared<OutputMatrices>(model_);
    const EvidenceState one = state_of(output);
    const Ragged<float> first = gather(one);
    const EvidenceState other = state_of(output);
    EXPECT_EQ(gather(other), first);
    EXPECT_EQ(model_->n_reads, 2);
    EXPECT_EQ(gather(state_of(output)), first);
    lanes_.feed(10, 340);
    gather(one);
    EXPECT_EQ(model_->n_reads, 2) << "kept for all";
}

INSTANTIATE_TEST_SUITE_P(Targets, CarriedNorms, ::testing::ValuesIn(cpu_attention_targets()),
                         [](const auto & one) { return std::string(one.param); });

// What a session carries against a state that has seen nothing, in every layer.
void expect_session_as_new(Session & session, const char * when) {
    LayerProbe layers(session);
    const EvidenceState fresh(layers.shape(), output_l1_needs(), layers.output());
    for (int layer = 0; layer < layers.shape().n_layers; ++layer) {
        const auto of = [&](const EvidenceState & state) {
            return state.gather(layers.runner(), layers.cache(), 0, layer, session.n_tokens(), output_l1_needs());
        };
        const auto carried = of(layers.evidence());
        const auto anew = of(fresh);
        ASSERT_TRUE(carried.ok() && anew.ok()) << when;
        EXPECT_EQ(carried->output_l1, anew->output_l1) << when << ", layer " << layer;
    }
}

SessionOptions options_of(const char * policy, int budget) {
    SessionOptions options;
    options.policy = policy;
    if (budget > 0) { options.budget = Budget(budget); }
    options.prefill = budget > 0 ? PrefillSchedule::kChunked : PrefillSchedule::kOneShot;
    options.chunk = 32;
    options.evict_every = 7;
    options.n_threads = 1;
    return options;
}

TEST(CarriedNormsOfASession, OutliveChunksDecodingSnapshotsAndCancelledRuns) {
    const auto model = tiny_model(tiny_spec());
    ASSERT_TRUE(model.ok()) << model.status().message();
    auto session = model->session(options_of("criticalkv", 64));
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_TRUE(session->prefill(random_tokens(200, 384)).ok());
    expect_session_as_new(*session, "after chunks");
    for (int i = 0; i < 10; ++i) { ASSERT_TRUE(session->decode().ok()); }
    expect_session_as_new(*session, "after decoding");

    const auto snapshot = session->snapshot();
    ASSERT_TRUE(snapshot.ok());
    for (const unsigned seed : {2U, 3U}) {
        ASSERT_TRUE(session->prefill(random_tokens(40, 384, seed)).ok());
        expect_session_as_new(*session, "after a question");
        ASSERT_TRUE(session->restore(*snapshot).ok());
        expect_session_as_new(*session, "after coming back");
    }
    // Once before anything was evicted, once after.
    for (const int64_t n_done : {int64_t{1}, int64_t{9}}) {
        std::atomic<bool> cancel = false;
        RunHooks hooks;
        hooks.cancel = &cancel;
        hooks.progress = [&](int64_t done, int64_t) { cancel = done >= n_done; };
        EXPECT_EQ(session->prefill(random_tokens(60, 384, 5), hooks).code(), ErrorCode::kCancelled);
        if (session->n_tokens() > 0) { expect_session_as_new(*session, "after a cancelled run"); }
        ASSERT_TRUE(session->prefill(random_tokens(90, 384, 6)).ok());
        expect_session_as_new(*session, "after a run behind it");
    }
}

TEST(CarriedNormsOfASession, OutliveLookingAndEvictingTheSamePrefillTwice) {
    const auto model = tiny_model(tiny_spec());
    ASSERT_TRUE(model.ok()) << model.status().message();
    SessionOptions options = options_of("full", 0);
    options.observe = {"criticalkv", "critical-adakv"};
    auto session = model->session(options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_TRUE(session->prefill(random_tokens(150, 384)).ok());
    const auto snapshot = session->snapshot();
    ASSERT_TRUE(snapshot.ok());
    // Gathered, planned, and nothing applied: as an eviction that fails.
    ASSERT_TRUE(PolicyProbe(*session).view("criticalkv", Budget(70)).ok());
    expect_session_as_new(*session, "after looking");
    for (const char * policy : {"critical-adakv", "criticalkv"}) {
        ASSERT_TRUE(session->evict(policy, Budget(60)).ok());
        for (int i = 0; i < 9; ++i) { ASSERT_TRUE(session->decode().ok()); }
        expect_session_as_new(*session, policy);
        ASSERT_TRUE(session->restore(*snapshot).ok());
        expect_session_as_new(*session, "after coming back");
    }
}

}  // namespace
}  // namespace pith::carried_norms_test
