// tune.cpp - the run that trains gates. Stage: train.
#include "train/tune.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <new>
#include <numbers>

#include "gate/gate_file.h"
#include "model/fingerprint.h"
#include "model/lora_file.h"
#include "train/graph/gate_parameters.h"
#include "train/graph/lora_parameters.h"

namespace pith::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMemory = 0.05;    // of the moving mean of a step's seconds
constexpr double kFinalRate = 0.1;  // of the learning rate, at the end of its cosine
constexpr int kHeldOut = 32;        // sequences at most, or a step's

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<double> shares(const GateCounts & counts) {
    std::vector<double> out = counts.kept;
    for (double & share : out) { share /= std::max(1.0, counts.n_flags); }
    return out;
}

double mean_of(const std::vector<double> & values) {
    double sum = 0;
    for (const double v : values) { sum += v; }
    return values.empty() ? 1.0 : sum / static_cast<double>(values.size());
}

class Tuning {
public:
    Tuning(const ModelFile & file, Samples & samples, const TuneOptions & options, const TuneHooks & hooks)
        : file_(file), samples_(samples), options_(options), hooks_(hooks) {}

    Status prepare() {
        PITH_RETURN_IF_ERROR(check(options_, file_.hparams()));
        std::error_code error;
        std::filesystem::create_directories(options_.work_dir, error);
        if (error) { return {ErrorCode::kIo, "work folder '" + options_.work_dir + "' could not be made: " + error.message()}; }
        PITH_RETURN_IF_ERROR(make_parameters());
        const StepModel model{&file_.hparams(), &weights_, &parameters_, options_.gates ? &gates_ : nullptr};
        PITH_ASSIGN_OR_RETURN(trainer_, Trainer::make(model, options_.adamw, options_.n_threads));
        trainer_->use_bf16(options_.bf16);
        PITH_RETURN_IF_ERROR(check_length());
        n_steps_ = std::max<int64_t>(1, samples_.n_samples() * options_.n_epochs / options_.n_sequences);
        if (options_.resume) { PITH_RETURN_IF_ERROR(resume()); }
        return {};
    }

    Status plan() {
        if (!hooks_.plan || trainer_->n_steps() >= n_steps_) { return {}; }
        TunePlan plan;
        plan.n_params = parameters_.n_params();
        plan.n_steps = n_steps_ - trainer_->n_steps();
        plan.n_tokens = plan.n_steps * options_.n_sequences * samples_.n_tokens();
        plan.weight_bytes = file_.weight_bytes();
        plan.parameter_bytes = parameters_.size_bytes();
        PITH_ASSIGN_OR_RETURN(const Trainer::Cost cost, trainer_->measure(samples_.batch(0, options_.n_sequences)));
        plan.graph_bytes = cost.graph_bytes;
        plan.seconds = cost.seconds * static_cast<double>(plan.n_steps);
        if (!hooks_.plan(plan)) { return {ErrorCode::kCancelled, "stopped before the first step"}; }
        return {};
    }

    Status steps() {
        PITH_RETURN_IF_ERROR(measure_before());
        if (trainer_->n_steps() >= n_steps_) { return save(); }  // resumed at the end: the files may be gone
        const double tokens = static_cast<double>(options_.n_sequences) * samples_.n_tokens();
        double step_seconds = 0;
        while (trainer_->n_steps() < n_steps_) {
            const auto start = Clock::now();
            const int64_t first = trainer_->n_steps() * options_.n_sequences;
            const float rate = learning_rate();
            PITH_ASSIGN_OR_RETURN(const StepResult result, one_step(samples_.batch(first, options_.n_sequences), rate));
            const double seconds = seconds_since(start);
            step_seconds = step_seconds == 0 ? seconds : step_seconds + kMemory * (seconds - step_seconds);
            const int64_t step = trainer_->n_steps();
            bool stop = false;
            if (hooks_.progress) {
                stop = !hooks_.progress({.step = step,
                                         .n_steps = n_steps_,
                                         .loss = result.loss,
                                         .eviction_loss = result.eviction_loss,
                                         .gradient_norm = result.gradient_norm,
                                         .retention = shares(result.gates),
                                         .learning_rate = rate,
                                         .tokens_per_second = tokens / step_seconds,
                                         .seconds_left = step_seconds * static_cast<double>(n_steps_ - step)});
            }
            if (stop || step % options_.checkpoint_every == 0 || step == n_steps_) { PITH_RETURN_IF_ERROR(save()); }
            if (stop) { return {ErrorCode::kCancelled, "stopped; the checkpoint is in '" + options_.work_dir + "'"}; }
        }
        return {};
    }

private:
    std::string checkpoint_path() const { return (std::filesystem::path(options_.work_dir) / "checkpoint.bin").string(); }

