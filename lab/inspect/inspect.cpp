// inspect.cpp - one full prefill, then every policy and budget on it.
#include "inspect/inspect.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "engine/generate_tokens.h"
#include "engine/layer_probe.h"
#include "engine/parts/model_parts.h"
#include "engine/policy_probe.h"
#include "engine/probe/likelihood.h"
#include "inspect/fidelity.h"
#include "policy/allocate/head_profiles.h"
#include "policy/allocate/row_distances.h"
#include "policy/named_policy.h"
#include "policy/policy.h"
#include "policy/score/scorer.h"
#include "policy/select/protection.h"

namespace pith {
namespace {

constexpr double kFirstStage = 0.5;  // α of σ
constexpr double kFollow = 0.5;      // γ of SCORE's temporal distance
constexpr double kLeastDistance = 1e-6;
constexpr int kWindow = 32;
constexpr int kQueriesOfPairs = 64;  // sampled, where every pair of them is compared

// What one token left in the layers, and what it foretold.
struct Step {
    std::vector<std::vector<float>> attention;  // [layer] [H·dv]
    std::vector<std::vector<float>> hidden;     // [layer] [D]
    std::vector<float> logits;
};

// One policy's scores over the full cache: the same for all budgets.
struct Scored {
    PolicyChoice choice;
    Policy policy;
    std::vector<Ragged<float>> base;     // [layer] of [K]
    std::vector<Ragged<float>> refined;  // the same after the refiner
};

class Inspector {
public:
    // numbers: of the layers that policies govern.
    Inspector(Session & session, const InspectOptions & options, std::vector<int> numbers)
        : session_(session), options_(options), look_(session, options.cancel), layers_(session) {
        out_.shape = layers_.shape();
        out_.n_model_layers = out_.shape.n_layers;
        out_.shape.n_layers = static_cast<int>(numbers.size());
        out_.layer_numbers = std::move(numbers);
    }

    Result<Inspection> run(std::span<const int32_t> prompt, const ProfileNeeds & profile) {
        const auto tokens = prompt.first(prompt.size() - static_cast<size_t>(options_.n_later));
        later_ = prompt.subspan(tokens.size());
        RunHooks hooks;
        hooks.cancel = options_.cancel;
        double loss = 0;
        hooks.on_logits = [&](int64_t position, std::span<const float> logits) {
            const auto next = static_cast<size_t>(position) + 1;
            if (next < tokens.size()) { loss += negative_log_likelihood(logits, tokens[next]); }
        };
        PITH_RETURN_IF_ERROR(session_.prefill(tokens, hooks));
        out_.type_k = options_.type_k;
        out_.type_v = options_.type_v;
        out_.tokens.assign(tokens.begin(), tokens.end());
        out_.n_tokens = session_.n_tokens();
        if (tokens.size() > 1) { out_.perplexity = std::exp(loss / static_cast<double>(tokens.size() - 1)); }
        PITH_RETURN_IF_ERROR(summarise_attention());
        PITH_RETURN_IF_ERROR(summarise_profiles(profile));
        for (const PolicyChoice & choice : options_.policies) { PITH_RETURN_IF_ERROR(score(choice)); }

        PITH_ASSIGN_OR_RETURN(const auto full, session_.snapshot());
        PITH_RETURN_IF_ERROR(read_later());
        out_.next_token = likeliest_token(session_.logits());
        PITH_ASSIGN_OR_RETURN(full_, step());
        PITH_RETURN_IF_ERROR(session_.restore(full));
        const int n_total = static_cast<int>(options_.policies.size() * options_.budgets.size());
        for (const Budget & budget : options_.budgets) {
            for (const Scored & scored : scored_) {
                if (options_.cancel != nullptr && options_.cancel->load()) { return {ErrorCode::kCancelled, "cancelled"}; }
                PITH_RETURN_IF_ERROR(add_case(scored, budget));
                PITH_RETURN_IF_ERROR(session_.restore(full));
                if (options_.progress) { options_.progress(static_cast<int>(out_.cases.size()), n_total); }
            }
            add_pairs(budget);
        }
        for (Scored & scored : scored_) {
            if (!options_.keep_scores) { break; }
            out_.scores.push_back(
                {scored.policy.name(), scored.policy.refiner() != nullptr, std::move(scored.base), std::move(scored.refined)});
        }
        return std::move(out_);
    }

private:
    Status summarise_attention() {
        EvidenceNeeds needs;
        needs.window = kWindow;
        needs.window_mean = true;
        needs.last_query = true;
        needs.output_l2 = true;
        for (int layer = 0; layer < out_.shape.n_layers; ++layer) {
            PITH_ASSIGN_OR_RETURN(LayerEvidence evidence, look_.evidence(out_.number_of(layer), needs));
            LayerSummary summary;
            mean_and_max(evidence.window_mean.flat(), summary.attention_mean, summary.attention_max);
            mean_and_max(evidence.output_l2.flat(), summary.output_mean, summary.output_max);
            for (int g = 0; g < out_.shape.n_heads(); ++g) {
                summary.attention_output_rank +=
                    spearman(evidence.window_mean.row(g), evidence.output_l2.row(g)) / out_.shape.n_heads();
            }
            out_.layers.push_back(std::move(summary));
            for (int g = 0; g < evidence.last_query.n_rows(); ++g) {
                out_.heads.push_back(summarise_head(evidence.last_query.row(g)));
            }
            last_query_.push_back(std::move(evidence.last_query));
            positions_.push_back(std::move(evidence.positions));
        }
        return {};
    }

