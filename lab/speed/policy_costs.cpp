// policy_costs.cpp - one prefill, evicted and restored under each policy, with a watch on every part. Stage: speed.
#include "speed/policy_costs.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "attention/lane_attention.h"
#include "core/median.h"
#include "core/stopwatch.h"
#include "core/text.h"
#include "engine/layer_probe.h"
#include "evidence/output_norms.h"
#include "policy/named_policy.h"
#include "speed/random_prompt.h"

namespace pith {
namespace {

constexpr int kWarmUpTokens = 128;

// Of a policy's needs, what has to be done while the prompt runs.
EvidenceNeeds capture_needs(const EvidenceNeeds & needs) {
    const bool by_window = needs.profile.any() && needs.profile.sample == QuerySample::kTopWindow;
    EvidenceNeeds capture;
    capture.window = needs.any_window() || by_window ? needs.window : 0;
    capture.window_mean = needs.any_window();
    capture.last_query = needs.last_query;
    capture.running_sum = needs.running_sum;
    capture.running_last = needs.running_last;
    capture.expected_future = needs.expected_future;
    capture.profile = needs.profile;
    capture.block_attention = needs.block_attention;
    return capture;
}

// Does for one policy what the forward pass does for the session's own, and times it.
class CaptureMeter {
public:
    CaptureMeter(EvidenceNeeds needs, int n_prompt, LayerProbe & layers)
        : needs_(needs), n_prompt_(n_prompt), state_(layers.shape(), needs, layers.output()), layers_(layers) {}

    const EvidenceNeeds & needs() const { return needs_; }
    double seconds() const { return seconds_; }

    Status see(int layer, std::span<const float> queries, int n, int32_t first_position) {
        const CacheShape shape = layers_.shape();
        const size_t row = static_cast<size_t>(shape.n_heads()) * static_cast<size_t>(shape.head_dim);
        const bool fused = state_.wants_running() && sums_columns(runner().custom_operations(), layers_.cache(), layer);
        if (fused) {
            PITH_ASSIGN_OR_RETURN(const double alone, attention_s(layer, queries, n, {}));
            PITH_ASSIGN_OR_RETURN(const double summing,
                                  attention_s(layer, queries, n, running_sums(layers_.cache(), state_, 0)));
            seconds_ += summing - alone;
        }
        const Stopwatch watch;
        if (state_.wants_queries() || (state_.wants_running() && !fused)) {
            const int n_to_come = n_prompt_ - first_position - n;
            const int n_read = state_.wants_running() && !fused ? n : state_.n_remembered(n, n_to_come);
            const int32_t first = first_position + (n - n_read);
            const auto newest = queries.last(static_cast<size_t>(n_read) * row);
            if (state_.wants_queries()) { state_.remember(layer, newest.data(), n_read, first, n_to_come); }
            if (state_.wants_blocks()) {
                PITH_RETURN_IF_ERROR(state_.add_blocks(runner(), layers_.cache(), 0, layer, newest.data(), n_read, first));
            }
            if (state_.wants_running() && !fused) {
                PITH_RETURN_IF_ERROR(state_.add_running(runner(), layers_.cache(), 0, layer, newest.data(), n_read, first));
            }
        }
        if (state_.wants_moments()) {
            QueryMoments moments;
            PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner().begin(256));
            ggml_tensor * q = build->input(GGML_TYPE_F32, static_cast<int64_t>(row), n, queries.data());
            q = ggml_reshape_3d(build->ctx(), q, shape.head_dim, shape.n_heads(), n);
            build_query_moments(*build, q, first_position, moments);
            PITH_RETURN_IF_ERROR(runner().run());
            state_.add_moments(layer, moments);
        }
        seconds_ += watch.seconds();
        return {};
    }

private:
    GraphRunner & runner() { return layers_.runner(); }