    Status make_parameters() {
        const Hparams & hparams = file_.hparams();
        weights_ = file_.weights();
        const size_t n_lora = options_.lora.rank > 0 ? 2 * lora_targets().size() * weights_.layers.size() : 0;
        PITH_RETURN_IF_ERROR(parameters_.begin(n_lora + (options_.gates ? n_gate_parameters(options_.gate, hparams) : 0)));
        if (options_.gates) {
            gates_.config = options_.gate;
            gates_.loss = options_.loss;
            add_gate_parameters(options_.gate, hparams, parameters_, gates_.weights);
        }
        if (options_.lora.rank > 0) { add_lora_parameters(options_.lora, parameters_, weights_); }
        PITH_RETURN_IF_ERROR(parameters_.allocate());
        parameters_.initialise(options_.seed);
        return {};
    }

    // Sequences, steps and tokens of the whole run are counted in 64 bits.
    Status check_length() const {
        constexpr int64_t kMostTokens = std::numeric_limits<int64_t>::max() / 4;  // the last step may be one beyond
        const int64_t of_an_epoch = kMostTokens / std::max(1, samples_.n_tokens()) / options_.n_epochs;
        if (samples_.n_samples() <= of_an_epoch) { return {}; }
        return {ErrorCode::kInvalidArgument, std::to_string(samples_.n_samples()) + " sequences of " +
                                                 std::to_string(samples_.n_tokens()) + " tokens, " +
                                                 std::to_string(options_.n_epochs) +
                                                 " times over, are more than can be counted: give fewer --samples or --epochs"};
    }

    // What a checkpoint must agree in.
    std::string fingerprint() const {
        const GateConfig & g = options_.gate;
        const AdamW & a = options_.adamw;
        std::string text = options_.gates ? "gates" : "no gates";
        const auto add = [&](const auto &... values) { (text.append(" ").append(std::to_string(values)), ...); };
        add(static_cast<int>(g.kind), static_cast<int>(g.source), g.n_heads, g.head_dim, g.causal, g.n_recent, g.first_layer);
        add(g.tau, g.gamma, options_.loss.alpha, options_.loss.beta, options_.n_sequences, options_.n_epochs);
        add(options_.lora.rank, options_.lora.alpha);
        add(std::log2(options_.learning_rate), options_.warmup_steps, a.beta1, a.beta2, a.weight_decay, a.clip_norm);
        add(options_.seed, options_.n_threads, options_.bf16, samples_.n_tokens());
        text += " of " + samples_.fingerprint() + " for";
        for (const auto & [key, value] : fingerprint_of(file_)) { text += ' ' + to_text(value); }
        return text;
    }

    Status resume() {
        const Result<std::string> state = trainer_->load(checkpoint_path(), fingerprint());
        if (state.status().code() == ErrorCode::kNotFound) { return {}; }
        if (!state.ok()) { return state.status(); }
        if (hooks_.note) { hooks_.note("resumed at step " + std::to_string(trainer_->n_steps())); }
        return {};
    }