    static void mean_and_max(std::span<const float> values, double & mean, double & max) {
        for (const float value : values) {
            mean += value / static_cast<double>(values.size());
            max = std::max(max, static_cast<double>(value));
        }
    }

    static HeadSummary summarise_head(std::span<const float> attention) {
        HeadSummary head;
        const size_t n = attention.size();
        for (size_t j = 0; j < n; ++j) {
            const double a = attention[j];
            if (a > 0) { head.entropy -= a * std::log(a); }
            head.strongest = std::max(head.strongest, a);
            if (j < 4) { head.sinks += a; }
            if (j + kWindow >= n) { head.recent += a; }
        }
        return head;
    }

    // SCORE's distances. The full lanes of all heads are equally long, so rows compare entry by entry.
    Status summarise_profiles(const ProfileNeeds & profile) {
        EvidenceNeeds needs;
        needs.profile = profile;
        run_tasks_ = layers_.run_tasks();
        HeadProfiles profiles(profile.distance);
        std::vector<std::vector<float>> rows;
        double followed = 0;
        for (int layer = 0; layer < out_.shape.n_layers; ++layer) {
            PITH_ASSIGN_OR_RETURN(const LayerEvidence evidence, look_.evidence(out_.number_of(layer), needs));
            LayerProfile distances;
            PITH_RETURN_IF_ERROR(profiles.add(evidence, distances, run_tasks_));
            LayerSummary & summary = out_.layers[static_cast<size_t>(layer)];
            summary.within = distances.within;
            summary.temporal = layer == 0 ? distances.within : std::abs(distances.to_previous - followed);
            followed = layer == 0 ? distances.within : kFollow * followed + (1 - kFollow) * distances.to_previous;
            summary.head_distance = distances.head_distance;
            for (int g = 0; g < evidence.profile.n_rows(); ++g) {
                rows.emplace_back(evidence.profile.row(g).begin(), evidence.profile.row(g).end());
            }
        }
        const size_t n = rows.size();
        out_.distance_by = options_.distance_by;
        out_.distance.resize(n * n);
        if (profile.wants_rows()) { return measure_rows(needs); }
        for (size_t a = 0; a < n; ++a) {
            for (size_t b = a; b < n; ++b) {
                double product = 0;
                for (size_t j = 0; j < rows[a].size(); ++j) {
                    product += static_cast<double>(rows[a][j]) * static_cast<double>(rows[b][j]);
                }
                out_.distance[a * n + b] = out_.distance[b * n + a] = std::max(kLeastDistance, 1 - product);
            }
        }
        return {};
    }

