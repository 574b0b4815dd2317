// inspect_test.cpp - an inspection says what a pass without any cache says, for every policy of the registry.
#include "inspect/inspect.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "engine/parts/model_parts.h"
#include "engine/policy_probe.h"
#include "engine/probe/policy_cases.h"
#include "engine/tiny_model.h"
#include "model/model_file.h"
#include "model/plain_attention.h"
#include "policy/own_scorer.h"
#include "policy/select/protection.h"

namespace pith::inspect_test {
namespace {

using testing::PlainAttention;
using testing::random_tokens;
using testing::tiny_model;
using testing::tiny_spec;

constexpr int kTokens = 140;

// What the newest token left in every layer, by one graph over the whole sequence.
struct PlainStep {
    std::vector<std::vector<float>> attention;  // [layer] [H·dv]; empty without attention
    std::vector<std::vector<float>> hidden;     // [layer] [D]
};

PlainStep plain_step(const ModelFile & model, const std::vector<int32_t> & tokens, testing::MaskFn mask) {
    constexpr size_t kMaxNodes = 16384;
    const Hparams & hp = model.hparams();
    const auto n = static_cast<int64_t>(tokens.size());
    auto backend = make_cpu_backend(1);
    EXPECT_TRUE(backend.ok());
    ggml_context * ctx =
        ggml_init({kMaxNodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(kMaxNodes, false), nullptr, true});
    ggml_cgraph * graph = ggml_new_graph_custom(ctx, kMaxNodes, false);
    ggml_tensor * token_input = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, n);
    ggml_tensor * positions = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, n);
    ggml_set_input(token_input);
    ggml_set_input(positions);
    PlainAttention attention(hp, std::move(mask));
    const AttentionFn inner = attention.function();
    std::vector<ggml_tensor *> attended(static_cast<size_t>(hp.n_layers), nullptr);
    std::vector<ggml_tensor *> states;
    const AttentionFn outer = [&](ggml_context * c, ggml_cgraph * g, int layer, ggml_tensor * q, ggml_tensor * k,
                                  ggml_tensor * v) {
        ggml_tensor * out = inner(c, g, layer, q, k, v);
        ggml_set_output(out);
        return attended[static_cast<size_t>(layer)] = out;
    };
    ggml_tensor * hidden = build_embedding(ctx, hp, model.weights(), token_input);
    for (int layer = 0; layer < hp.n_layers; ++layer) {
        hidden = build_layer(ctx, graph, hp, model.weights(), layer, hidden, positions, outer);
        ggml_set_output(hidden);
        states.push_back(hidden);
        ggml_build_forward_expand(graph, hidden);
    }
    ggml_gallocr_t allocator = ggml_gallocr_new(ggml_backend_get_default_buffer_type(*backend));
    EXPECT_TRUE(ggml_gallocr_alloc_graph(allocator, graph));
    std::vector<int32_t> position_values(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) { position_values[i] = static_cast<int32_t>(i); }
    ggml_backend_tensor_set(token_input, tokens.data(), 0, ggml_nbytes(token_input));
    ggml_backend_tensor_set(positions, position_values.data(), 0, ggml_nbytes(positions));
    attention.fill();
    EXPECT_EQ(ggml_backend_graph_compute(*backend, graph), GGML_STATUS_SUCCESS);
    const auto newest = [](ggml_tensor * tensor) {
        std::vector<float> row(static_cast<size_t>(tensor->ne[0]));
        ggml_backend_tensor_get(tensor, row.data(), static_cast<size_t>(tensor->ne[1] - 1) * tensor->nb[1],
                                row.size() * sizeof(float));
        return row;
    };
    PlainStep step;
    for (ggml_tensor * tensor : attended) {
        step.attention.push_back(tensor == nullptr ? std::vector<float>() : newest(tensor));
    }
    for (ggml_tensor * tensor : states) { step.hidden.push_back(newest(tensor)); }
    ggml_gallocr_free(allocator);
    ggml_free(ctx);
    ggml_backend_free(*backend);
    return step;
}

