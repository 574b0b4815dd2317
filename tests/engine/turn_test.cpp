// turn_test.cpp - tokens past the length that a model was trained on: kept keys turn to places side by side, and what attention
// sees is what a slow forward pass sees that rotates every key anew by where it stands.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "engine/layer_probe.h"
#include "engine/mask_oracle.h"
#include "engine/session_state.h"
#include "engine/tiny_session.h"
#include "model/architecture_files.h"
#include "model/architectures.h"
#include "pith/batch_engine.h"

namespace pith::turn_test {
namespace {

using testing::lanes_of;
using testing::plain_logits;
using testing::random_tokens;
using testing::relative_error;
using testing::tiny_model;
using testing::tiny_options;
using testing::tiny_spec;

constexpr int kTrained = 96;
constexpr int kTokens = 260;
constexpr int kPrompt = 70;
constexpr int kBudget = 40;
constexpr int kCall = 5;  // tokens of a call behind the prompt

// What stood where when tokens were read: [layer][KV head] entry → how far it was in front of the token at its place.
class Stands {
public:
    void look(Session & session, int n_to_come) {
        const LayerProbe probe(session);
        const RaggedCache & cache = probe.cache();
        for (int t = 0; t < n_to_come; ++t) {
            const auto query = static_cast<int32_t>(session.n_tokens()) + t;
            for (int l = 0; l < session.n_layers(); ++l) {
                for (int h = 0; h < cache.n_kv_heads(l); ++h) {
                    const int lane = cache.lane(0, l, h);
                    const auto standing = cache.standing(lane);
                    for (int i = 0; i < cache.length(lane); ++i) {
                        const int back = query - cache.shift() - standing[static_cast<size_t>(i)];
                        back_[{l, h, query, cache.positions(lane)[static_cast<size_t>(i)]}] = back;
                    }
                    for (int32_t own = static_cast<int32_t>(session.n_tokens()); own <= query; ++own) {
                        back_[{l, h, query, own}] = query - own;
                    }
                }
            }
        }
    }
    // How far in front of the query; -1: it was gone.
    int back(int layer, int kv_head, int query, int key) const {
        if (query < kPrompt) { return query - key; }
        const auto it = back_.find({layer, kv_head, query, key});
        return it == back_.end() ? -1 : it->second;
    }
    bool any_turned() const {
        return std::ranges::any_of(back_, [](const auto & one) {
            const auto & [layer, head, query, key] = one.first;
            return one.second != query - key;
        });
    }

private:
    std::map<std::tuple<int, int, int32_t, int32_t>, int> back_;
};

// One query head over one key, both before RoPE: the key rotated back by how far it stands in front. `halves`: which elements
// make a pair.
double product(const float * q, const float * k, int d, int back, double base, bool halves) {
    double sum = 0;
    for (int i = 0; i < d / 2; ++i) {
        const int a = halves ? i : 2 * i;
        const int b = halves ? i + d / 2 : 2 * i + 1;
        const double angle = -back * std::pow(base, -2.0 * i / d);
        const double turned_a = k[a] * std::cos(angle) - k[b] * std::sin(angle);
        const double turned_b = k[a] * std::sin(angle) + k[b] * std::cos(angle);
        sum += q[a] * turned_a + q[b] * turned_b;
    }
    return sum;
}

// What a custom operation of the oracle's graph needs.
struct SlowAttention {
    const Stands * stands = nullptr;
    const Hparams * hparams = nullptr;
    int layer = 0;
};

void attend_slowly(ggml_tensor * out, int ith, int /*n_threads*/, void * userdata) {
    if (ith != 0) { return; }
    const auto & of = *static_cast<const SlowAttention *>(userdata);
    const ggml_tensor * q = out->src[0];
    const ggml_tensor * k = out->src[1];
    const ggml_tensor * v = out->src[2];
    const auto d = static_cast<int>(q->ne[0]);
    const auto n = static_cast<int>(q->ne[2]);
    const int n_group = of.hparams->n_heads / of.hparams->n_kv_heads;
    const auto row = [](const ggml_tensor * x, int head, int token) {
        return reinterpret_cast<const float *>(static_cast<const char *>(x->data) + static_cast<size_t>(head) * x->nb[1] +
                                               static_cast<size_t>(token) * x->nb[2]);
    };
    for (int head = 0; head < of.hparams->n_heads; ++head) {
        const int kv_head = head / n_group;
        for (int query = 0; query < n; ++query) {
            std::vector<double> scores;
            std::vector<int> keys;
            for (int key = 0; key <= query; ++key) {
                const int back = of.stands->back(of.layer, kv_head, query, key);
                if (back < 0) { continue; }
                keys.push_back(key);
                scores.push_back(of.hparams->attention_scale * product(row(q, head, query), row(k, kv_head, key), d, back,
                                                                       of.hparams->rope_base,
                                                                       of.hparams->form.rope == RopeKind::kHalves));
            }
            const double most = *std::ranges::max_element(scores);
            double sum = 0;
            for (double & score : scores) { sum += score = std::exp(score - most); }
            float * to = static_cast<float *>(out->data) + (static_cast<size_t>(query) * of.hparams->n_heads + head) * d;
            std::fill_n(to, d, 0.0F);
            for (size_t i = 0; i < keys.size(); ++i) {
                for (int c = 0; c < d; ++c) { to[c] += static_cast<float>(scores[i] / sum * row(v, kv_head, keys[i])[c]); }
            }
        }
    }
}

// Logits of every position from kPrompt on, by one graph over all tokens at position 0, in which RoPE turns nothing.
std::vector<float> slow_logits(const ModelFile & model, const std::vector<int32_t> & tokens, const Stands & stands) {
    constexpr size_t kMostNodes = 4096;
    const Hparams & hp = model.hparams();
    const auto n = std::ssize(tokens);
    auto backend = make_cpu_backend(1);
    EXPECT_TRUE(backend.ok());
    ggml_context * ctx =
        ggml_init({kMostNodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(kMostNodes, false), nullptr, true});
    ggml_cgraph * graph = ggml_new_graph_custom(ctx, kMostNodes, false);
    ggml_tensor * token_input = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, n);
    ggml_tensor * positions = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, n);
    ggml_set_input(token_input);
    ggml_set_input(positions);
    std::vector<SlowAttention> layers;
    for (int layer = 0; layer < hp.n_layers; ++layer) { layers.push_back({&stands, &hp, layer}); }
    const AttentionFn attention = [&](ggml_context * c, ggml_cgraph *, int layer, ggml_tensor * q, ggml_tensor * k,
                                      ggml_tensor * v) {
        ggml_tensor * args[] = {q, k, v};
        return ggml_custom_4d(c, GGML_TYPE_F32, q->ne[0] * q->ne[1], q->ne[2], 1, 1, args, 3, attend_slowly, 1,
                              &layers[static_cast<size_t>(layer)]);
    };
    ggml_tensor * hidden = build_embedding(ctx, hp, model.weights(), token_input);
    for (int layer = 0; layer < hp.n_layers; ++layer) {
        hidden = build_layer(ctx, graph, hp, model.weights(), layer, hidden, positions, attention);
    }
    ggml_tensor * logits = build_head(ctx, hp, model.weights(), hidden);
    ggml_set_output(logits);
    ggml_build_forward_expand(graph, logits);
    ggml_gallocr_t allocator = ggml_gallocr_new(ggml_backend_get_default_buffer_type(*backend));
    std::vector<float> result;
    if (ggml_gallocr_alloc_graph(allocator, graph)) {
        const std::vector<int32_t> zeros(tokens.size(), 0);
        ggml_backend_tensor_set(token_input, tokens.data(), 0, ggml_nbytes(token_input));
        ggml_backend_tensor_set(positions, zeros.data(), 0, ggml_nbytes(positions));
        EXPECT_EQ(ggml_backend_graph_compute(*backend, graph), GGML_STATUS_SUCCESS);
        result.resize(static_cast<size_t>((n - kPrompt) * hp.n_vocab));
        ggml_backend_tensor_get(logits, result.data(), static_cast<size_t>(kPrompt) * logits->nb[1],
                                result.size() * sizeof(float));
    }
    ggml_gallocr_free(allocator);
    ggml_free(ctx);
    ggml_backend_free(*backend);
    return result;
}