    // The layer's attention of these queries once more.
    Result<double> attention_s(int layer, std::span<const float> queries, int n, ColumnSums sums) {
        const RaggedCache & cache = layers_.cache();
        const CacheShape shape = layers_.shape();
        PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner().begin(64));
        ggml_tensor * q = build->input(GGML_TYPE_F32, int64_t{shape.n_heads()} * shape.head_dim, n, queries.data());
        q = ggml_reshape_3d(build->ctx(), q, shape.head_dim, shape.n_heads(), n);
        build->keep(
            build_cpu_attention(*build, single_part(cache, 0, n, std::move(sums)), layer, q, {cache.k(layer), cache.v(layer)}));
        const Stopwatch watch;
        PITH_RETURN_IF_ERROR(runner().run());
        return watch.seconds();
    }

    EvidenceNeeds needs_;
    int n_prompt_;
    EvidenceState state_;
    LayerProbe & layers_;
    double seconds_ = 0;
};

class CostRunner {
public:
    CostRunner(const Model & model, const PolicyCostOptions & options)
        : model_(model), options_(options), tokens_(random_prompt(model, options.n_prompt, options.seed)) {
        hooks_.cancel = options.cancel;
    }

    Result<PolicyCosts> run() {
        PITH_RETURN_IF_ERROR(list_policies());
        PITH_RETURN_IF_ERROR(plain_prefill());
        PITH_ASSIGN_OR_RETURN(Session session, model_.session(full_options(true)));
        PITH_RETURN_IF_ERROR(observed_prefill(session));
        PITH_RETURN_IF_ERROR(make_output_matrices(LayerProbe(session)));
        PITH_ASSIGN_OR_RETURN(const auto start, session.snapshot());
        PITH_RETURN_IF_ERROR(measure_rounds(session, start));
        summarise();
        return std::move(costs_);
    }

private:
    Status list_policies() {
        const auto add = [this](const PolicyChoice & choice) {
            if (std::find(choices_.begin(), choices_.end(), choice) == choices_.end()) { choices_.push_back(choice); }
        };
        for (const PolicyChoice & choice : options_.policies) {
            PITH_ASSIGN_OR_RETURN(const Policy policy, named_policy(choice));
            if (!policy.evicts()) { continue; }
            add(base_policy(choice.name()));
            add(choice);
        }
        for (const PolicyChoice & choice : choices_) {
            PITH_ASSIGN_OR_RETURN(const Policy policy, named_policy(choice));
            PolicyCost row;
            row.policy = choice.name();
            costs_.rows.push_back(std::move(row));
            needs_.push_back(policy.needs());
        }
        if (choices_.empty()) {
            return {ErrorCode::kInvalidArgument, "none of these policies evicts: there is nothing to measure"};
        }
        return {};
    }

    SessionOptions full_options(bool observed) const {
        SessionOptions full = options_.session;
        full.policy = "full";
        full.budget = Budget();
        full.prefill = PrefillSchedule::kOneShot;
        full.observe.clear();
        if (!observed) { return full; }
        full.observe = choices_;
        return full;
    }

    void tell(const std::string & what) const {
        if (options_.progress) { options_.progress(what); }
    }

    Status plain_prefill() {
        tell("plain prefill");
        PITH_ASSIGN_OR_RETURN(Session warm_up, model_.session(full_options(false)));
        const auto n = std::min<size_t>(tokens_.size(), kWarmUpTokens);
        PITH_RETURN_IF_ERROR(warm_up.prefill(std::span(tokens_).first(n), hooks_));
        PITH_ASSIGN_OR_RETURN(Session session, model_.session(full_options(false)));
        PITH_RETURN_IF_ERROR(session.prefill(tokens_, hooks_));
        costs_.prefill_s = session.ledger().prefill_s;
        return {};
    }

