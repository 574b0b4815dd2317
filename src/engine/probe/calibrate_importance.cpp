// calibrate_importance.cpp - reads texts twice, sums up, solves, and judges by texts that were not learnt from.
#include "engine/probe/calibrate_importance.h"

#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "core/on_threads.h"
#include "device/cpu_count.h"
#include "engine/layer_probe.h"
#include "engine/parts/model_parts.h"
#include "engine/policy_probe.h"
#include "engine/probe/ridge.h"
#include "gate/gate_file.h"

namespace pith {
namespace {

// As the policy that `auto` takes where a text may be read twice scores its entries.
constexpr std::string_view kTeacher = "reread:group=mean";
constexpr float kLeastScore = 1e-6F;  // what nobody looks up is alike, whether at 1e-7 or at 1e-12
constexpr double kFifth = 0.2;

GateConfig ranking_config() {
    GateConfig config;
    config.kind = GateKind::kLinear;
    config.purpose = GatePurpose::kRank;
    config.gamma = 0;
    return config;
}

// What a text says of a layer's entries, token by token.
struct LayerRows {
    std::vector<float> inputs;   // [n][D]
    std::vector<float> targets;  // [n][K]: the logarithm of the score
};

// Sums of squares, of the targets around each lane's mean and of what the prediction misses.
class Judge {
public:
    void add(const LayerRows & rows, const RidgeSums::Fit & fit, size_t n_embd, size_t n_kv) {
        const size_t n = rows.targets.size() / n_kv;
        for (size_t h = 0; h < n_kv; ++h) {
            double sum = 0;
            double square = 0;
            double missed = 0;
            for (size_t i = 0; i < n; ++i) {
                const double said = fit.predict(h, std::span(rows.inputs).subspan(i * n_embd, n_embd));
                const double true_one = rows.targets[i * n_kv + h];
                sum += true_one;
                square += true_one * true_one;
                missed += (true_one - said) * (true_one - said);
                pairs_.emplace_back(static_cast<float>(true_one), static_cast<float>(said));
            }
            const double spread = square - sum * sum / static_cast<double>(n);
            if (spread > 0) {
                explained_ += 1 - missed / spread;
                ++n_lanes_;
            }
        }
    }
    // Of one text, all its layers added: what both rank among the first fifth.
    void end_text() {
        const auto n_first = static_cast<size_t>(kFifth * static_cast<double>(pairs_.size()));
        if (n_first > 0) {
            const float least_true = nth_largest(n_first, [](const auto & pair) { return pair.first; });
            const float least_said = nth_largest(n_first, [](const auto & pair) { return pair.second; });
            const auto both = std::ranges::count_if(
                pairs_, [&](const auto & pair) { return pair.first >= least_true && pair.second >= least_said; });
            found_ += static_cast<double>(both) / static_cast<double>(n_first);
            ++n_texts_;
        }
        pairs_.clear();
    }
    double explained() const { return n_lanes_ > 0 ? explained_ / n_lanes_ : 0; }
    double found() const { return n_texts_ > 0 ? found_ / n_texts_ : 0; }

private:
    template <class Of>
    float nth_largest(size_t n, Of of) const {
        std::vector<float> all;
        all.reserve(pairs_.size());
        for (const auto & pair : pairs_) { all.push_back(of(pair)); }
        std::ranges::nth_element(all, all.begin() + static_cast<std::ptrdiff_t>(n - 1), std::greater{});
        return all[n - 1];
    }

    std::vector<std::pair<float, float>> pairs_;  // (true, foretold), of the text at hand
    double explained_ = 0;
    int n_lanes_ = 0;
    double found_ = 0;
    int n_texts_ = 0;
};

class ImportanceFitter {
public:
    ImportanceFitter(const Model & model, const ImportanceOptions & options)
        : model_(model),
          options_(options),
          hparams_(file_of(model).hparams()),
          n_embd_(static_cast<size_t>(hparams_.n_embd)),
          n_kv_(static_cast<size_t>(hparams_.n_kv_heads)),
          governed_(hparams_.governed_layers()),
          teacher_(Policy::parse(kTeacher).value()) {
        for (size_t i = 0; i < governed_.size(); ++i) { sums_.emplace_back(hparams_.n_embd, hparams_.n_kv_heads); }
    }