    // D by the sampled rows themselves. Those of two layers are held at a time: all of them would be as large as many caches.
    Status measure_rows(const EvidenceNeeds & needs) {
        const auto n_heads = static_cast<size_t>(out_.shape.n_heads());
        const size_t n = n_heads * static_cast<size_t>(out_.shape.n_layers);
        std::vector<double> means;  // [H][H]
        for (int a = 0; a < out_.shape.n_layers; ++a) {
            PITH_ASSIGN_OR_RETURN(const LayerEvidence first, look_.evidence(out_.number_of(a), needs));
            const SampledRows rows(first, needs.profile.distance);
            for (int b = a; b < out_.shape.n_layers; ++b) {
                if (options_.cancel != nullptr && options_.cancel->load()) { return {ErrorCode::kCancelled, "cancelled"}; }
                if (a == b) {
                    PITH_RETURN_IF_ERROR(mean_row_distances(rows, rows, needs.profile.distance, run_tasks_, means));
                } else {
                    PITH_ASSIGN_OR_RETURN(const LayerEvidence second, look_.evidence(out_.number_of(b), needs));
                    const SampledRows others(second, needs.profile.distance);
                    PITH_RETURN_IF_ERROR(mean_row_distances(rows, others, needs.profile.distance, run_tasks_, means));
                }
                for (size_t i = 0; i < n_heads * n_heads; ++i) {
                    const size_t g = static_cast<size_t>(a) * n_heads + i / n_heads;
                    const size_t o = static_cast<size_t>(b) * n_heads + i % n_heads;
                    out_.distance[g * n + o] = out_.distance[o * n + g] = std::max(kLeastDistance, means[i]);
                }
            }
        }
        return {};
    }

    Status score(const PolicyChoice & choice) {
        PITH_ASSIGN_OR_RETURN(const Policy policy, named_policy(choice));
        Scored scored{choice, policy, {}, {}};
        for (int layer = 0; layer < out_.shape.n_layers; ++layer) {
            PITH_ASSIGN_OR_RETURN(const LayerEvidence evidence, look_.evidence(out_.number_of(layer), policy.needs()));
            Ragged<float> base;
            PITH_RETURN_IF_ERROR(policy.scorer().score(evidence, base));
            PITH_ASSIGN_OR_RETURN(Ragged<float> refined, refined_scores(policy, evidence));
            scored.base.push_back(std::move(base));
            scored.refined.push_back(std::move(refined));
        }
        scored_.push_back(std::move(scored));
        return {};
    }

    Status read_later() {
        for (const int32_t token : later_) { PITH_RETURN_IF_ERROR(session_.append(token)); }
        return {};
    }

    // Feeds the next token and keeps what the layers made of it.
    Result<Step> step() {
        Step out;
        layers_.set_tap([this, &out](int layer, std::span<const float> attention, std::span<const float> hidden) {
            if (!std::ranges::binary_search(out_.layer_numbers, layer)) { return; }
            out.attention.emplace_back(attention.begin(), attention.end());
            out.hidden.emplace_back(hidden.begin(), hidden.end());
        });
        const Status status = session_.append(out_.next_token);
        layers_.set_tap({});
        PITH_RETURN_IF_ERROR(status);
        out.logits.assign(session_.logits().begin(), session_.logits().end());
        return out;
    }

    Status add_case(const Scored & scored, const Budget & budget) {
        InspectCase one;
        one.policy = scored.policy.name();
        one.budget = budget.to_string();
        if (const Status status = session_.evict(scored.choice, budget, options_.cancel); status.code() == ErrorCode::kBudget) {
            one.refused = status.message();
            out_.cases.push_back(std::move(one));
            return {};
        } else if (!status.ok()) {
            return status;
        }
        one.budget_entries = session_.ledger().budget_entries;
        for (int layer = 0; layer < out_.shape.n_layers; ++layer) {
            Ragged<int32_t> kept;
            for (int h = 0; h < out_.shape.n_kv_heads; ++h) {
                kept.push_row(session_.lane_positions(out_.number_of(layer), h));
            }
            one.kept.push_back(std::move(kept));
        }
        PITH_RETURN_IF_ERROR(read_later());
        PITH_ASSIGN_OR_RETURN(const Step evicted, step());
        for (int layer = 0; layer < out_.shape.n_layers; ++layer) {
            PITH_RETURN_IF_ERROR(compare_layer(layer, evicted, one));
            weigh_kept(layer, one);
        }
        one.logit_error = relative_error(full_.logits, evicted.logits);
        one.same_choice = likeliest_token(full_.logits) == likeliest_token(evicted.logits);
        out_.cases.push_back(std::move(one));
        return {};
    }