std::shared_ptr<const HeadImportance> random_heads(const ModelInfo & info) {
    auto heads = std::make_shared<HeadImportance>();
    std::mt19937 random(4);
    for (int i = 0; i < info.n_layers * info.n_heads; ++i) {
        heads->copy.push_back(static_cast<double>(random() % 1000) / 1000);
        heads->reason.push_back(static_cast<double>(random() % 1000) / 1000);
    }
    return heads;
}

// All that evict.
std::vector<PolicyChoice> evicting_policies() {
    std::vector<PolicyChoice> policies = all_policies(true);
    std::erase(policies, PolicyChoice("full"));
    return policies;
}

class Inspect : public ::testing::Test {
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
    static std::vector<int32_t> tokens() { return random_tokens(kTokens, model_->info().n_vocab, 5); }
    static InspectOptions options(std::vector<PolicyChoice> policies, std::vector<Budget> budgets) {
        InspectOptions options;
        options.policies = std::move(policies);
        options.budgets = std::move(budgets);
        options.n_threads = 1;
        options.chunk = 64;
        options.heads = random_heads(model_->info());
        return options;
    }
    static Inspection run(const InspectOptions & options) {
        auto inspection = inspect(*model_, tokens(), options);
        EXPECT_TRUE(inspection.ok()) << inspection.status().message();
        return inspection.ok() ? std::move(*inspection) : Inspection{};
    }
    static Model * model_;
};

Model * Inspect::model_ = nullptr;

TEST_F(Inspect, FindsNoDifferenceWhereTheBudgetHoldsEverything) {
    const Inspection inspection = run(options(evicting_policies(), {kTokens, Budget(BudgetKind::kPercent, 100)}));
    ASSERT_EQ(inspection.cases.size(), 2 * evicting_policies().size());
    for (const InspectCase & one : inspection.cases) {
        ASSERT_EQ(one.refused, "") << one.policy;
        for (const HeadFidelity & head : one.heads) {
            EXPECT_EQ(head.perturbation, 0) << one.policy;
            EXPECT_EQ(head.output_error, 0) << one.policy;
            EXPECT_NEAR(head.mass, 1, 1e-5) << one.policy;
        }
        for (const LayerFidelity & layer : one.layers) {
            EXPECT_NEAR(layer.cosine, 1, 1e-12) << one.policy;
            EXPECT_EQ(layer.hidden_error, 0) << one.policy;
        }
        EXPECT_EQ(one.logit_error, 0) << one.policy;
        EXPECT_TRUE(one.same_choice) << one.policy;
    }
    for (const InspectPair & pair : inspection.pairs) {
        for (const double overlap : pair.jaccard) { EXPECT_EQ(overlap, 1) << pair.first << ", " << pair.second; }
    }
}

TEST_F(Inspect, KeptEntriesAddUpToTheBudget) {
    const Inspection inspection = run(options(evicting_policies(), {48, 40}));
    size_t n_held = 0;
    for (const InspectCase & one : inspection.cases) {
        if (!one.refused.empty()) { continue; }
        ++n_held;
        size_t n_kept = 0;
        for (const Ragged<int32_t> & layer : one.kept) { n_kept += layer.size(); }
        EXPECT_EQ(n_kept, static_cast<size_t>(one.budget_entries) * 3 * 2) << one.policy << " " << one.budget;
        EXPECT_EQ(one.budget_entries, std::stoll(one.budget));
        EXPECT_NEAR(means_of(one).kept, static_cast<double>(one.budget_entries), 1e-9) << one.policy;
    }
    EXPECT_GT(n_held, evicting_policies().size());
}