    Status observed_prefill(Session & session) {
        tell("observed prefill");
        LayerProbe layers(session);
        const auto n_prompt = static_cast<int>(tokens_.size());
        std::vector<std::unique_ptr<CaptureMeter>> meters;
        std::vector<const CaptureMeter *> meter_of;  // [policy]; policies that capture the same share one
        for (const EvidenceNeeds & needs : needs_) {
            const EvidenceNeeds capture = capture_needs(needs);
            auto known = std::find_if(meters.begin(), meters.end(), [&](const auto & m) { return m->needs() == capture; });
            if (known == meters.end()) {
                known = meters.insert(meters.end(), std::make_unique<CaptureMeter>(capture, n_prompt, layers));
            }
            meter_of.push_back(known->get());
        }
        layers.set_query_observer([&](int layer, std::span<const float> queries, int n, int32_t first) -> Status {
            for (const auto & meter : meters) { PITH_RETURN_IF_ERROR(meter->see(layer, queries, n, first)); }
            return {};
        });
        const Status status = session.prefill(tokens_, hooks_);
        layers.set_query_observer({});
        for (size_t i = 0; i < meter_of.size(); ++i) { costs_.rows[i].capture_s = meter_of[i]->seconds(); }
        return status;
    }

    // What is made of W_O once for a model: its factors, and its bytes where norms go through those.
    Status make_output_matrices(LayerProbe layers) {
        const auto any = [this](bool EvidenceNeeds::*need) {
            return std::any_of(needs_.begin(), needs_.end(), [need](const EvidenceNeeds & needs) { return needs.*need; });
        };
        GraphRunner & runner = layers.runner();
        const bool bytes = any(&EvidenceNeeds::output_l1) && has_byte_norms(runner, layers.cache(), 0);
        if (!bytes && !any(&EvidenceNeeds::output_l2)) { return {}; }
        tell("what is made of the output projection");
        const auto make_bytes = [&]() -> Status {
            for (int layer = 0; bytes && layer < layers.shape().n_layers; ++layer) {
                if (!layers.cache().layout().governs(layer)) { continue; }
                const auto made = layers.output()->projections.layer(runner, layer, layers.shape().n_heads(),
                                                                     layers.cache().layout().head_dim_v);
                PITH_RETURN_IF_ERROR(made.status());
            }
            return {};
        };
        const Stopwatch watch;
        for (int layer = 0; any(&EvidenceNeeds::output_l2) && layer < layers.shape().n_layers; ++layer) {
            if (!layers.cache().layout().governs(layer)) { continue; }
            PITH_RETURN_IF_ERROR(layers.output()->factors.factor(layer, layers.run_tasks()).status());
        }
        PITH_RETURN_IF_ERROR(make_bytes());
        costs_.factors_s = watch.seconds();
        return make_bytes();  // kept from the second time on: the rounds do not pay for it
    }

    // In rounds of all policies, so that a machine's moods hit all of them.
    Status measure_rounds(Session & session, const std::shared_ptr<Session::Snapshot> & start) {
        samples_.resize(costs_.rows.size());
        for (int round = 0; round < options_.n_repetitions; ++round) {
            for (size_t i = 0; i < costs_.rows.size(); ++i) {
                if (options_.cancel != nullptr && options_.cancel->load()) { return {ErrorCode::kCancelled, "cancelled"}; }
                tell(costs_.rows[i].policy + ", round " + std::to_string(round + 1) + " of " +
                     std::to_string(options_.n_repetitions));
                if (costs_.rows[i].note.empty()) { PITH_RETURN_IF_ERROR(evict_and_restore(session, start, i)); }
            }
        }
        return {};
    }

    Status evict_and_restore(Session & session, const std::shared_ptr<Session::Snapshot> & start, size_t index) {
        PolicyCost & row = costs_.rows[index];
        const Ledger before = session.ledger();
        const Status status = session.evict(choices_[index], options_.session.budget, options_.cancel);
        if (status.code() == ErrorCode::kBudget) {
            row.note = status.message();
            return {};
        }
        PITH_RETURN_IF_ERROR(status);
        const Ledger & after = session.ledger();
        Samples & samples = samples_[index];
        samples.evidence_s.push_back(after.evidence_s - before.evidence_s);
        samples.plan_s.push_back(after.plan_s - before.plan_s);
        samples.compact_s.push_back(after.compact_s - before.compact_s);
        row.eviction_s.push_back(samples.evidence_s.back() + samples.plan_s.back() + samples.compact_s.back());
        row.evicted_entries = after.evicted_entries - before.evicted_entries;
        costs_.budget_entries = after.budget_entries;
        return session.restore(start);
    }