    // Perturbation, cosine and hidden-state error.
    Status compare_layer(int layer, const Step & evicted, InspectCase & one) {
        const auto l = static_cast<size_t>(layer);
        const std::span<const float> o = full_.attention[l];
        const std::span<const float> o_hat = evicted.attention[l];
        std::vector<float> projected;
        std::vector<float> projected_hat;
        PITH_RETURN_IF_ERROR(layers_.project_heads(out_.number_of(layer), o, projected));
        PITH_RETURN_IF_ERROR(layers_.project_heads(out_.number_of(layer), o_hat, projected_hat));
        const auto n_heads = static_cast<size_t>(out_.shape.n_heads());
        const size_t dv = o.size() / n_heads;
        const size_t width = projected.size() / n_heads;
        std::vector<float> sum(width, 0.0F);
        std::vector<float> sum_hat(width, 0.0F);
        for (size_t g = 0; g < n_heads; ++g) {
            const auto a = std::span<const float>(projected).subspan(g * width, width);
            const auto b = std::span<const float>(projected_hat).subspan(g * width, width);
            HeadFidelity head;
            head.perturbation = l1_distance(a, b);
            const double size = l1_norm(a);
            head.relative_perturbation = size > 0 ? head.perturbation / size : 0;
            head.output_error = l1_distance(o.subspan(g * dv, dv), o_hat.subspan(g * dv, dv));
            one.heads.push_back(head);
            for (size_t i = 0; i < width; ++i) {
                sum[i] += a[i];
                sum_hat[i] += b[i];
            }
        }
        one.layers.push_back({cosine_similarity(sum, sum_hat), relative_error(full_.hidden[l], evicted.hidden[l])});
        return {};
    }

    // Attention mass of what is kept, and of the best that CriticalKV's first stage could keep.
    void weigh_kept(int layer, InspectCase & one) {
        const auto l = static_cast<size_t>(layer);
        const int n_group = out_.shape.n_group;
        for (int h = 0; h < out_.shape.n_kv_heads; ++h) {
            const auto positions = positions_[l].row(h);
            const auto n_first = static_cast<size_t>(kFirstStage * one.kept[l].length(h));
            for (int g = h * n_group; g < (h + 1) * n_group; ++g) {
                const auto attention = last_query_[l].row(g);
                HeadFidelity & head = one.heads[static_cast<size_t>(layer * out_.shape.n_heads() + g)];
                head.mass = kept_mass(attention, positions, one.kept[l].row(h));
                std::vector<float> best(attention.begin(), attention.end());
                std::ranges::sort(best, std::greater<>());
                for (size_t j = 0; j < std::min(n_first, best.size()); ++j) { head.sigma += best[j]; }
            }
        }
    }

    void add_pairs(const Budget & budget) {
        const size_t n = scored_.size();
        const size_t first_case = out_.cases.size() - n;
        for (size_t a = 0; a < n; ++a) {
            for (size_t b = a + 1; b < n; ++b) {
                const InspectCase & of_a = out_.cases[first_case + a];
                const InspectCase & of_b = out_.cases[first_case + b];
                if (!of_a.refused.empty() || !of_b.refused.empty()) { continue; }
                InspectPair pair{of_a.policy, of_b.policy, budget.to_string(), {}, {}};
                for (int layer = 0; layer < out_.shape.n_layers; ++layer) {
                    SetCounts counts;
                    double correlation = 0;
                    for (int h = 0; h < out_.shape.n_kv_heads; ++h) {
                        const auto l = static_cast<size_t>(layer);
                        count_overlap(of_a.kept[l].row(h), of_b.kept[l].row(h), counts);
                        correlation += correlate(scored_[a], scored_[b], of_a.budget_entries, layer, h);
                    }
                    pair.jaccard.push_back(counts.jaccard());
                    pair.spearman.push_back(correlation / out_.shape.n_kv_heads);
                }
                out_.pairs.push_back(std::move(pair));
            }
        }
    }