// Perturbation, cosine and hidden-state error again: plain attention with the evicted entries masked, W_O by its rows, in f64.
void expect_as_without_a_cache(const Model & model, const Inspection & inspection, std::vector<int32_t> all) {
    all.push_back(inspection.next_token);
    const PlainStep full = plain_step(file_of(model), all, {});
    const auto n_heads = static_cast<size_t>(inspection.shape.n_heads());
    for (const InspectCase & one : inspection.cases) {
        const PlainStep evicted = plain_step(file_of(model), all, [&](int layer, int head, int query, int key) {
            const auto at = std::ranges::find(inspection.layer_numbers, layer);
            if (at == inspection.layer_numbers.end()) { return 0.0F; }  // no policy evicts there
            const auto & kept = one.kept[static_cast<size_t>(at - inspection.layer_numbers.begin())];
            const auto n_seen = static_cast<int>(inspection.n_tokens);  // what comes later sees itself
            return query < n_seen || key >= n_seen || std::ranges::binary_search(kept.row(head / inspection.shape.n_group), key)
                       ? 0.0F
                       : -INFINITY;
        });
        for (size_t i = 0; i < one.layers.size(); ++i) {
            const int layer = inspection.layer_numbers[i];
            const auto l = static_cast<size_t>(layer);
            const auto rows = file_of(model).read_output_projection(layer);  // [D][H·dv]
            ASSERT_TRUE(rows.ok());
            const size_t wide = full.attention[l].size();
            const size_t width = full.hidden[l].size();
            const size_t dv = wide / n_heads;
            std::vector<double> out(width, 0.0);
            std::vector<double> out_hat(width, 0.0);
            for (size_t g = 0; g < n_heads; ++g) {
                double perturbation = 0;
                double size = 0;
                double output_error = 0;
                for (size_t r = 0; r < width; ++r) {
                    double a = 0;
                    double b = 0;
                    for (size_t c = g * dv; c < (g + 1) * dv; ++c) {
                        const double w = (*rows)[r * wide + c];
                        a += w * full.attention[l][c];
                        b += w * evicted.attention[l][c];
                    }
                    perturbation += std::abs(a - b);
                    size += std::abs(a);
                    out[r] += a;
                    out_hat[r] += b;
                }
                for (size_t c = g * dv; c < (g + 1) * dv; ++c) {
                    output_error += std::abs(double{full.attention[l][c]} - double{evicted.attention[l][c]});
                }
                const HeadFidelity & head = one.heads[i * n_heads + g];
                EXPECT_NEAR(head.perturbation, perturbation, 1e-4 * size) << one.policy << ", layer " << l << ", head " << g;
                EXPECT_NEAR(head.relative_perturbation, perturbation / size, 1e-4) << one.policy;
                EXPECT_NEAR(head.output_error, output_error, 1e-4 * (1 + output_error)) << one.policy;
                EXPECT_GT(head.perturbation, 1e-3 * size) << one.policy << ": nothing changed, so nothing was compared";
            }
            double ab = 0;
            double aa = 0;
            double bb = 0;
            double difference = 0;
            double size = 0;
            for (size_t r = 0; r < width; ++r) {
                ab += out[r] * out_hat[r];
                aa += out[r] * out[r];
                bb += out_hat[r] * out_hat[r];
                difference += std::pow(double{full.hidden[l][r]} - double{evicted.hidden[l][r]}, 2);
                size += std::pow(double{full.hidden[l][r]}, 2);
            }
            EXPECT_NEAR(one.layers[i].cosine, ab / std::sqrt(aa * bb), 1e-4) << one.policy;
            EXPECT_NEAR(one.layers[i].hidden_error, std::sqrt(difference / size), 1e-4) << one.policy;
        }
    }
}

TEST_F(Inspect, AgreesWithAPassWithoutACache) {
    const Inspection inspection = run(options({"snapkv", "adakv", "random", "streaming"}, {48}));
    EXPECT_EQ(inspection.layer_numbers, (std::vector<int>{0, 1, 2}));
    expect_as_without_a_cache(*model_, inspection, tokens());
}