    void summarise() {
        for (size_t i = 0; i < costs_.rows.size(); ++i) {
            PolicyCost & row = costs_.rows[i];
            if (!row.note.empty()) { continue; }
            row.evidence_s = median(samples_[i].evidence_s);
            row.plan_s = median(samples_[i].plan_s);
            row.compact_s = median(samples_[i].compact_s);
            row.share = (row.capture_s + median(row.eviction_s)) / costs_.prefill_s;
            const std::string base = base_policy(row.policy);
            const auto found = std::find_if(costs_.rows.begin(), costs_.rows.end(),
                                            [&](const PolicyCost & other) { return other.policy == base; });
            if (base == row.policy || !found->note.empty()) { continue; }
            std::vector<double> over;  // paired by round
            for (size_t r = 0; r < row.eviction_s.size(); ++r) { over.push_back(row.eviction_s[r] - found->eviction_s[r]); }
            row.base = base;
            row.over_base = (row.capture_s - found->capture_s + median(over)) / costs_.prefill_s;
        }
    }

    struct Samples {
        std::vector<double> evidence_s;
        std::vector<double> plan_s;
        std::vector<double> compact_s;
    };

    const Model & model_;
    const PolicyCostOptions & options_;
    RunHooks hooks_;
    std::vector<int32_t> tokens_;
    std::vector<EvidenceNeeds> needs_;   // [row]
    std::vector<PolicyChoice> choices_;  // [row]
    std::vector<Samples> samples_;       // [row]
    PolicyCosts costs_;
};

}  // namespace

namespace {

// The options of "name:a=1:b=2" that are not the critical selector's.
std::string without_critical_options(std::string_view part) {
    std::string out;
    for (const std::string_view piece : split(part, ':')) {
        const std::string_view key = piece.substr(0, piece.find('='));
        const bool of_critical = key == "alpha" || key == "eps" || key == "norm" || key == "stage1";
        if (!of_critical) { out += (out.empty() ? "" : ":") + std::string(piece); }
    }
    return out;
}

}  // namespace

std::string base_policy(const std::string & policy) {
    // CriticalKV is a second stage over whatever allocates: what it changes is told by the same policy without it.
    static const std::pair<std::string_view, std::string_view> kCritical[] = {
        {"criticalkv", "snapkv"}, {"critical-adakv", "adakv"}, {"critical-headkv", "headkv"}};
    for (const auto & [name, base] : kCritical) {
        const std::string_view first = std::string_view(policy).substr(0, policy.find_first_of(":+"));
        if (first == name) { return std::string(base) + without_critical_options(policy).substr(name.size()); }
    }
    std::string rest;
    bool had_critical = false;
    for (const std::string_view part : split(policy, '+')) {
        if (part.substr(0, part.find(':')) == "critical") {
            had_critical = true;
        } else {
            rest += (rest.empty() ? "" : "+") + std::string(part);
        }
    }
    if (had_critical) { return rest; }
    const size_t plus = policy.find('+');
    return plus == std::string::npos ? "snapkv" : policy.substr(0, plus);
}

Result<PolicyCosts> measure_policy_costs(const Model & model, const PolicyCostOptions & options) {
    if (options.n_prompt < 1 || options.n_repetitions < 1) {
        return Status(ErrorCode::kInvalidArgument, "a prompt of " + std::to_string(options.n_prompt) + " tokens, measured " +
                                                       std::to_string(options.n_repetitions) +
                                                       " times: give 1 or more of each");
    }
    return CostRunner(model, options).run();
}

}  // namespace pith
