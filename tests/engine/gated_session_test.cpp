// gated_session_test.cpp - what gates say no to is never stored, and that is what masking it gives; gates are what their
// formulas say; everything a session can do goes on under them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "engine/answers_alone.h"
#include "engine/gate_probe.h"
#include "engine/gated_model.h"
#include "engine/parts/model_parts.h"
#include "engine/policy_probe.h"
#include "engine/rest/saved_and_opened.h"
#include "gate/plain_gate.h"
#include "model/plain_attention.h"

namespace pith::gated_session_test {
namespace {

using testing::even_gate;
using testing::gated_model;
using testing::plain_gate_logits;
using testing::plain_logits;
using testing::random_tokens;
using testing::RandomGate;
using testing::Row;
using testing::tiny_spec;

constexpr int kPrompt = 90;
constexpr int kDecoded = 8;
constexpr int kSecond = 20;  // a second prompt
constexpr int kAll = kPrompt + kDecoded + kSecond + 2;

SessionOptions options_of(const std::string & policy, Budget budget = {}) {
    SessionOptions options;
    options.policy = policy;
    options.budget = budget;
    options.type_k = options.type_v = KvType::kF32;
    options.chunk = 32;
    options.evict_every = 5;
    options.n_threads = 1;
    return options;
}

// What gates said, entry by entry, and what lanes no longer held when.
class GateLog {
public:
    explicit GateLog(const GateConfig & config) : config_(config) {}