// The last tokens see what was kept without them, and each other; no policy saw them.
TEST_F(Inspect, WhatIsReadLaterChangesNothingThatIsKept) {
    constexpr int kLater = 9;
    InspectOptions known = options({"snapkv", "knorm", "h2o", "snapkv+critical"}, {48});
    InspectOptions later = known;
    later.n_later = kLater;
    const Inspection inspection = run(later);
    EXPECT_EQ(inspection.n_tokens, kTokens - kLater);
    EXPECT_EQ(inspection.tokens.size(), static_cast<size_t>(kTokens - kLater));
    expect_as_without_a_cache(*model_, inspection, tokens());
    std::vector<int32_t> context = tokens();
    context.resize(kTokens - kLater);
    const auto alone = inspect(*model_, context, known);
    ASSERT_TRUE(alone.ok()) << alone.status().message();
    for (size_t i = 0; i < inspection.cases.size(); ++i) {
        for (size_t l = 0; l < inspection.cases[i].kept.size(); ++l) {
            for (int h = 0; h < inspection.shape.n_kv_heads; ++h) {
                const auto a = inspection.cases[i].kept[l].row(h);
                const auto b = alone->cases[i].kept[l].row(h);
                EXPECT_TRUE(std::ranges::equal(a, b)) << inspection.cases[i].policy;
            }
        }
    }
    later.n_later = kTokens;
    EXPECT_EQ(inspect(*model_, tokens(), later).status().code(), ErrorCode::kInvalidArgument);
}

// Of models with windows and recurrent layers the layers that policies govern are looked at; the others run as ever.
TEST_F(Inspect, LooksAtTheLayersThatPoliciesGovern) {
    RandomModelSpec windows = tiny_spec();
    windows.arch = "gemma3";
    windows.n_layers = 7;
    windows.window = 24;
    windows.keys = {{"attention.sliding_window_pattern", 3U}};
    RandomModelSpec states = tiny_spec();
    states.arch = "lfm2";
    states.n_layers = 4;
    states.keys = {{"shortconv.l_cache", 3U}, {"attention.head_count_kv", RandomList<int32_t>{{0, 2}}}};
    for (const auto & [spec, numbers] :
         {std::pair{windows, std::vector<int>{2, 5}}, std::pair{states, std::vector<int>{1, 3}}}) {
        SCOPED_TRACE(spec.arch);
        const auto model = tiny_model(spec);
        ASSERT_TRUE(model.ok()) << model.status().message();
        InspectOptions looking = options({"snapkv", "laprox", "random"}, {48});
        looking.heads = nullptr;
        const auto inspection = inspect(*model, tokens(), looking);
        ASSERT_TRUE(inspection.ok()) << inspection.status().message();
        EXPECT_EQ(inspection->layer_numbers, numbers);
        EXPECT_EQ(inspection->n_model_layers, spec.n_layers);
        EXPECT_EQ(inspection->layers.size(), 2U);
        EXPECT_EQ(inspection->heads.size(), 2U * 4);
        expect_as_without_a_cache(*model, *inspection, tokens());
    }
}

// Mass and σ again, by plain loops over positions.
TEST_F(Inspect, MassAndSigmaAreTheLastQuerysAttention) {
    const Inspection inspection = run(options({"snapkv", "tova:recent=8", "h2o"}, {48}));
    SessionOptions session_options;
    session_options.observe = {"tova", "snapkv", "tova:recent=8", "h2o"};
    session_options.n_threads = 1;
    session_options.type_k = session_options.type_v = KvType::kF32;
    session_options.chunk = 64;
    auto session = model_->session(session_options);
    ASSERT_TRUE(session.ok());
    ASSERT_TRUE(session->prefill(tokens()).ok());
    PolicyProbe look(*session);
    for (const InspectCase & one : inspection.cases) {
        const auto policy = Policy::parse(one.policy);
        ASSERT_TRUE(policy.ok());
        for (int l = 0; l < inspection.shape.n_layers; ++l) {
            EvidenceNeeds last;
            last.last_query = true;
            const auto evidence = look.evidence(l, last);
            ASSERT_TRUE(evidence.ok()) << evidence.status().message();
            for (int g = 0; g < inspection.shape.n_heads(); ++g) {
                const int h = g / inspection.shape.n_group;
                const auto kept = one.kept[static_cast<size_t>(l)].row(h);
                // The head's own best, half as many as its lane keeps.
                const auto attention = evidence->last_query.row(g);
                std::vector<double> best(attention.begin(), attention.end());
                std::ranges::sort(best, std::greater<>());
                const double sigma = std::accumulate(best.begin(), best.begin() + std::ssize(kept) / 2, 0.0);
                double mass = 0;
                for (int32_t p = 0; p < kTokens; ++p) {
                    if (std::ranges::find(kept, p) != kept.end()) { mass += attention[static_cast<size_t>(p)]; }
                }
                const HeadFidelity & head = one.heads[static_cast<size_t>(l * inspection.shape.n_heads() + g)];
                EXPECT_NEAR(head.mass, mass, 1e-6) << one.policy;
                EXPECT_NEAR(head.sigma, sigma, 1e-6) << one.policy;
            }
        }
    }
}