Model model_of(const std::string & arch) {
    RandomModelSpec spec = tiny_spec();
    spec.arch = arch;
    spec.n_ctx_train = kTrained;
    return tiny_model(spec).value();
}

struct TurnCase {
    std::string name;
    std::string arch;
    std::string policy;
    KvType type = KvType::kF32;
    double most = 1e-5;
};
void PrintTo(const TurnCase & c, std::ostream * out) {
    *out << c.name;
}

class Turn : public ::testing::TestWithParam<TurnCase> {};

// Single tokens and calls of several, in turns.
TEST_P(Turn, AttentionSeesWhatARecomputeSeesOfTheKeysWhereTheyStand) {
    const Model model = model_of(GetParam().arch);
    SessionOptions options = tiny_options(GetParam().policy, kBudget, PrefillSchedule::kOneShot, 16);
    options.type_k = options.type_v = GetParam().type;
    options.evict_every = 6;
    auto session = model.session(options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const auto tokens = random_tokens(kTokens, model.info().n_vocab);
    std::vector<float> logits;
    RunHooks hooks;
    hooks.on_logits = [&](int64_t, std::span<const float> row) { logits.insert(logits.end(), row.begin(), row.end()); };
    Stands stands;
    ASSERT_TRUE(session->prefill(std::span(tokens).first(kPrompt)).ok());
    for (int i = kPrompt; i < kTokens;) {
        const int n = i % 3 == 0 ? std::min(kCall, kTokens - i) : 1;
        // A turn in the middle of a call would come between what is looked at here and its tokens.
        const LayerProbe probe(*session);
        const int room = kTrained - (i - probe.cache().shift());
        const int m = std::min(n, room);
        ASSERT_GT(m, 0);
        stands.look(*session, m);
        const auto piece = std::span(tokens).subspan(static_cast<size_t>(i), static_cast<size_t>(m));
        const Status status = m == 1 ? session->append(piece[0]) : session->prefill(piece, hooks);
        ASSERT_TRUE(status.ok()) << status.message();
        if (m == 1) { logits.insert(logits.end(), session->logits().begin(), session->logits().end()); }
        i += m;
    }
    EXPECT_GE(session->ledger().n_context_shifts, 2);
    EXPECT_TRUE(stands.any_turned());
    EXPECT_LE(relative_error(logits, slow_logits(file_of(model), tokens, stands)), GetParam().most);
}

INSTANTIATE_TEST_SUITE_P(All, Turn,
                         ::testing::Values(TurnCase{"streaming", "llama", "streaming"},
                                           TurnCase{"snapkv", "llama", "snapkv:window=8"},
                                           TurnCase{"h2o", "llama", "h2o:recent=8"},
                                           TurnCase{"ada_halves", "qwen2", "tova:recent=8+ada"},
                                           TurnCase{"uneven", "llama", "snapkv:window=8+global"},
                                           TurnCase{"f16", "llama", "snapkv:window=8", KvType::kF16, 5e-3},
                                           TurnCase{"q8_0", "qwen2", "snapkv:window=8", KvType::kQ8_0, 3e-2}),
                         [](const auto & one) { return one.param.name; });

// However a text is cut into calls, keys turn at the same positions, and to the same places.
TEST(TurnCalls, KeysTurnAtTheSamePositionsHoweverATextIsCut) {
    const Model model = model_of("llama");
    const auto tokens = random_tokens(kTokens, model.info().n_vocab);
    for (const char * policy : {"streaming", "snapkv:window=8+ada", "h2o:recent=8"}) {
        SCOPED_TRACE(policy);
        SessionOptions options = tiny_options(policy, kBudget, PrefillSchedule::kChunked, 16);
        options.grid = 24;
        std::vector<std::vector<std::vector<int32_t>>> places;
        for (const size_t size : {size_t{1}, size_t{7}, tokens.size()}) {
            Session session = model.session(options).value();
            for (size_t i = 0; i < tokens.size(); i += size) {
                const auto piece = std::span(tokens).subspan(i, std::min(size, tokens.size() - i));
                ASSERT_TRUE((piece.size() == 1 && i > 0 ? session.append(piece[0]) : session.prefill(piece)).ok());
            }
            EXPECT_GE(session.ledger().n_context_shifts, 2);
            const LayerProbe probe(session);
            auto & of = places.emplace_back();
            for (int i = 0; i < probe.cache().n_lanes(); ++i) { of.push_back(probe.cache().standing(i)); }
            of.push_back({probe.cache().shift()});
        }
        EXPECT_EQ(places[0], places[1]);
        EXPECT_EQ(places[0], places[2]);
    }
}

// With the switch off nothing turns; nor does anything where nothing is evicted, or where lanes leave no room to turn to.
TEST(TurnCalls, NothingTurnsWhereItMustNotOrCannot) {
    const Model model = model_of("llama");
    const auto tokens = random_tokens(kTokens, model.info().n_vocab);
    SessionOptions off = tiny_options("streaming", kBudget, PrefillSchedule::kChunked, 16);
    off.context_shift = false;
    const SessionOptions full = tiny_options("full", 0, PrefillSchedule::kChunked, 16);
    const SessionOptions wide = tiny_options("streaming", kTrained, PrefillSchedule::kChunked, 16);
    for (const SessionOptions & options : {off, full, wide}) {
        Session session = model.session(options).value();
        ASSERT_TRUE(session.prefill(tokens).ok());
        EXPECT_EQ(session.ledger().n_context_shifts, 0);
        EXPECT_EQ(LayerProbe(session).cache().shift(), 0);
    }
}

// Lanes that an allocator gives far more than the mean are brought down to what a turn needs, before it; others get the rest.
TEST(TurnCalls, ALaneTakesNoMoreThanATurnLeavesRoomFor) {
    const Model model = model_of("llama");
    SessionOptions options = tiny_options("snapkv:window=8+head:by=copy", 60, PrefillSchedule::kChunked, 8);
    options.evict_every = 4;
    auto heads = std::make_shared<HeadImportance>();
    for (int i = 0; i < 12; ++i) {
        heads->copy.push_back(i < 2 ? 1.0 : 0.0);  // the first lane's
        heads->reason.push_back(0.0);
    }
    options.heads = std::move(heads);
    Session session = model.session(options).value();
    const auto tokens = random_tokens(kTokens, model.info().n_vocab);
    ASSERT_TRUE(session.prefill(std::span(tokens).first(80)).ok());
    EXPECT_GE(session.lane_positions(0, 0).size(), 75U) << "it keeps all there is";
    for (int i = 80; i < kTokens; ++i) { ASSERT_TRUE(session.append(tokens[static_cast<size_t>(i)]).ok()); }
    EXPECT_GE(session.ledger().n_context_shifts, 2);
    EXPECT_LE(session.lane_positions(0, 0).size(), static_cast<size_t>(kTrained - 1));
    EXPECT_GE(session.ledger().kept_entries, 60 * 6) << "what it must leave, others keep";
}

// A row turned by so many places is the row of the place it comes to.
void expect_turns_as_it_rotates(const Model & model) {
    const ModelFile & file = file_of(model);
    const Hparams & hp = file.hparams();
    if (hp.query_temperature != 0.0F) { return; }  // heats queries by their place, and keys not
    auto backend = make_cpu_backend(1);
    ASSERT_TRUE(backend.ok());
    for (int layer = 0; layer < hp.n_layers; ++layer) {
        if (!hp.layer(layer).has_keys() || !hp.layer(layer).rotates) { continue; }
        const int d = hp.head_dim_of(layer);
        std::vector<float> x(static_cast<size_t>(d));
        for (int i = 0; i < d; ++i) { x[static_cast<size_t>(i)] = std::sin(0.7F * static_cast<float>(i) + 0.3F); }
        const int32_t from = 61;
        const int32_t by = -44;
        const int32_t to = from + by;
        std::vector<float> turned(x.size());
        std::vector<float> expected(x.size());
        GraphRunner runner(*backend);
        GraphBuild * build = runner.begin(64).value();
        ggml_context * ctx = build->ctx();
        const auto rotated = [&](const int32_t & place) {
            ggml_tensor * q = build->input(GGML_TYPE_F32, d, 1, static_cast<const float *>(x.data()));
            q = build_query_rotation(ctx, hp, file.weights(), layer, ggml_reshape_3d(ctx, q, d, 1, 1),
                                     build->input(GGML_TYPE_I32, 1, 1, &place));
            const bool weighs = hp.form.qk_norm == QkNorm::kPerHeadRotated;
            return weighs ? ggml_mul(ctx, q, file.weights().layers[static_cast<size_t>(layer)].q_norm) : q;
        };
        build->output(build_turn(ctx, hp, file.weights(), layer, rotated(from), build->input(GGML_TYPE_I32, 1, 1, &by),
                                 /*keys=*/false),
                      turned.data());
        build->output(rotated(to), expected.data());
        ASSERT_TRUE(runner.run().ok());
        for (size_t i = 0; i < x.size(); ++i) { EXPECT_NEAR(turned[i], expected[i], 2e-5F) << "layer " << layer << ", " << i; }
    }
    ggml_backend_free(*backend);
}

// In every architecture, with its frequencies and scalings.
TEST(TurnedRows, AQueryTurnedIsTheQueryOfThePlaceItComesTo) {
    for (const auto & one : testing::architecture_cases()) {
        SCOPED_TRACE(one.name);
        const auto model = tiny_model(one.spec);
        ASSERT_TRUE(model.ok()) << model.status().message();
        expect_turns_as_it_rotates(*model);
    }
    const std::string path = testing::scratch_file("turned.gguf");
    for (const auto & one : testing::architecture_files()) {
        SCOPED_TRACE(one.name);
        ASSERT_TRUE(testing::write_architecture_file(one, path));
        const auto model = Model::load(path, {});
        ASSERT_TRUE(model.ok()) << model.status().message();
        expect_turns_as_it_rotates(*model);
    }
}

}  // namespace
}  // namespace pith::turn_test