    Status learn(std::span<const int32_t> text) {
        return read(text, [&](Session & session, const std::vector<LayerRows> & rows) -> Status {
            std::vector<float> products(n_embd_ * n_embd_);
            for (size_t i = 0; i < governed_.size(); ++i) {
                PITH_RETURN_IF_ERROR(multiply(session, rows[i].inputs, products));
                sums_[i].add(rows[i].inputs, rows[i].targets, products);
            }
            return {};
        });
    }

    Status judge(std::span<const int32_t> text, Judge & judge) {
        return read(text, [&](Session &, const std::vector<LayerRows> & rows) -> Status {
            for (size_t i = 0; i < governed_.size(); ++i) { judge.add(rows[i], fits_[i], n_embd_, n_kv_); }
            judge.end_text();
            return {};
        });
    }

    Status solve() {
        fits_.resize(sums_.size());
        constexpr int kMostThreads = 8;  // each holds features² doubles
        const int n_threads = std::min(options_.n_threads > 0 ? options_.n_threads : available_cpus(), kMostThreads);
        return on_threads(n_threads, [&](int part) -> Status {
            for (size_t i = static_cast<size_t>(part); i < sums_.size(); i += static_cast<size_t>(n_threads)) {
                if (options_.cancel != nullptr && options_.cancel->load()) { return {ErrorCode::kCancelled, "cancelled"}; }
                fits_[i] = sums_[i].solve(options_.ridge);
            }
            return {};
        });
    }

    ImportancePredictor finish() {
        ImportancePredictor out;
        out.config = ranking_config();
        for (size_t i = 0; i < governed_.size(); ++i) {
            const std::string prefix = "gate." + std::to_string(governed_[i]) + ".out.";
            out.tensors[prefix + "weight"] = std::move(fits_[i].weights);
            out.tensors[prefix + "bias"] = std::move(fits_[i].bias);
        }
        out.n_tokens = sums_.empty() ? 0 : sums_.front().n_samples();
        return out;
    }

private:
    // The text in a session of its own; visit sees its rows by governed layer.
    template <class Visit>
    Status read(std::span<const int32_t> text, Visit visit) {
        SessionOptions session_options;
        session_options.policy = "full";
        session_options.observe = {std::string(kTeacher)};
        session_options.reread = options_.reread;
        session_options.n_threads = options_.n_threads;
        session_options.prefill = PrefillSchedule::kOneShot;
        PITH_ASSIGN_OR_RETURN(Session session, model_.session(session_options));
        std::vector<LayerRows> rows(governed_.size());
        LayerProbe layers(session);
        layers.set_input_observer([&](int layer, std::span<const float> inputs, int /*n*/, int32_t first) -> Status {
            if (first >= std::ssize(text)) { return {}; }  // the second reading
            auto & of_layer = rows[index_of(layer)].inputs;
            of_layer.insert(of_layer.end(), inputs.begin(), inputs.end());
            return {};
        });
        RunHooks hooks;
        hooks.cancel = options_.cancel;
        PITH_RETURN_IF_ERROR(session.prefill(text, hooks));
        PolicyProbe probe(session, options_.cancel);
        for (const int layer : governed_) {
            PITH_ASSIGN_OR_RETURN(const LayerEvidence evidence, probe.evidence(layer, teacher_.needs()));
            PITH_ASSIGN_OR_RETURN(const Ragged<float> scores, refined_scores(teacher_, evidence));
            std::vector<float> & targets = rows[index_of(layer)].targets;
            targets.resize(text.size() * n_kv_);
            for (size_t h = 0; h < n_kv_; ++h) {
                const auto row = scores.row(static_cast<int>(h));
                for (size_t i = 0; i < text.size(); ++i) { targets[i * n_kv_ + h] = std::log(std::max(row[i], kLeastScore)); }
            }
        }
        layers.set_input_observer({});
        return visit(session, rows);
    }

