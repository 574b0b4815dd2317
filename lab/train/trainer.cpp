// trainer.cpp - AdamW on batches: gradients, clipping and the step. Stage: train.
#include "train/trainer.h"

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "core/check.h"
#include "core/on_threads.h"
#include "device/backend.h"

namespace pith::train {
namespace {

Batch rows_of(const Batch & batch, int first, int n) {
    const auto begin = static_cast<ptrdiff_t>(first) * batch.shape.n_tokens;
    const auto end = begin + static_cast<ptrdiff_t>(n) * batch.shape.n_tokens;
    Batch out;
    out.shape = {batch.shape.n_tokens, n};
    out.tokens.assign(batch.tokens.begin() + begin, batch.tokens.begin() + end);
    out.targets.assign(batch.targets.begin() + begin, batch.targets.begin() + end);
    out.weights.assign(batch.weights.begin() + begin, batch.weights.begin() + end);
    if (!batch.n_gated.empty()) { out.n_gated.assign(batch.n_gated.begin() + first, batch.n_gated.begin() + first + n); }
    return out;
}

}  // namespace

std::vector<int> split_rows(int n, int n_workers) {
    std::vector<int> rows(static_cast<size_t>(n_workers), n / n_workers);
    for (int i = 0; i < n % n_workers; ++i) { ++rows[static_cast<size_t>(i)]; }
    return rows;
}

Result<std::unique_ptr<Trainer>> Trainer::make(const ModelShape & shape, const AdamW & adamw, int n_threads) {
    std::unique_ptr<Trainer> self(new Trainer);
    self->adamw_ = adamw;
    PITH_ASSIGN_OR_RETURN(self->owned_, Parameters::make(shape));
    self->model_ = self->owned_->step_model();
    PITH_RETURN_IF_ERROR(self->begin(n_threads));
    return self;
}

Result<std::unique_ptr<Trainer>> Trainer::make(const StepModel & model, const AdamW & adamw, int n_threads) {
    PITH_RETURN_IF_ERROR(check_trainable(model));
    std::unique_ptr<Trainer> self(new Trainer);
    self->adamw_ = adamw;
    self->model_ = model;
    PITH_RETURN_IF_ERROR(self->begin(n_threads));
    return self;
}

Status Trainer::begin(int n_threads) {
    PITH_RETURN_IF_ERROR(check_at_least("number of threads", n_threads, 1));
    for (int i = 0; i < n_threads; ++i) {
        PITH_ASSIGN_OR_RETURN(ggml_backend_t backend, make_cpu_backend(1));
        backends_.push_back(backend);
    }
    return build_update();
}

Trainer::~Trainer() {
    graphs_.clear();
    if (update_buffer_ != nullptr) { ggml_backend_buffer_free(update_buffer_); }
    if (update_ctx_ != nullptr) { ggml_free(update_ctx_); }
    owned_.reset();
    for (ggml_backend_t backend : backends_) { ggml_backend_free(backend); }
}

void Trainer::forget_graphs() {
    graphs_.clear();
}

Status Trainer::build_update() {
    const size_t n = model_.parameters->list().size();
    update_ctx_ = ggml_init({(n + 2) * ggml_tensor_overhead() + ggml_graph_overhead_custom(4 * n, false), nullptr, true});
    if (update_ctx_ == nullptr) { return {ErrorCode::kOutOfMemory, "no memory for the optimiser's graph"}; }
    for (ggml_tensor *& options : update_options_) { options = ggml_new_tensor_1d(update_ctx_, GGML_TYPE_F32, 7); }
    update_buffer_ = ggml_backend_alloc_ctx_tensors(update_ctx_, backends_[0]);
    if (update_buffer_ == nullptr) { return {ErrorCode::kOutOfMemory, "no memory for the optimiser's options"}; }
    update_graph_ = ggml_new_graph_custom(update_ctx_, 4 * n, false);
    for (const Parameter & p : model_.parameters->list()) {  // works in place: the nodes are views and need no memory
        ggml_build_forward_expand(
            update_graph_, ggml_opt_step_adamw(update_ctx_, p.value, p.gradient, p.m, p.v, update_options_[p.decays ? 1 : 0]));
    }
    return {};
}

Result<StepGraph *> Trainer::graph(int worker, const BatchShape & shape, bool backward) {
    auto & slot = graphs_[{worker, shape.n_tokens, shape.n_sequences, backward, bf16_}];
    if (slot == nullptr) {
        PITH_ASSIGN_OR_RETURN(slot, StepGraph::make(model_, shape, backward, bf16_, backends_[static_cast<size_t>(worker)]));
    }
    return slot.get();
}

Result<BatchLoss> Trainer::run(const Batch & batch, float scale, float eviction_scale, bool backward) {
    const std::vector<int> rows = split_rows(batch.shape.n_sequences, n_threads());
    const size_t n_workers = static_cast<size_t>(std::min(n_threads(), batch.shape.n_sequences));
    std::vector<Batch> parts;
    std::vector<StepGraph *> workers;
    int first = 0;
    for (size_t w = 0; w < n_workers; ++w) {
        parts.push_back(rows_of(batch, first, rows[w]));
        first += rows[w];
        PITH_ASSIGN_OR_RETURN(StepGraph * g, graph(static_cast<int>(w), parts.back().shape, backward));
        workers.push_back(g);
    }
    std::vector<Result<BatchLoss>> losses(n_workers, Status(ErrorCode::kInternal, "not run"));
    PITH_RETURN_IF_ERROR(on_threads(static_cast<int>(n_workers), [&](int i) -> Status {
        const auto w = static_cast<size_t>(i);
        losses[w] = workers[w]->run(parts[w], scale, eviction_scale);
        return losses[w].status();
    }));

    BatchLoss sum;
    for (size_t w = 0; w < n_workers; ++w) {
        if (backward) { workers[w]->add_gradients(); }
        sum.nll_sum += losses[w]->nll_sum;
        sum.weight_sum += losses[w]->weight_sum;
        sum.gates.add(losses[w]->gates);
        sum.nll.insert(sum.nll.end(), losses[w]->nll.begin(), losses[w]->nll.end());
        sum.hit.insert(sum.hit.end(), losses[w]->hit.begin(), losses[w]->hit.end());
    }
    return sum;
}

Result<BatchLoss> Trainer::evaluate(const Batch & batch) {
    return run(batch, 0.0F, 0.0F, false);
}

// Scales the gradients to the norm allowed; returns their norm before.
double Trainer::clip() {
    double sum = 0;
    for (const Parameter & p : model_.parameters->list()) {
        const float * g = values(p.gradient);
        double part = 0;
        for (int64_t i = 0; i < ggml_nelements(p.gradient); ++i) { part += static_cast<double>(g[i]) * g[i]; }
        sum += part;
    }
    const double norm = std::sqrt(sum);
    if (adamw_.clip_norm > 0.0F && norm > adamw_.clip_norm) {
        const auto factor = static_cast<float>(adamw_.clip_norm / norm);
        for (const Parameter & p : model_.parameters->list()) {
            float * g = values(p.gradient);
            for (int64_t i = 0; i < ggml_nelements(p.gradient); ++i) { g[i] *= factor; }
        }
    }
    return norm;
}

Status Trainer::update(float learning_rate) {
    const auto t = static_cast<double>(n_steps_ + 1);
    for (int decays = 0; decays < 2; ++decays) {
        float * o = values(update_options_[decays]);
        o[0] = learning_rate;
        o[1] = adamw_.beta1;
        o[2] = adamw_.beta2;
        o[3] = adamw_.epsilon;
        o[4] = decays == 1 ? adamw_.weight_decay : 0.0F;
        o[5] = static_cast<float>(1.0 / (1.0 - std::pow(adamw_.beta1, t)));  // bias corrections
        o[6] = static_cast<float>(1.0 / (1.0 - std::pow(adamw_.beta2, t)));
    }
    if (ggml_backend_graph_compute(backends_[0], update_graph_) != GGML_STATUS_SUCCESS) {
        return {ErrorCode::kInternal, "ggml could not run the optimiser's step"};
    }
    ++n_steps_;
    return {};
}

Result<Trainer::Cost> Trainer::measure(const Batch & batch) {
    const auto start = std::chrono::steady_clock::now();
    PITH_ASSIGN_OR_RETURN(BatchLoss loss, run(batch, 0.0F, 0.0F, true));
    Cost cost;
    cost.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (const auto & [key, graph] : graphs_) { cost.graph_bytes += graph->size_bytes(); }
    return cost;
}

Result<StepResult> Trainer::step(const std::vector<Batch> & batches, float learning_rate) {
    double weight_sum = 0;
    double n_sequences = 0;
    for (const Batch & b : batches) {
        weight_sum += b.weight_sum();
        n_sequences += b.shape.n_sequences;
    }
    if (weight_sum <= 0) { return {ErrorCode::kInvalidArgument, "no token of the batch has a weight: nothing to learn"}; }
    double eviction_scale = 0;
    if (const TrainedGates * gates = model_.gates; gates != nullptr) {
        eviction_scale =
            static_cast<double>(gates->loss.alpha) / ((model_.hparams->n_layers - gates->config.first_layer) * n_sequences);
    }
    model_.parameters->zero_gradients();
    StepResult result;
    double nll_sum = 0;
    for (const Batch & b : batches) {
        PITH_ASSIGN_OR_RETURN(BatchLoss loss,
                              run(b, static_cast<float>(1.0 / weight_sum), static_cast<float>(eviction_scale), true));
        nll_sum += loss.nll_sum;
        result.gates.add(loss.gates);
    }
    result.loss = nll_sum / weight_sum;
    result.eviction_loss = eviction_scale * result.gates.eviction_loss;
    result.gradient_norm = clip();
    if (!std::isfinite(result.loss) || !std::isfinite(result.eviction_loss) || !std::isfinite(result.gradient_norm)) {
        const char * advice = n_steps_ > 0 ? "lower the learning rate"
                                           : "nothing has been learnt yet, so the model's weights are damaged or too large";
        return {ErrorCode::kNotFinite, "step " + std::to_string(n_steps_ + 1) + ": loss " +
                                           std::to_string(result.loss + result.eviction_loss) + ", gradient norm " +
                                           std::to_string(result.gradient_norm) + ": " + advice};
    }
    PITH_RETURN_IF_ERROR(update(learning_rate));
    return result;
}

}  // namespace pith::train