TEST_F(Inspect, APolicyAgreesWithItselfAndDiffersFromAnother) {
    const Inspection inspection = run(options({"snapkv", "snapkv:window=32", "random"}, {48}));
    ASSERT_EQ(inspection.pairs.size(), 3U);
    for (size_t l = 0; l < 3; ++l) {
        EXPECT_NEAR(inspection.pairs[0].spearman[l], 1, 1e-12);
        EXPECT_EQ(inspection.pairs[0].jaccard[l], 1);
        EXPECT_LT(inspection.pairs[1].spearman[l], 0.5);
        EXPECT_LT(inspection.pairs[1].jaccard[l], 1);
        EXPECT_EQ(inspection.pairs[1].spearman[l], inspection.pairs[2].spearman[l]);
    }
}

TEST_F(Inspect, AScorerOfOnesOwnIsAPolicyAsAnyOther) {
    const test::RegisteredScorer own(test::own_window("my-window", 32));
    InspectOptions o = options({"snapkv:pool=none+ada", "my-window+ada"}, {48});
    o.keep_scores = true;
    const Inspection inspection = run(o);
    ASSERT_EQ(inspection.cases.size(), 2U);
    EXPECT_EQ(inspection.cases[1].policy, "my-window+ada");
    EXPECT_EQ(inspection.cases[1].kept, inspection.cases[0].kept);
    EXPECT_EQ(inspection.scores[1].base, inspection.scores[0].base);
    for (size_t l = 0; l < 3; ++l) { EXPECT_EQ(inspection.pairs[0].jaccard[l], 1); }
}

TEST_F(Inspect, DistancesOfHeadsAreThoseOfTheMatrix) {
    const Inspection inspection = run(options({"snapkv"}, {48}));
    const auto n_heads = static_cast<size_t>(inspection.shape.n_heads());
    const auto n_group = static_cast<size_t>(inspection.shape.n_group);
    const size_t n = inspection.heads.size();
    ASSERT_EQ(inspection.distance.size(), n * n);
    const auto mean_distance = [&](size_t a, size_t first, size_t last) {
        double sum = 0;
        for (size_t b = first; b < last; ++b) { sum += inspection.distance[a * n + b]; }
        return sum / static_cast<double>(last - first);
    };
    double followed = 0;
    for (size_t l = 0; l < inspection.layers.size(); ++l) {
        const LayerSummary & layer = inspection.layers[l];
        const size_t own = l * n_heads;
        const size_t before = l == 0 ? 0 : own - n_heads;
        double within = 0;
        double to_previous = 0;
        std::vector<double> of_head;
        for (size_t g = own; g < own + n_heads; ++g) {
            within += mean_distance(g, own, own + n_heads) / static_cast<double>(n_heads);
            to_previous += mean_distance(g, before, before + n_heads) / static_cast<double>(n_heads);
            of_head.push_back(mean_distance(g, before, own + n_heads));
            EXPECT_EQ(inspection.distance[g * n + own], inspection.distance[own * n + g]);
        }
        EXPECT_NEAR(layer.within, within, 1e-5);
        EXPECT_NEAR(layer.temporal, l == 0 ? within : std::abs(to_previous - followed), 1e-5);
        followed = l == 0 ? within : 0.5 * followed + 0.5 * to_previous;
        for (size_t h = 0; h < layer.head_distance.size(); ++h) {
            double mean = 0;
            for (size_t g = h * n_group; g < (h + 1) * n_group; ++g) { mean += of_head[g] / static_cast<double>(n_group); }
            EXPECT_NEAR(layer.head_distance[h], mean, 1e-5);
        }
    }
}