    // x [n][D] → Σ_i x_i·x_iᵀ [D][D].
    Status multiply(Session & session, const std::vector<float> & x, std::vector<float> & products) {
        const auto n = static_cast<int64_t>(x.size() / n_embd_);
        PITH_ASSIGN_OR_RETURN(GraphBuild * build, LayerProbe(session).runner().begin(16));
        ggml_tensor * rows = build->input(GGML_TYPE_F32, hparams_.n_embd, n, x.data());
        ggml_tensor * columns = ggml_cont(build->ctx(), ggml_transpose(build->ctx(), rows));
        build->output(ggml_mul_mat(build->ctx(), columns, columns), products.data());
        return LayerProbe(session).runner().run();
    }

    size_t index_of(int layer) const {
        return static_cast<size_t>(std::ranges::lower_bound(governed_, layer) - governed_.begin());
    }

    const Model & model_;
    const ImportanceOptions & options_;
    const Hparams & hparams_;
    size_t n_embd_;
    size_t n_kv_;
    std::vector<int> governed_;
    Policy teacher_;
    std::vector<RidgeSums> sums_;  // [governed layer]
    std::vector<RidgeSums::Fit> fits_;
};

}  // namespace

Result<ImportancePredictor> fit_importance(const Model & model, std::span<const std::vector<int32_t>> texts, int n_held_out,
                                           const ImportanceOptions & options) {
    PITH_RETURN_IF_ERROR(check(ranking_config(), file_of(model).hparams()));
    if (n_held_out < 1 || n_held_out >= std::ssize(texts)) {
        return {ErrorCode::kInvalidArgument,
                "importance: " + std::to_string(texts.size()) + " texts: give 2 or more, to learn from and to judge by"};
    }
    int64_t n_total = 0;
    for (const auto & text : texts) { n_total += std::ssize(text); }
    int64_t n_done = 0;
    const auto tell = [&](const std::vector<int32_t> & text) {
        n_done += std::ssize(text);
        if (options.progress) { options.progress(n_done, n_total); }
    };
    ImportanceFitter fitter(model, options);
    const auto learnt = texts.first(texts.size() - static_cast<size_t>(n_held_out));
    for (const auto & text : learnt) {
        PITH_RETURN_IF_ERROR(fitter.learn(text));
        tell(text);
    }
    PITH_RETURN_IF_ERROR(fitter.solve());
    Judge judge;
    ImportanceQuality quality;
    for (const auto & text : texts.subspan(learnt.size())) {
        PITH_RETURN_IF_ERROR(fitter.judge(text, judge));
        quality.n_tokens += std::ssize(text);
        tell(text);
    }
    quality.explained = judge.explained();
    quality.found = judge.found();
    ImportancePredictor out = fitter.finish();
    out.held_out = quality;
    return out;
}

Status save_importance(const std::string & path, const ImportancePredictor & predictor, const Model & model) {
    GateWeights weights;
    const std::vector<GateTensor> list = gate_tensors(predictor.config, file_of(model).hparams(), weights);
    const std::unique_ptr<ggml_context, decltype(&ggml_free)> ctx(
        ggml_init({(list.size() + 1) * ggml_tensor_overhead(), nullptr, true}), &ggml_free);
    if (ctx == nullptr) { return {ErrorCode::kOutOfMemory, "no memory for the table of gates"}; }
    for (const GateTensor & one : list) {
        const auto found = predictor.tensors.find(one.name);
        const auto n_floats = static_cast<size_t>(one.ne0 * std::max<int64_t>(one.ne1, 1));
        if (found == predictor.tensors.end() || found->second.size() != n_floats) {
            return {ErrorCode::kInvalidArgument, "importance: tensor '" + one.name + "' is missing or of another size"};
        }
        *one.slot = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, one.ne0, std::max<int64_t>(one.ne1, 1));
        (*one.slot)->data = const_cast<float *>(found->second.data());  // NOLINT: save_gate() only reads
    }
    GateTraining training;
    training.n_tokens = predictor.n_tokens;
    training.retention = 1.0F;
    return save_gate(path, predictor.config, weights, training, file_of(model));
}

}  // namespace pith