    float learning_rate() const {
        const auto step = static_cast<double>(trainer_->n_steps());
        const double cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * step / static_cast<double>(n_steps_)));
        double rate = options_.learning_rate * (kFinalRate + (1.0 - kFinalRate) * cosine);
        if (step < options_.warmup_steps) { rate *= (step + 1) / (options_.warmup_steps + 1); }
        return static_cast<float>(rate);
    }

    Result<StepResult> one_step(const Batch & batch, float rate) {
        Result<StepResult> result = trainer_->step({batch}, rate);
        if (result.status().code() != ErrorCode::kNotFinite) { return result; }
        return {ErrorCode::kNotFinite,
                result.status().message() +
                    (trainer_->n_steps() > 0 ? "; the last checkpoint in '" + options_.work_dir + "' is good" : "")};
    }

    struct HeldOut {
        double loss = 0;
        double hits = 0;
        std::vector<double> retention;
    };
    // Of the held-out sequences by `trainer`, a step's worth at a time.
    Result<HeldOut> held_out_loss(Trainer & trainer) const {
        HeldOut out;
        double weight = 0;
        GateCounts counts;
        for (const Batch & batch : held_out_) {
            PITH_ASSIGN_OR_RETURN(const BatchLoss loss, trainer.evaluate(batch));
            out.loss += loss.nll_sum;
            weight += loss.weight_sum;
            for (size_t i = 0; i < batch.weights.size(); ++i) {
                out.hits += static_cast<double>(batch.weights[i]) * loss.hit[i];
            }
            counts.add(loss.gates);
        }
        out.loss /= weight;
        out.hits /= weight;
        out.retention = shares(counts);
        return out;
    }

    Status measure_before() {
        for (int64_t first = 0; first < kHeldOut; first += options_.n_sequences) {
            Batch batch = samples_.held_out(first, options_.n_sequences);
            if (batch.shape.n_sequences == 0) { break; }
            if (batch.weight_sum() > 0) { held_out_.push_back(std::move(batch)); }
        }
        if (held_out_.empty()) { return {}; }
        const StepModel before{&file_.hparams(), &file_.weights(), &parameters_, nullptr};
        PITH_ASSIGN_OR_RETURN(auto trainer, Trainer::make(before, options_.adamw, options_.n_threads));
        trainer->use_bf16(options_.bf16);
        PITH_ASSIGN_OR_RETURN(before_, held_out_loss(*trainer));
        return {};
    }

    Status validate() {
        if (held_out_.empty()) { return {}; }
        PITH_ASSIGN_OR_RETURN(const HeldOut now, held_out_loss(*trainer_));
        retention_ = now.retention;
        if (hooks_.validation) {
            hooks_.validation({.step = trainer_->n_steps(),
                               .loss_before = before_.loss,
                               .loss = now.loss,
                               .hits_before = before_.hits,
                               .hits = now.hits,
                               .retention = retention_});
        }
        return {};
    }

    Status save() {
        PITH_RETURN_IF_ERROR(trainer_->save(checkpoint_path(), fingerprint(), ""));
        PITH_RETURN_IF_ERROR(validate());
        if (options_.lora.rank > 0 && !options_.lora_output.empty()) {
            PITH_RETURN_IF_ERROR(save_lora(options_.lora_output, weights_, file_));
        }
        if (!options_.gates || options_.output.empty()) { return {}; }
        const GateTraining how{.alpha = options_.loss.alpha,
                               .beta = options_.loss.beta,
                               .n_steps = trainer_->n_steps(),
                               .n_tokens = trainer_->n_steps() * options_.n_sequences * samples_.n_tokens(),
                               .retention = static_cast<float>(mean_of(retention_))};
        return save_gate(options_.output, gates_.config, gates_.weights, how, file_);
    }

    const ModelFile & file_;
    Samples & samples_;
    const TuneOptions & options_;
    const TuneHooks & hooks_;
    TrainedGates gates_;
    Weights weights_;  // the file's, and the adapter's pairs
    ParameterSet parameters_;
    std::unique_ptr<Trainer> trainer_;
    int64_t n_steps_ = 0;
    std::vector<Batch> held_out_;
    HeldOut before_;
    std::vector<double> retention_;
};

}  // namespace

double TuneProgress::mean_retention() const {
    return mean_of(retention);
}

Status check(const TuneOptions & o, const Hparams & hparams) {
    const auto bad = [](const std::string & what) { return Status(ErrorCode::kInvalidArgument, what); };
    if (!o.gates && o.lora.rank < 1) { return bad("nothing to train: neither gates nor an adapter were asked for"); }
    if (o.gates) { PITH_RETURN_IF_ERROR(check(o.gate, hparams)); }
    if (o.lora.rank != 0) { PITH_RETURN_IF_ERROR(check(o.lora, hparams)); }
    if (!(o.loss.beta >= 0.0F) || o.loss.beta > o.gate.tau) {
        return bad("beta is " + std::to_string(o.loss.beta) + ": give 0 to tau (" + std::to_string(o.gate.tau) +
                   "), or the loss would push on where everything is evicted");
    }
    if (!std::isfinite(o.loss.alpha) || o.loss.alpha < 0.0F) {
        return bad("alpha is " + std::to_string(o.loss.alpha) + ": give a number of 0 or more");
    }
    if (!(o.learning_rate > 0.0F) || !std::isfinite(o.learning_rate)) {
        return bad("the learning rate is " + std::to_string(o.learning_rate) + ": give a positive number");
    }
    if (o.n_sequences < 1 || o.n_epochs < 1 || o.checkpoint_every < 1 || o.warmup_steps < 0) {
        return bad("sequences, epochs and steps between checkpoints must be 1 or more, warm-up steps 0 or more");
    }
    return {};
}

Status tune(const ModelFile & file, Samples & samples, const TuneOptions & options, const TuneHooks & hooks) {
    try {
        Tuning run(file, samples, options, hooks);
        PITH_RETURN_IF_ERROR(run.prepare());
        PITH_RETURN_IF_ERROR(run.plan());
        return run.steps();
    } catch (const std::bad_alloc &) {
        return {ErrorCode::kOutOfMemory, "no memory to train in: give fewer --sequences, --tokens or --threads"};
    }
}

}  // namespace pith::train