    // Over the entries that neither policy protects.
    double correlate(const Scored & a, const Scored & b, int64_t budget, int layer, int kv_head) const {
        const auto l = static_cast<size_t>(layer);
        const auto positions = positions_[l].row(kv_head);
        const int n_sinks = std::max(a.policy.n_sinks(), b.policy.n_sinks());
        const int n_recent = std::max(a.policy.n_recent(budget), b.policy.n_recent(budget));
        const auto ranges = protected_ranges({n_sinks, n_recent, {}}, positions);
        std::vector<float> of_a;
        std::vector<float> of_b;
        for_each_candidate_run(static_cast<int>(positions.size()), ranges, [&](int begin, int end) {
            const auto from = static_cast<size_t>(begin);
            const auto n = static_cast<size_t>(end - begin);
            std::ranges::copy(a.refined[l].row(kv_head).subspan(from, n), std::back_inserter(of_a));
            std::ranges::copy(b.refined[l].row(kv_head).subspan(from, n), std::back_inserter(of_b));
        });
        return spearman(of_a, of_b);
    }

    std::span<const int32_t> later_;
    Session & session_;
    const InspectOptions & options_;
    PolicyProbe look_;
    LayerProbe layers_;
    Inspection out_;
    std::vector<Ragged<float>> last_query_;   // [layer] of [H]
    std::vector<Ragged<int32_t>> positions_;  // [layer] of [K]
    std::vector<Scored> scored_;
    Step full_;
    RunTasks run_tasks_;
};

}  // namespace

Result<Inspection> inspect(const Model & model, std::span<const int32_t> tokens, const InspectOptions & options) {
    if (options.policies.empty() || options.budgets.empty()) {
        return {ErrorCode::kInvalidArgument, "inspection: give at least one policy and one budget"};
    }
    if (options.n_later < 0 || (options.n_later > 0 && static_cast<size_t>(options.n_later) >= tokens.size())) {
        return {ErrorCode::kInvalidArgument, "inspection: " + std::to_string(options.n_later) + " tokens to read later, of " +
                                                 std::to_string(tokens.size()) + ": something must stand in front of them"};
    }
    for (const PolicyChoice & choice : options.policies) {
        PITH_ASSIGN_OR_RETURN(const Policy policy, named_policy(choice));
        if (!policy.evicts()) {
            return {ErrorCode::kInvalidArgument,
                    "policy '" + choice.name() + "' evicts nothing: it is what the others are compared with; leave it out"};
        }
    }
    const bool all_pairs = options.distance_by == "jsd" || options.distance_by == "l2";
    const PolicyChoice score("snapkv+novelty:distance=" + options.distance_by +
                             (all_pairs ? ":k=" + std::to_string(kQueriesOfPairs) : ""));
    PITH_ASSIGN_OR_RETURN(const Policy scored, named_policy(score));
    SessionOptions session_options;
    session_options.policy = "full";
    session_options.type_k = options.type_k;
    session_options.type_v = options.type_v;
    session_options.rotate_kv = options.rotate_kv;
    session_options.n_threads = options.n_threads;
    session_options.chunk = options.chunk;
    session_options.heads = options.heads;
    session_options.heads_file = options.heads_file;
    session_options.observe = options.policies;
    session_options.observe.emplace_back("snapkv");
    session_options.observe.push_back(score);
    PITH_ASSIGN_OR_RETURN(Session session, model.session(session_options));
    return Inspector(session, options, file_of(model).hparams().governed_layers()).run(tokens, scored.needs().profile);
}

}  // namespace pith