    void said(int layer, int n_kv, std::span<const float> probabilities, const std::vector<int> & positions) {
        for (size_t i = 0; i < probabilities.size(); ++i) {
            p_[{layer, static_cast<int>(i) % n_kv, positions[i / static_cast<size_t>(n_kv)]}] = probabilities[i];
        }
    }
    void look(const Session & session) {
        for (int l = 0; l < session.n_layers(); ++l) {
            for (int h = 0; h < session.n_kv_heads(); ++h) {
                const auto lane = session.lane_positions(l, h);
                for (int32_t position = 0; position < session.n_tokens(); ++position) {
                    if (!std::ranges::binary_search(lane, position)) {
                        gone_.try_emplace({l, h, position}, static_cast<int>(session.n_tokens()));
                    }
                }
            }
        }
    }
    bool kept(int layer, int head, int position) const {
        const auto it = p_.find({layer, head, position});
        return it == p_.end() || it->second > config_.tau;
    }
    const std::map<std::tuple<int, int, int>, float> & all() const { return p_; }
    bool hidden(int layer, int head, int query, int key) const {
        const auto it = gone_.find({layer, head, key});
        return (!kept(layer, head, key) && query - key >= config_.n_recent) || (it != gone_.end() && query >= it->second);
    }
    double share_kept() const {
        int64_t n = 0;
        for (const auto & [entry, p] : p_) { n += p > config_.tau; }
        return static_cast<double>(n) / static_cast<double>(p_.size());
    }

private:
    GateConfig config_;
    std::map<std::tuple<int, int, int>, float> p_;
    std::map<std::tuple<int, int, int>, int> gone_;
};

double relative_error(const std::vector<float> & got, const std::vector<float> & expected) {
    EXPECT_EQ(got.size(), expected.size());
    const auto [low, high] = std::ranges::minmax(expected);
    double worst = 0;
    for (size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
        worst = std::max(worst, std::abs(double{got[i]} - expected[i]));
    }
    return worst / (high - low);
}

struct Result {
    std::vector<float> logits;  // [kAll][n_vocab]
    Ledger ledger;
};

// A prompt, an answer, another prompt, another answer.
Result converse(const Model & model, const SessionOptions & options, const std::vector<int32_t> & tokens, GateLog & log) {
    Result result;
    auto session = model.session(options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    GateProbe probe(*session);
    EXPECT_TRUE(probe.watch().ok());
    std::map<int, size_t> n_read;
    RunHooks hooks;
    hooks.on_logits = [&](int64_t, std::span<const float> row) {
        result.logits.insert(result.logits.end(), row.begin(), row.end());
    };
    const auto prompt = [&](int from, int n) {
        const Status status =
            session->prefill(std::span(tokens).subspan(static_cast<size_t>(from), static_cast<size_t>(n)), hooks);
        EXPECT_TRUE(status.ok()) << status.message();
        std::vector<int> positions(static_cast<size_t>(n));
        std::iota(positions.begin(), positions.end(), from);
        for (const GateLayerView & layer : probe.layers()) {
            const auto fresh = std::span(layer.probability).subspan(n_read[layer.layer]);
            if (!fresh.empty()) { log.said(layer.layer, layer.n_kv_heads, fresh, positions); }
            n_read[layer.layer] = layer.probability.size();
        }
        log.look(*session);
    };
    const auto decode = [&](int from, int n) {
        for (int i = from; i < from + n; ++i) {
            EXPECT_TRUE(session->append(tokens[static_cast<size_t>(i)]).ok());
            result.logits.insert(result.logits.end(), session->logits().begin(), session->logits().end());
            log.look(*session);
        }
    };
    hooks.progress = [&](int64_t, int64_t) {
        if (options.prefill == PrefillSchedule::kChunked) { log.look(*session); }
    };
    prompt(0, kPrompt);
    decode(kPrompt, kDecoded);
    prompt(kPrompt + kDecoded, kSecond);
    decode(kPrompt + kDecoded + kSecond, 2);
    result.ledger = session->ledger();
    return result;
}

// The full forward pass under the mask that the log tells; the layers' inputs as well.
std::vector<float> oracle(const Model & model, const GateLog & log, const std::vector<int32_t> & tokens,
                          std::vector<std::vector<float>> * inputs = nullptr) {
    const int n_group = model.info().n_heads / model.info().n_kv_heads;
    const auto mask = [&](int layer, int head, int query, int key) {
        return log.hidden(layer, head / n_group, query, key) ? -INFINITY : 0.0F;
    };
    return plain_logits(file_of(model), tokens, mask, {}, 1, GGML_TYPE_F32, nullptr, inputs);
}

struct Case {
    std::string name;
    GateConfig config;
    int n_heads = 4;
    int n_kv_heads = 2;
    int head_dim = 32;  // 24: not one of the kernel's
    PrefillSchedule prefill = PrefillSchedule::kAuto;
    int chunk = 32;
    std::string policy = "gated";
    Budget budget;
    std::function<void(RandomModelSpec &)> model = [](RandomModelSpec &) {};
    double tolerance = 1e-5;  // of the logits' range
};

void PrintTo(const Case & c, std::ostream * out) {
    *out << c.name;
}

std::vector<Case> cases() {
    std::vector<Case> list;
    const auto add = [&](const std::string & name, const std::function<void(Case &)> & change) {
        Case c{name, even_gate()};
        change(c);
        list.push_back(c);
    };
    const auto causal = [](Case & c) { c.config.causal = true; };
    const auto linear = [](Case & c) { c.config.kind = GateKind::kLinear; };
    add("Global", [](Case &) {});
    add("GlobalWithoutGroups", [](Case & c) { c.n_heads = c.n_kv_heads = 3; });
    add("GlobalPortable", [](Case & c) { c.head_dim = 24, c.config.head_dim = 10; });
    add("GlobalRecent5", [](Case & c) { c.config.n_recent = 5; });
    add("GlobalRecent5Portable", [](Case & c) { c.config.n_recent = 5, c.head_dim = 24, c.config.head_dim = 8; });
    add("GlobalPrevious", [](Case & c) { c.config.source = GateSource::kPrevious, c.config.first_layer = 1; });
    add("GlobalFromLayer2", [](Case & c) { c.config.first_layer = 2; });
    add("Causal", causal);
    add("CausalPortable", [&](Case & c) { causal(c), c.head_dim = 24, c.config.head_dim = 8; });
    for (const int chunk : {7, 24, 64}) {
        const std::string of = std::to_string(chunk);
        add("CausalChunks" + of, [&](Case & c) { causal(c), c.prefill = PrefillSchedule::kChunked, c.chunk = chunk; });
        add("LinearRecent5Chunks" + of,
            [&](Case & c) { linear(c), c.config.n_recent = 5, c.prefill = PrefillSchedule::kChunked, c.chunk = chunk; });
    }
    add("CausalRecent5Chunks3Portable", [&](Case & c) {
        causal(c), c.config.n_recent = 5, c.prefill = PrefillSchedule::kChunked, c.chunk = 3, c.head_dim = 24;
    });
    add("CausalPreviousChunks16", [&](Case & c) {
        causal(c), c.config.source = GateSource::kPrevious, c.config.first_layer = 2;
        c.prefill = PrefillSchedule::kChunked, c.chunk = 16;
    });
    add("Linear", linear);
    add("LinearWithoutGroupsRecent5", [&](Case & c) { linear(c), c.config.n_recent = 5, c.n_heads = c.n_kv_heads = 3; });
    for (const char * policy :
         {"gated+snapkv:window=8+ada", "gated+h2o:recent=4+caote", "gated+keydiff:recent=4+entropy",
          "gated+gate:recent=2+global", "gated+matprod:window=8+global", "gated+snapkv:window=8+head+critical",
          "gated+snapkv:window=8+novelty:k=20+diverse", "gated+expected:recent=4+pyramid", "gated+tova:recent=4+joint"}) {
        const auto on_top = [policy](Case & c) { c.policy = policy, c.budget = 20; };
        std::string name = policy;
        std::erase_if(name, [](char ch) { return std::isalnum(static_cast<unsigned char>(ch)) == 0; });
        add("OneShot" + name, on_top);
        add("Recent5" + name, [&](Case & c) { on_top(c), c.config.n_recent = 5; });
        add("Portable" + name, [&](Case & c) { on_top(c), c.head_dim = 24; });
        add("Chunks24" + name, [&](Case & c) { on_top(c), causal(c), c.prefill = PrefillSchedule::kChunked, c.chunk = 24; });
    }
    // Layers with windows and recurrent layers have no gates. Gelu looks up numbers rounded to f16.
    const auto windows = [](RandomModelSpec & spec) {
        spec.arch = "gemma3";
        spec.n_layers = 6;
        spec.window = 20;
        spec.keys = {{"attention.sliding_window_pattern", 3U}};
    };
    const auto states = [](RandomModelSpec & spec) {
        spec.arch = "lfm2";
        spec.n_layers = 4;
        spec.keys = {{"shortconv.l_cache", 3U}, {"attention.head_count_kv", RandomList<int32_t>{{0, 2}}}};
    };
    const auto add_unlike = [&](const std::string & name, const std::function<void(RandomModelSpec &)> & model) {
        const auto unlike = [&](Case & c) { c.model = model, c.tolerance = 1e-4; };
        add(name, unlike);
        add(name + "Previous", [&](Case & c) { unlike(c), c.config.source = GateSource::kPrevious, c.config.first_layer = 3; });
        add(name + "CausalRecent5Chunks24", [&](Case & c) {
            unlike(c), causal(c), c.config.n_recent = 5, c.prefill = PrefillSchedule::kChunked, c.chunk = 24;
        });
        add(name + "Evicted", [&](Case & c) { unlike(c), c.policy = "gated+snapkv:window=8+ada", c.budget = 20; });
    };
    add_unlike("Windows", windows);
    add_unlike("States", states);
    return list;
}

class GatedSession : public ::testing::TestWithParam<Case> {};

TEST_P(GatedSession, OmissionEqualsMaskingAndGatesAreTheirFormulas) {
    const Case & c = GetParam();
    RandomModelSpec spec = tiny_spec(c.n_heads, c.n_kv_heads);
    spec.head_dim = c.head_dim;
    c.model(spec);
    const auto model = gated_model(spec, c.config);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const std::vector<int> gated = layers_with_gate(c.config, file_of(*model).hparams());
    ASSERT_FALSE(gated.empty());
    ASSERT_TRUE(spec.arch != "llama" || std::ssize(gated) == spec.n_layers - c.config.first_layer);
    const auto tokens = random_tokens(kAll, model->info().n_vocab);
    SessionOptions options = options_of(c.policy, c.budget);
    options.prefill = c.prefill;
    options.chunk = c.chunk;
    options.heads = std::make_shared<HeadImportance>(
        HeadImportance{std::vector<double>(static_cast<size_t>(spec.n_layers * c.n_heads), 0.5),
                       std::vector<double>(static_cast<size_t>(spec.n_layers * c.n_heads), 0.25)});
    GateLog log(c.config);
    const Result got = converse(*model, options, tokens, log);
    EXPECT_GT(log.share_kept(), 0.1);
    EXPECT_LT(log.share_kept(), 0.9);

    std::vector<std::vector<float>> inputs;
    const std::vector<float> expected = oracle(*model, log, tokens, &inputs);
    EXPECT_LE(relative_error(got.logits, expected), c.tolerance);

    // Which tokens gates were asked about: the first prompt, and the second where they can.
    std::vector<int> asked(kPrompt);
    std::iota(asked.begin(), asked.end(), 0);
    for (int i = 0; i < kSecond && c.config.works_in_chunks(); ++i) { asked.push_back(kPrompt + kDecoded + i); }
    const auto n_embd = static_cast<size_t>(model->info().n_embd);
    const RandomGate gate(c.config, file_of(*model).hparams());
    const auto n_gated = static_cast<int>(gated.size());
    ASSERT_EQ(log.all().size(), asked.size() * static_cast<size_t>(n_gated * c.n_kv_heads));
    double worst = 0;
    for (const int l : gated) {
        const auto & x = inputs[static_cast<size_t>(c.config.input_layer(l))];
        std::vector<Row> rows;
        for (const int position : asked) {
            const auto * from = x.data() + static_cast<size_t>(position) * n_embd;
            rows.emplace_back(from, from + n_embd);
        }
        // A gate that is not causal knows the first prompt only, and all of it.
        const auto logits = plain_gate_logits(gate, gate.weights.layers[static_cast<size_t>(l)], rows);
        for (size_t i = 0; i < asked.size(); ++i) {
            for (int h = 0; h < c.n_kv_heads; ++h) {
                const double p = 1 / (1 + std::exp(-logits[i][static_cast<size_t>(h)] - c.config.gamma));
                worst = std::max(worst, std::abs(p - log.all().at({l, h, asked[i]})));
            }
        }
    }
    EXPECT_LE(worst, c.tolerance / 5);

    const int64_t n_seen = static_cast<int64_t>(asked.size()) * n_gated * c.n_kv_heads;
    EXPECT_EQ(got.ledger.gate_seen_entries, n_seen);
    EXPECT_EQ(got.ledger.gate_kept_entries, std::llround(log.share_kept() * static_cast<double>(n_seen)));
    EXPECT_GT(got.ledger.gate_s, 0);
    EXPECT_EQ(got.ledger.evicted_entries > 0, c.policy != "gated");
}

INSTANTIATE_TEST_SUITE_P(All, GatedSession, ::testing::ValuesIn(cases()), [](const auto & test) { return test.param.name; });

Model model_with(const GateConfig & config) {
    auto model = gated_model(tiny_spec(), config);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return *model;
}

std::vector<std::vector<int32_t>> lanes_of(const Session & session) {
    std::vector<std::vector<int32_t>> lanes;
    for (int l = 0; l < session.n_layers(); ++l) {
        for (int h = 0; h < session.n_kv_heads(); ++h) {
            const auto lane = session.lane_positions(l, h);
            lanes.emplace_back(lane.begin(), lane.end());
        }
    }
    return lanes;
}

std::vector<float> logits_of(const Session & session) {
    return {session.logits().begin(), session.logits().end()};
}

TEST(Gated, GatesThatKeepEverythingAreTheFullCacheToTheBit) {
    GateConfig config = even_gate();
    config.tau = 0.01F;
    const Model model = model_with(config);
    const auto tokens = random_tokens(100, model.info().n_vocab);
    std::vector<std::vector<float>> results;
    for (const char * policy : {"full", "gated"}) {
        SessionOptions options = options_of(policy);
        options.prefill = PrefillSchedule::kOneShot;
        auto session = *model.session(options);
        ASSERT_TRUE(session.prefill(tokens).ok());
        for (int i = 0; i < 5; ++i) { ASSERT_TRUE(session.decode().ok()); }
        results.push_back(logits_of(session));
        EXPECT_EQ(session.ledger().kept_entries, session.n_tokens() * 6);
    }
    EXPECT_EQ(results[0], results[1]);
}

TEST(Gated, GatesThatKeepNothingLeaveEmptyLanesAndDecodingGoesOn) {
    GateConfig config = even_gate();
    config.tau = 0.99F;
    const Model model = model_with(config);
    const auto tokens = random_tokens(100, model.info().n_vocab);
    for (const char * policy : {"gated", "gated+snapkv+ada", "gated+h2o+caote", "gated+keydiff+entropy", "gated+matprod+global",
                                "gated+snapkv+novelty+diverse", "gated+vmax+preference+critical"}) {
        auto session = *model.session(options_of(policy, std::string(policy) == "gated" ? Budget() : Budget(40)));
        const Status status = session.prefill(tokens);
        ASSERT_TRUE(status.ok()) << policy << ": " << status.message();
        EXPECT_EQ(session.ledger().kept_entries, 0);
        for (int i = 0; i < 60; ++i) { ASSERT_TRUE(session.decode().ok()) << policy; }
        for (const float logit : session.logits()) { ASSERT_TRUE(std::isfinite(logit)); }
    }
}

TEST(Gated, LanesHoldWhatGatesKeepAndNoMoreThanAChunkBeside) {
    GateConfig config = even_gate();
    config.n_recent = 5;
    const Model model = model_with(config);
    const auto tokens = random_tokens(300, model.info().n_vocab);
    auto session = *model.session(options_of("gated"));
    GateProbe probe(session);
    ASSERT_TRUE(probe.watch().ok());
    ASSERT_TRUE(session.prefill(tokens).ok());
    const auto expect_lanes = [&](int n_now) {
        size_t longest = 0;
        for (const GateLayerView & layer : probe.layers()) {
            for (int h = 0; h < layer.n_kv_heads; ++h) {
                std::vector<int32_t> expected;
                for (int i = 0; i < n_now; ++i) {
                    const bool kept = i >= 300 || layer.probability[static_cast<size_t>(i * layer.n_kv_heads + h)] > config.tau;
                    if (kept || n_now - i < config.n_recent) { expected.push_back(i); }
                }
                const auto lane = session.lane_positions(layer.layer, h);
                EXPECT_EQ(std::vector<int32_t>(lane.begin(), lane.end()), expected);
                longest = std::max(longest, expected.size());
            }
        }
        return longest;
    };
    const size_t longest = expect_lanes(300);
    EXPECT_LE(session.ledger().peak_lane_entries, static_cast<int64_t>(longest) + 32);
    EXPECT_GT(session.ledger().gate_peak_bytes, 0U);
    for (int i = 0; i < 6; ++i) {
        // What leaves, leaves when the next query comes.
        ASSERT_TRUE(session.append(tokens[static_cast<size_t>(i)]).ok());
        for (const auto & lane : lanes_of(session)) { EXPECT_EQ(lane.back(), 300 + i); }
    }
    expect_lanes(306);
}

TEST(Gated, ABudgetOnTopIsNeverExceededAndTheGateScorerMeetsItExactly) {
    const Model model = model_with(even_gate());
    const auto tokens = random_tokens(200, model.info().n_vocab);
    for (const char * policy : {"gate", "gate+ada", "gate:recent=0+global", "gate+entropy", "gate+caote", "gate+critical"}) {
        auto session = *model.session(options_of(policy, 60));
        ASSERT_TRUE(session.prefill(tokens).ok()) << policy;
        EXPECT_EQ(session.ledger().kept_entries, 60 * 6) << policy;
        EXPECT_EQ(session.ledger().gate_seen_entries, 0) << "nothing is gated";
    }
    for (const char * policy : {"gated+snapkv+ada", "gated+gate", "gated+h2o+global"}) {
        auto session = *model.session(options_of(policy, 60));
        ASSERT_TRUE(session.prefill(tokens).ok()) << policy;
        EXPECT_LE(session.ledger().kept_entries, 60 * 6) << policy;
        for (int i = 0; i < 40; ++i) { ASSERT_TRUE(session.decode().ok()); }
        EXPECT_LE(session.ledger().kept_entries, (60 + 5) * 6) << policy;
    }
}

// Where gates leave less than the budget, a policy on top has nothing to do; it begins once answers have filled the lanes.
TEST(Gated, ABudgetThatGatesFallShortOfEvictsNothing) {
    GateConfig config = even_gate();
    config.causal = true;
    config.tau = 0.7F;  // lanes differ much: less than half of each
    const Model model = model_with(config);
    const auto tokens = random_tokens(200, model.info().n_vocab);
    for (const PrefillSchedule prefill : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
        SessionOptions options = options_of("gated");
        options.prefill = prefill;
        auto plain = *model.session(options);
        ASSERT_TRUE(plain.prefill(tokens).ok());
        size_t longest = 0;
        for (const auto & lane : lanes_of(plain)) { longest = std::max(longest, lane.size()); }
        ASSERT_LT(longest, 180U);
        for (const char * policy : {"gated+snapkv:window=8", "gated+h2o:recent=4", "gated+gate:recent=2"}) {
            options.policy = policy;
            options.budget = static_cast<int>(longest) + 33;  // a chunk stands beside what is kept
            auto session = *model.session(options);
            ASSERT_TRUE(session.prefill(tokens).ok()) << policy;
            EXPECT_EQ(session.ledger().n_evictions, 0) << policy;
            EXPECT_EQ(lanes_of(session), lanes_of(plain)) << policy;
            EXPECT_LE(relative_error(logits_of(session), logits_of(plain)), 1e-6) << policy;
            const int64_t allowed = (session.ledger().budget_entries + options.evict_every) * 6;
            for (int i = 0; i < 150; ++i) {
                ASSERT_TRUE(session.append(tokens[static_cast<size_t>(i)]).ok()) << policy;
                ASSERT_LE(session.ledger().kept_entries, allowed) << policy;
            }
            EXPECT_GT(session.ledger().n_evictions, 0) << policy;
        }
    }
}

TEST(Gated, PinnedEntriesStayWhateverGatesSay) {
    GateConfig config = even_gate();
    config.causal = true;
    config.tau = 0.99F;  // keeps nothing
    const Model model = model_with(config);
    const auto tokens = random_tokens(100, model.info().n_vocab);
    const std::vector<int32_t> pinned = {0, 1, 2, 30, 31, 32, 33};  // over the end of a chunk
    for (const char * policy : {"gated", "gated+snapkv:window=8+ada"}) {
        for (const PrefillSchedule prefill : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
            SessionOptions options = options_of(policy, std::string(policy) == "gated" ? Budget() : Budget(20));
            options.prefill = prefill;
            options.pinned = {{30, 34}, {0, 3}};
            auto session = *model.session(options);
            ASSERT_TRUE(session.prefill(tokens).ok());
            for (const auto & lane : lanes_of(session)) { EXPECT_EQ(lane, pinned) << policy; }
            EXPECT_EQ(session.ledger().gate_kept_entries, 7 * 6);
            EXPECT_TRUE(session.decode().ok());
        }
    }
}

TEST(Gated, TheScorerRanksByTheProbabilitiesThatWereCarriedAlong) {
    GateConfig config = even_gate();
    config.causal = true;
    const Model model = model_with(config);
    const auto tokens = random_tokens(120, model.info().n_vocab);
    for (const PrefillSchedule prefill : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
        SessionOptions options = options_of("gate:recent=0", 50);
        options.prefill = prefill;
        auto session = *model.session(options);
        GateProbe probe(session);
        ASSERT_TRUE(probe.watch().ok());
        ASSERT_TRUE(session.prefill(tokens).ok());
        for (int i = 0; i < 3; ++i) { ASSERT_TRUE(session.append(tokens[static_cast<size_t>(i)]).ok()); }
        PolicyProbe look(session);
        for (const GateLayerView & layer : probe.layers()) {
            const auto evidence = look.evidence(layer.layer, {.retention = true});
            ASSERT_TRUE(evidence.ok()) << evidence.status().message();
            for (int h = 0; h < layer.n_kv_heads; ++h) {
                const auto positions = evidence->positions.row(h);
                for (size_t j = 0; j < positions.size(); ++j) {
                    const float p =
                        positions[j] < 120 ? layer.probability[static_cast<size_t>(positions[j] * layer.n_kv_heads + h)] : 1.0F;
                    EXPECT_EQ(evidence->retention.row(h)[j], p);
                }
                if (prefill == PrefillSchedule::kChunked) { continue; }
                // One-shot: the 50 highest, later ones first where they tie.
                std::vector<std::pair<float, int>> ranked;
                for (int i = 0; i < 120; ++i) {
                    ranked.emplace_back(-layer.probability[static_cast<size_t>(i * layer.n_kv_heads + h)], -i);
                }
                std::ranges::sort(ranked);
                std::set<int32_t> best;
                for (size_t i = 0; i < 50; ++i) { best.insert(-ranked[i].second); }
                const std::set<int32_t> got(positions.begin(), positions.end() - 3);
                EXPECT_EQ(got, best);
            }
        }
    }
}

// A question that runs as queries only is taken back, also from what a causal gate remembers of the text.
TEST(Gated, AQuestionInSightIsNotRemembered) {
    GateConfig config = even_gate();
    config.causal = true;
    const Model model = model_with(config);
    const auto tokens = random_tokens(120, model.info().n_vocab);
    SessionOptions options = options_of("gate:recent=0", 30);
    options.prefill = PrefillSchedule::kChunked;
    options.chunk = 16;
    auto session = *model.session(options);
    RunHooks hooks;
    hooks.n_question = 9;
    ASSERT_TRUE(session.prefill(tokens, hooks).ok());
    testing::expect_saving_changes_nothing(model, session, true);
}

TEST(Gated, CausalGatesSayTheSameInChunksAndAtOnce) {
    for (const GateKind kind : {GateKind::kAttention, GateKind::kLinear}) {
        GateConfig config = even_gate();
        config.kind = kind;
        config.causal = true;
        const Model model = model_with(config);
        const auto tokens = random_tokens(150, model.info().n_vocab);
        std::vector<std::vector<std::vector<int32_t>>> lanes;
        std::vector<std::vector<float>> logits;
        for (const int chunk : {0, 1, 13, 64, 150}) {
            SessionOptions options = options_of("gated");
            options.prefill = chunk == 0 ? PrefillSchedule::kOneShot : PrefillSchedule::kChunked;
            if (chunk > 0) { options.chunk = chunk; }
            auto session = *model.session(options);
            ASSERT_TRUE(session.prefill(tokens).ok());
            lanes.push_back(lanes_of(session));
            logits.push_back(logits_of(session));
            EXPECT_EQ(lanes.back(), lanes.front()) << "chunks of " << chunk;
            EXPECT_LE(relative_error(logits.back(), logits.front()), 1e-5);
        }
    }
}

TEST(Gated, AnAnswerFedAtOnceIsNeverGated) {
    GateConfig config = even_gate();
    config.causal = true;
    const Model model = model_with(config);
    const auto tokens = random_tokens(120, model.info().n_vocab);
    const auto prompt = std::span(tokens).first(80);
    const auto answer = std::span(tokens).subspan(80);
    auto one_by_one = *model.session(options_of("gated"));
    auto at_once = *model.session(options_of("gated"));
    ASSERT_TRUE(one_by_one.prefill(prompt).ok());
    ASSERT_TRUE(at_once.prefill(prompt).ok());
    const auto before = lanes_of(at_once);
    for (const int32_t token : answer) { ASSERT_TRUE(one_by_one.append(token).ok()); }
    RunHooks hooks;
    hooks.is_answer = true;
    ASSERT_TRUE(at_once.prefill(answer, hooks).ok());
    EXPECT_EQ(lanes_of(at_once), lanes_of(one_by_one));
    EXPECT_LE(relative_error(logits_of(at_once), logits_of(one_by_one)), 1e-5);
    for (size_t lane = 0; lane < before.size(); ++lane) {
        EXPECT_EQ(lanes_of(at_once)[lane].size(), before[lane].size() + answer.size());
    }
    auto gated = *model.session(options_of("gated"));
    ASSERT_TRUE(gated.prefill(prompt).ok());
    ASSERT_TRUE(gated.prefill(answer).ok());
    EXPECT_NE(lanes_of(gated), lanes_of(at_once)) << "as a prompt it is";
}

TEST(Gated, SnapshotsBringGatesBack) {
    for (const int n_recent : {1, 5}) {
        GateConfig config = even_gate();
        config.causal = true;
        config.n_recent = n_recent;
        const Model model = model_with(config);
        const auto tokens = random_tokens(200, model.info().n_vocab);
        const auto part = [&](int from, int n) {
            return std::span(tokens).subspan(static_cast<size_t>(from), static_cast<size_t>(n));
        };
        auto session = *model.session(options_of("gated+gate:recent=0", 40));
        ASSERT_TRUE(session.prefill(part(0, 80)).ok());
        const auto first = *session.snapshot();
        std::vector<std::vector<float>> logits;
        std::vector<std::vector<std::vector<int32_t>>> lanes;
        const auto go_on = [&] {
            ASSERT_TRUE(session.append(7).ok());
            ASSERT_TRUE(session.prefill(part(100, 40)).ok());
            ASSERT_TRUE(session.append(8).ok());
            logits.push_back(logits_of(session));
            lanes.push_back(lanes_of(session));
        };
        go_on();
        const auto second = *session.snapshot();
        ASSERT_TRUE(session.restore(first).ok());
        ASSERT_TRUE(session.prefill(part(150, 30)).ok());  // something else in between
        ASSERT_TRUE(session.restore(first).ok());
        go_on();
        EXPECT_EQ(logits[0], logits[1]);
        EXPECT_EQ(lanes[0], lanes[1]);
        ASSERT_TRUE(session.prefill(part(0, 10)).ok());
        const auto after = logits_of(session);
        ASSERT_TRUE(session.restore(second).ok());
        EXPECT_EQ(lanes_of(session), lanes[0]);
        ASSERT_TRUE(session.prefill(part(0, 10)).ok());
        EXPECT_EQ(logits_of(session), after);
    }
}

TEST(Gated, ACancelledPromptLeavesTheSessionEmptyAndUsable) {
    const Model model = model_with(even_gate());
    const auto tokens = random_tokens(100, model.info().n_vocab);
    auto session = *model.session(options_of("gated"));
    ASSERT_TRUE(session.prefill(tokens).ok());
    const auto expected = logits_of(session);
    auto other = *model.session(options_of("gated"));
    std::atomic<bool> cancel = false;
    RunHooks hooks;
    hooks.cancel = &cancel;
    hooks.progress = [&](int64_t n_done, int64_t) { cancel = n_done > 40; };
    EXPECT_EQ(other.prefill(tokens, hooks).code(), ErrorCode::kCancelled);
    EXPECT_EQ(other.n_tokens(), 0);
    ASSERT_TRUE(other.prefill(tokens).ok());
    EXPECT_EQ(logits_of(other), expected);
}

// A prompt so short that every query still saw all: nothing has been dropped when the policy behind the gates takes over, and
// what gates said no to is then as good as the rest.
TEST(Gated, AfterAnEvictionUnderAnotherPolicyNothingIsHiddenAnyMore) {
    GateConfig gate = even_gate();
    gate.causal = true;
    gate.n_recent = 64;
    const Model model = model_with(gate);
    constexpr int kShort = 60;
    constexpr int kBudget = 40;
    const std::string policy = "snapkv:window=8";
    const auto tokens = random_tokens(kShort, model.info().n_vocab);
    const auto questions = random_tokens(12, model.info().n_vocab, 2);
    auto gated = *model.session(options_of("gated+" + policy, 2 * kShort));
    auto plain = *model.session(options_of(policy, 2 * kShort));
    for (Session * each : {&gated, &plain}) {
        ASSERT_TRUE(each->prefill(tokens).ok());
        EXPECT_EQ(each->ledger().kept_entries, kShort * each->ledger().n_lanes);
        const Status evicted = each->evict(policy, kBudget);
        ASSERT_TRUE(evicted.ok()) << evicted.message();
        const Status second = each->evict_for_questions(questions, policy, kBudget - 10);
        ASSERT_TRUE(second.ok()) << second.message();
    }
    const auto expect_same = [&] {
        for (int l = 0; l < gated.n_layers(); ++l) {
            for (int h = 0; h < gated.n_kv_heads(); ++h) {
                const auto lane = gated.lane_positions(l, h);
                EXPECT_TRUE(std::ranges::equal(lane, plain.lane_positions(l, h)));
                EXPECT_TRUE(lane.empty() || lane.back() < gated.n_tokens()) << "a question's entry has stayed";
            }
        }
    };
    expect_same();
    for (const int32_t token : questions) {
        for (Session * each : {&gated, &plain}) { ASSERT_TRUE(each->append(token).ok()); }
        expect_same();
    }
}

// The second reading runs behind what gates hide, which is still in the lanes: none of it leaves meanwhile.
TEST(Gated, ATextThatIsReadAgainIsReadAsIfNothingWereHidden) {
    GateConfig config = even_gate();
    config.n_recent = 64;
    const Model model = model_with(config);
    const auto tokens = random_tokens(40, model.info().n_vocab);
    std::vector<std::vector<std::vector<int32_t>>> kept;
    for (const char * policy : {"gated", "full"}) {
        SessionOptions options = options_of(policy);
        options.observe = {"reread"};
        auto session = *model.session(options);
        ASSERT_TRUE(session.prefill(tokens).ok());
        ASSERT_EQ(session.ledger().kept_entries, 40 * session.ledger().n_lanes) << "some have left already";
        const Status status = session.evict("reread", 20);
        ASSERT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(session.ledger().kept_entries, 20 * session.ledger().n_lanes);
        kept.push_back(lanes_of(session));
    }
    EXPECT_EQ(kept[0], kept[1]);
}

TEST(Gated, WhatCannotWorkIsRefusedWithAReason) {
    const auto expect_refusal = [](const Status & status, const std::string & part) {
        EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
        EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    };
    const auto plain = testing::tiny_model(tiny_spec());
    ASSERT_TRUE(plain.ok());
    for (const char * policy : {"gated", "gate"}) {
        expect_refusal(plain->session(options_of(policy, 20)).status(),
                       "policy '" + std::string(policy) + "' needs gates: gate_file FILE, made by `pith train gate`");
    }
    SessionOptions observes = options_of("full");
    observes.observe = {"gate"};
    expect_refusal(plain->session(observes).status(), "policy 'gate' needs gates");

    const Model model = model_with(even_gate());
    const auto tokens = random_tokens(60, model.info().n_vocab);
    SessionOptions chunked = options_of("gated");
    chunked.prefill = PrefillSchedule::kChunked;
    expect_refusal(model.session(chunked)->prefill(tokens), "use causal gates");
    chunked = options_of("gate", 20);
    chunked.prefill = PrefillSchedule::kChunked;
    expect_refusal(model.session(chunked)->prefill(tokens), "use causal gates");
    expect_refusal(model.session(options_of("gated", 20))->prefill(tokens), "gated+snapkv");
    auto full = *model.session(options_of("full"));
    ASSERT_TRUE(full.prefill(tokens).ok());
    expect_refusal(full.evict("gated+snapkv", 20), "make a session with this policy");
    expect_refusal(GateProbe(*std::make_unique<Session>(*plain->session(options_of("full")))).watch(), "has no gates");

    // Of another model: the number that differs is named.
    const std::string other = testing::scratch_file("other.gguf");
    ASSERT_TRUE(write_random_model(tiny_spec(4, 4), other).ok());
    ASSERT_TRUE(write_random_model(tiny_spec(4, 2), testing::scratch_file("this.gguf")).ok());
    const auto made_for = Model::load(testing::scratch_file("this.gguf"));
    const RandomGate gate(even_gate(), file_of(*made_for).hparams());
    const std::string gate_path = testing::scratch_file("this.gate.gguf");
    ASSERT_TRUE(save_gate(gate_path, even_gate(), gate.weights, {}, file_of(*made_for)).ok());
    ModelOptions options;
    options.gate_file = gate_path;
    expect_refusal(Model::load(other, options).status(), "was made for another model: its n_kv_heads is 2");
}

TEST(GateProbe, ShowsTheAttentionOfAGateAsRowsThatSumToOne) {
    for (const bool causal : {false, true}) {
        GateConfig config = even_gate();
        config.causal = causal;
        const Model model = model_with(config);
        const auto tokens = random_tokens(40, model.info().n_vocab);
        auto session = *model.session(options_of("full"));
        GateProbe probe(session);
        ASSERT_TRUE(probe.watch(1).ok());
        ASSERT_TRUE(session.prefill(tokens).ok());
        ASSERT_EQ(probe.layers().size(), 3U);
        EXPECT_EQ(probe.layers()[2].probability.size(), 40U * 2U);
        const auto map = probe.attention_map();
        ASSERT_EQ(map.size(), 2U * 40U * 40U);
        for (size_t row = 0; row < 80; ++row) {
            double sum = 0;
            for (size_t key = 0; key < 40; ++key) {
                sum += map[row * 40 + key];
                if (causal && key > row % 40) { EXPECT_EQ(map[row * 40 + key], 0.0F); }
            }
            EXPECT_NEAR(sum, 1.0, 1e-5);
        }
        EXPECT_EQ(session.ledger().kept_entries, 40 * 6) << "looking hides nothing";
    }
}

// An engine sets an answer aside with what its gates remember.
TEST(GatedEngine, AnswersAreSetAsideAndComeBackToTheBit) {
    for (const GateKind kind : {GateKind::kAttention, GateKind::kLinear}) {
        GateConfig gate = even_gate();
        gate.kind = kind;
        gate.causal = true;
        gate.n_recent = 6;
        const auto model = gated_model(tiny_spec(), gate);
        ASSERT_TRUE(model.ok()) << model.status().message();
        Request request;
        request.tokens = random_tokens(kPrompt, model->info().n_vocab);
        request.options = options_of("gated+h2o:recent=6", Budget(48));
        request.max_tokens = 40;
        testing::expect_unchanged_when_set_aside(*model, request);
    }
}

}  // namespace
}  // namespace pith::gated_session_test