// The five distances again: all pairs of sampled rows, one by one, as the paper defines them.
TEST_F(Inspect, EveryDistanceIsTheMeanOverAllPairsOfQueries) {
    InspectOptions o = options({"snapkv"}, {48});
    EvidenceNeeds needs;
    needs.profile.distance = HeadDistance::kEuclidean;  // the rows themselves
    const auto row_distance = [](const std::string & by, std::span<const float> a, std::span<const float> b) {
        const auto n = static_cast<double>(a.size());
        double mean_a = 0, mean_b = 0;
        for (size_t j = 0; j < a.size() && by == "pearson"; ++j) {
            mean_a += a[j] / n;
            mean_b += b[j] / n;
        }
        double ab = 0, aa = 0, bb = 0, roots = 0, squares = 0, bits = 0;
        for (size_t j = 0; j < a.size(); ++j) {
            const double x = a[j], y = b[j];
            ab += (x - mean_a) * (y - mean_b);
            aa += (x - mean_a) * (x - mean_a);
            bb += (y - mean_b) * (y - mean_b);
            roots += std::sqrt(x * y);
            squares += (x - y) * (x - y);
            if (x > 0) { bits += x / 2 * std::log2(2 * x / (x + y)); }
            if (y > 0) { bits += y / 2 * std::log2(2 * y / (x + y)); }
        }
        if (by == "bc") { return 1 - roots; }
        if (by == "jsd") { return std::sqrt(std::max(bits, 0.0)); }
        return by == "l2" ? std::sqrt(squares) : 1 - ab / std::sqrt(aa * bb);
    };
    for (const std::string by : {"cos", "pearson", "bc", "jsd", "l2"}) {
        o.distance_by = by;
        const Inspection inspection = run(o);
        EXPECT_EQ(inspection.distance_by, by);
        SessionOptions session_options;
        const std::string k = by == "jsd" || by == "l2" ? ":k=64" : "";
        session_options.observe = {"snapkv+novelty:distance=l2" + k};
        session_options.n_threads = 1;
        session_options.type_k = session_options.type_v = KvType::kF32;
        session_options.chunk = 64;
        auto session = model_->session(session_options);
        ASSERT_TRUE(session.ok());
        ASSERT_TRUE(session->prefill(tokens()).ok());
        needs.profile.n_queries = k.empty() ? kDefaultProfileQueries : 64;
        PolicyProbe look(*session);
        std::vector<std::vector<std::vector<float>>> rows;  // [head][query]
        for (int l = 0; l < inspection.shape.n_layers; ++l) {
            const auto evidence = look.evidence(l, needs);
            ASSERT_TRUE(evidence.ok()) << evidence.status().message();
            for (int g = 0; g < inspection.shape.n_heads(); ++g) {
                rows.emplace_back();
                for (int i = 0; i < evidence->n_sampled; ++i) {
                    const auto row = evidence->sampled_rows.row(g * evidence->n_sampled + i);
                    rows.back().emplace_back(row.begin(), row.end());
                }
            }
        }
        const size_t n = inspection.heads.size();
        for (size_t g = 0; g < n; g += 3) {
            for (size_t o_head = 0; o_head < n; ++o_head) {
                double sum = 0;
                for (const auto & a : rows[g]) {
                    for (const auto & b : rows[o_head]) { sum += row_distance(by, a, b); }
                }
                const double mean = sum / static_cast<double>(rows[g].size() * rows[o_head].size());
                EXPECT_NEAR(inspection.distance[g * n + o_head], mean, 2e-4) << by << ": " << g << ", " << o_head;
                EXPECT_EQ(inspection.distance[g * n + o_head], inspection.distance[o_head * n + g]) << by;
            }
        }
    }
    o.distance_by = "euclid";
    EXPECT_EQ(inspect(*model_, tokens(), o).status().code(), ErrorCode::kInvalidArgument);
}

TEST_F(Inspect, SummariesOfTheFullCacheAreShares) {
    const Inspection inspection = run(options({"snapkv"}, {48}));
    ASSERT_EQ(inspection.heads.size(), 12U);
    for (const HeadSummary & head : inspection.heads) {
        EXPECT_GT(head.entropy, 0);
        EXPECT_LE(head.entropy, std::log(kTokens) + 1e-6);
        EXPECT_GT(head.strongest, 1.0 / kTokens);
        EXPECT_LE(head.sinks + head.recent, 1 + 1e-6);
    }
    for (const LayerSummary & layer : inspection.layers) {
        EXPECT_NEAR(layer.attention_mean, 1.0 / kTokens, 1e-6);  // every row of A sums to 1
        EXPECT_GT(layer.attention_max, layer.attention_mean);
        EXPECT_GT(layer.output_mean, 0);
        EXPECT_GT(layer.output_max, layer.output_mean);
        EXPECT_LE(std::abs(layer.attention_output_rank), 1);
    }
}

// Scores by position, as the policy's own parts give them; what is kept of a lane without protection is its best.
TEST_F(Inspect, ScoresExplainWhatIsKept) {
    InspectOptions o = options({"snapkv", "snapkv+caote"}, {48});
    EXPECT_TRUE(run(o).scores.empty());
    o.keep_scores = true;
    const Inspection inspection = run(o);
    EXPECT_EQ(inspection.tokens, tokens());
    ASSERT_EQ(inspection.scores.size(), 2U);
    EXPECT_FALSE(inspection.scores[0].has_refiner);
    EXPECT_EQ(inspection.scores[0].base, inspection.scores[0].refined);
    EXPECT_TRUE(inspection.scores[1].has_refiner);
    EXPECT_EQ(inspection.scores[1].base, inspection.scores[0].base);
    EXPECT_NE(inspection.scores[1].refined, inspection.scores[1].base);
    const auto policy = Policy::parse("snapkv");
    ASSERT_TRUE(policy.ok());
    const int first_recent = kTokens - policy->n_recent(48);
    for (int l = 0; l < inspection.shape.n_layers; ++l) {
        for (int h = 0; h < inspection.shape.n_kv_heads; ++h) {
            const auto scores = inspection.scores[0].refined[static_cast<size_t>(l)].row(h);
            const auto kept = inspection.cases[0].kept[static_cast<size_t>(l)].row(h);
            ASSERT_EQ(scores.size(), static_cast<size_t>(kTokens));
            float lowest_kept = INFINITY;
            float highest_evicted = -INFINITY;
            for (int32_t p = policy->n_sinks(); p < first_recent; ++p) {
                const float score = scores[static_cast<size_t>(p)];
                if (std::ranges::binary_search(kept, p)) {
                    lowest_kept = std::min(lowest_kept, score);
                } else {
                    highest_evicted = std::max(highest_evicted, score);
                }
            }
            EXPECT_GE(lowest_kept, highest_evicted) << "layer " << l << ", KV head " << h;
        }
    }
}

TEST_F(Inspect, PerplexityIsThatOfTheWholeTextWithTheFullCache) {
    const Inspection inspection = run(options({"snapkv"}, {48}));
    SessionOptions session_options;
    session_options.n_threads = 1;
    session_options.type_k = session_options.type_v = KvType::kF32;
    auto session = model_->session(session_options);
    ASSERT_TRUE(session.ok());
    const std::vector<int32_t> all = tokens();
    double loss = 0;
    for (size_t i = 0; i + 1 < all.size(); ++i) {
        ASSERT_TRUE((i == 0 ? session->prefill(std::span(all).first(1)) : session->append(all[i])).ok());
        const auto logits = session->logits();
        double sum = 0;
        for (const float z : logits) { sum += std::exp(double{z}); }
        loss += std::log(sum) - double{logits[static_cast<size_t>(all[i + 1])]};
    }
    EXPECT_NEAR(inspection.perplexity / std::exp(loss / static_cast<double>(all.size() - 1)), 1, 1e-3);
}

TEST_F(Inspect, CacheTypesAreThoseAskedFor) {
    InspectOptions o = options({"snapkv"}, {48});
    const Inspection exact = run(o);
    o.type_k = KvType::kBF16;
    const Inspection rounded_k = run(o);
    o.type_k = KvType::kF32;
    o.type_v = KvType::kBF16;
    const Inspection rounded_v = run(o);
    EXPECT_EQ(exact.type_k, KvType::kF32);
    EXPECT_EQ(rounded_k.type_k, KvType::kBF16);
    EXPECT_EQ(rounded_v.type_v, KvType::kBF16);
    // Rounded keys change the last query's attention in the first layer; rounded values only change what comes after it.
    EXPECT_NE(exact.heads[0].entropy, rounded_k.heads[0].entropy);
    EXPECT_NEAR(exact.heads[0].entropy, rounded_k.heads[0].entropy, 0.05);
    EXPECT_EQ(exact.heads[0].entropy, rounded_v.heads[0].entropy);
    EXPECT_NE(exact.heads.back().entropy, rounded_v.heads.back().entropy);
}

TEST_F(Inspect, SpreadsAreOverHeadsLanesAndLayers) {
    const Inspection inspection = run(options({"adakv"}, {48}));
    const InspectCase & one = inspection.cases[0];
    const CaseMeans means = means_of(one);
    const CaseSpreads spreads = spreads_of(one);
    EXPECT_NEAR(spreads.mass.mean, means.mass, 1e-12);
    EXPECT_NEAR(spreads.relative.mean, means.relative, 1e-12);
    EXPECT_NEAR(spreads.perturbation.mean, means.perturbation, 1e-9);
    EXPECT_NEAR(spreads.kept.mean, means.kept, 1e-9);
    EXPECT_EQ(spreads.kept.least, static_cast<double>(means.shortest));
    EXPECT_EQ(spreads.kept.largest, static_cast<double>(means.longest));
    EXPECT_NEAR(spreads.cosine.mean, means.cosine, 1e-12);
    EXPECT_EQ(spreads.cosine.least, means.lowest_cosine);
    EXPECT_GT(spreads.mass.deviation, 0);
}

TEST_F(Inspect, ABudgetThatAPolicyCannotHoldIsToldAndTheOthersGoOn) {
    const Inspection inspection = run(options({"snapkv", "random:recent=4"}, {16, 48}));
    ASSERT_EQ(inspection.cases.size(), 4U);
    EXPECT_NE(inspection.cases[0].refused.find("16"), std::string::npos) << inspection.cases[0].refused;
    EXPECT_EQ(inspection.cases[1].refused, "");
    EXPECT_EQ(inspection.cases[2].refused, "");
    EXPECT_EQ(inspection.pairs.size(), 1U);
    EXPECT_EQ(inspection.find("snapkv", "48"), &inspection.cases[2]);
    EXPECT_EQ(inspection.find("snapkv", "47"), nullptr);
}

TEST_F(Inspect, RefusesWhatCannotBeInspected) {
    const auto code = [&](const InspectOptions & o) { return inspect(*model_, tokens(), o).status().code(); };
    EXPECT_EQ(code(options({}, {48})), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code(options({"snapkv"}, {})), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code(options({"full"}, {48})), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code(options({"snapvk"}, {48})), ErrorCode::kInvalidArgument);
    const std::atomic<bool> cancel = true;
    InspectOptions cancelled = options({"snapkv"}, {48});
    cancelled.cancel = &cancel;
    EXPECT_EQ(code(cancelled), ErrorCode::kCancelled);
}

}  // namespace
}  // namespace pith::inspect_test
