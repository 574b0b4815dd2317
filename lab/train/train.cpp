// train.cpp - the run: vocabulary, stages, validation, checkpoints, export. Stage: train.
#include "train/train.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <numbers>
#include <system_error>

#include "corpus/corpus.h"
#include "device/available_memory.h"
#include "train/data/data.h"
#include "train/data/encoder.h"
#include "train/data/vocabulary.h"
#include "train/export.h"
#include "train/training_curve.h"

namespace pith::train {
namespace {

using Clock = std::chrono::steady_clock;
using corpus::SeedSpace;

// SentencePiece's own threads end the process where they find no memory: more than it takes for the largest vocabulary.
constexpr size_t kRoomForVocabulary = size_t{64} << 20U;
constexpr float kAnswerWeight = 0.9F;  // targets of at least this weight count as answers
constexpr double kSpeedMemory = 0.05;  // of the moving mean of a step's seconds

Status no_memory() {
    return {ErrorCode::kOutOfMemory,
            "no memory to train in: make the model, the vocabulary or the stages' sequences smaller, or give fewer --threads"};
}

// The call's Status or Result; what finds no memory speaks of training.
template <class Call>
auto guarded_training(Call && call) -> decltype(call()) {
    try {
        return call();
    } catch (const std::bad_alloc &) { return no_memory(); } catch (const std::system_error &) {
        return no_memory();  // no thread could be made
    }
}

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// Where a run stands; all that the next step needs besides the trainer's own state.
struct Position {
    size_t stage = 0;
    int step = 0;           // done in the stage
    uint64_t document = 0;  // next of the training stream
    int64_t tokens_seen = 0;

    std::string to_text() const {
        return nlohmann::json{{"stage", stage}, {"step", step}, {"document", document}, {"tokens_seen", tokens_seen}}.dump();
    }
    static Result<Position> from_text(const std::string & text) {
        const auto j = nlohmann::json::parse(text, nullptr, false);
        Position p;
        for (const char * key : {"stage", "step", "document", "tokens_seen"}) {
            if (!j.is_object() || !j.contains(key) || !j[key].is_number_integer()) {
                return {ErrorCode::kBadFile, "the checkpoint's state is damaged"};
            }
        }
        p.stage = j["stage"].get<size_t>();
        p.step = j["step"].get<int>();
        p.document = j["document"].get<uint64_t>();
        p.tokens_seen = j["tokens_seen"].get<int64_t>();
        return p;
    }
};

class Training {
public:
    Training(const Recipe & recipe, const TrainOptions & options, const TrainHooks & hooks)
        : recipe_(recipe), options_(options), hooks_(hooks) {}

    Status prepare() {
        PITH_RETURN_IF_ERROR(check(recipe_));
        std::error_code error;
        std::filesystem::create_directories(options_.work_dir, error);
        if (error) { return {ErrorCode::kIo, "work folder '" + options_.work_dir + "' could not be made: " + error.message()}; }
        const std::vector<std::string> sentences = corpus::vocabulary_sentences();
        if (!has_room(kRoomForVocabulary)) { return no_memory(); }
        PITH_ASSIGN_OR_RETURN(vocabulary_, train_vocabulary(sentences, {.size = recipe_.vocabulary_size}));
        PITH_ASSIGN_OR_RETURN(Encoder encoder, Encoder::make(vocabulary_));
        encoder_ = std::make_unique<Encoder>(std::move(encoder));
        ModelShape shape = recipe_.shape;
        shape.n_vocab = vocabulary_.size();
        PITH_ASSIGN_OR_RETURN(trainer_, Trainer::make(shape, recipe_.adamw, options_.n_threads));
        trainer_->parameters().initialise(recipe_.seed);
        note("vocabulary of " + std::to_string(vocabulary_.size()) + " pieces, model of " +
             std::to_string(trainer_->parameters().n_params()) + " parameters");
        return {};
    }

    // Loads the checkpoint if there is one. Errors: a damaged or foreign one.
    Status resume(bool required) {
        const Result<std::string> state = trainer_->load(checkpoint_path(), fingerprint(recipe_, options_.n_threads));
        if (!state.ok()) {
            const bool none = state.status().code() == ErrorCode::kNotFound;
            return none && !required ? Status() : state.status();
        }
        PITH_ASSIGN_OR_RETURN(at_, Position::from_text(*state));
        note("resumed at stage " + std::to_string(at_.stage + 1) + ", step " + std::to_string(at_.step));
        return {};
    }

    Status all_stages() {
        PITH_ASSIGN_OR_RETURN(TrainingCurve curve, TrainingCurve::open(curve_path(options_), trainer_->n_steps()));
        curve_ = std::make_unique<TrainingCurve>(std::move(curve));
        for (; at_.stage < recipe_.stages.size(); ++at_.stage, at_.step = 0) {
            const Stage & stage = recipe_.stages[at_.stage];
            note("stage " + std::to_string(at_.stage + 1) + " of " + std::to_string(recipe_.stages.size()) + ": " +
                 std::to_string(stage.n_sequences * stage.accumulate) + " x " + std::to_string(stage.n_tokens) +
                 " tokens, at most " + std::to_string(stage.stop_after > 0 ? stage.stop_after : stage.n_steps) + " steps");
            PITH_RETURN_IF_ERROR(one_stage(stage));
            trainer_->forget_graphs();
        }
        return save();
    }

    Result<Evaluation> evaluate(const std::vector<int> & lengths, int n_samples,
                                const std::function<void(const std::string &)> & say) {
        Evaluation all;
        for (const int n_tokens : lengths) {
            const BatchShape shape{n_tokens, std::max(trainer_->n_threads(), 4096 / n_tokens)};
            for (const corpus::TaskInfo & task : corpus::task_list()) {
                if (n_tokens < task.min_tokens) { continue; }
                const auto result = task_accuracy(std::string(task.id), shape, n_samples);
                if (result.status().code() == ErrorCode::kInvalidArgument) { continue; }  // this sample needs more tokens
                if (!result.ok()) { return result.status(); }
                const TaskAccuracy & a = *result;
                if (say) { say(a.id + " at " + std::to_string(n_tokens) + ": " + std::to_string(100 * a.exact) + " %"); }
                all.tasks.push_back(a);
            }
            double nll = 0;
            double weight = 0;
            for (int i = 0; i < 4; ++i) {
                const Batch batch = make_text_batch(*encoder_, recipe_.seed,
                                                    static_cast<uint64_t>(i) * static_cast<uint64_t>(shape.n_sequences), shape);
                PITH_ASSIGN_OR_RETURN(BatchLoss loss, trainer_->evaluate(batch));
                nll += loss.nll_sum;
                weight += loss.weight_sum;
            }
            all.perplexity.emplace_back(n_tokens, std::exp(nll / weight));
            if (say) { say("perplexity at " + std::to_string(n_tokens) + ": " + std::to_string(all.perplexity.back().second)); }
            trainer_->forget_graphs();
        }
        return all;
    }

    Status export_model() {
        if (options_.output.empty()) { return {}; }
        return export_gguf(trainer_->parameters(), vocabulary_, recipe_.name, options_.output);
    }

private:
    std::string checkpoint_path() const { return (std::filesystem::path(options_.work_dir) / "checkpoint.bin").string(); }
    void note(const std::string & line) const {
        if (hooks_.note) { hooks_.note(line); }
    }

    Status save() {
        PITH_RETURN_IF_ERROR(trainer_->save(checkpoint_path(), fingerprint(recipe_, options_.n_threads), at_.to_text()));
        return export_model();
    }

    float learning_rate(const Stage & stage) const {
        const double progress = static_cast<double>(at_.step) / stage.n_steps;
        const double cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
        double rate = stage.final_rate + (stage.learning_rate - stage.final_rate) * cosine;
        const auto run_step = static_cast<double>(trainer_->n_steps() + 1);
        if (run_step < recipe_.warmup_steps) { rate *= run_step / recipe_.warmup_steps; }
        return static_cast<float>(rate);
    }

    // The batch of a step: the stage's lengths come in turn.
    BatchShape shape_of(const Stage & stage, int step) const {
        const size_t turn = static_cast<size_t>(step) % (stage.also.size() + 1);
        if (turn == 0) { return {stage.n_tokens, stage.n_sequences}; }
        const int n_tokens = stage.also[turn - 1];
        return {n_tokens, std::max(trainer_->n_threads(), stage.n_sequences * stage.n_tokens / n_tokens)};
    }

    Status one_stage(const Stage & stage) {
        trainer_->use_bf16(stage.bf16);
        double step_seconds = 0;
        const int last = stage.stop_after > 0 ? stage.stop_after : stage.n_steps;
        while (at_.step < last) {
            const auto start = Clock::now();
            const BatchShape shape = shape_of(stage, at_.step);
            std::vector<Batch> batches;
            uint64_t next = at_.document;
            for (int a = 0; a < stage.accumulate; ++a) {
                const StreamOptions stream{
                    .space = SeedSpace::kTraining, .seed = recipe_.seed, .tasks = stage.tasks, .mixture = stage.documents};
                batches.push_back(make_batch(*encoder_, stream, next, shape));
                next += static_cast<uint64_t>(shape.n_sequences);
            }
            const float rate = learning_rate(stage);
            PITH_ASSIGN_OR_RETURN(StepResult result, trainer_->step(batches, rate));
            at_.document = next;
            at_.tokens_seen += static_cast<int64_t>(shape.size()) * stage.accumulate;
            ++at_.step;
            loss_sum_ += result.loss;
            ++n_losses_;
            const double seconds = seconds_since(start);
            step_seconds = step_seconds == 0 ? seconds : step_seconds + kSpeedMemory * (seconds - step_seconds);
            bool stop = false;
            if (hooks_.progress) {
                stop = !hooks_.progress({.stage = static_cast<int>(at_.stage),
                                         .n_stages = static_cast<int>(recipe_.stages.size()),
                                         .n_tokens = shape.n_tokens,
                                         .step = at_.step,
                                         .n_steps = last,
                                         .loss = result.loss,
                                         .gradient_norm = result.gradient_norm,
                                         .learning_rate = rate,
                                         .tokens_seen = at_.tokens_seen,
                                         .tokens_per_second = shape.size() * stage.accumulate / step_seconds,
                                         .stage_seconds_left = step_seconds * (last - at_.step)});
            }
            double hits = 0;
            if (at_.step % recipe_.validate_every == 0 || at_.step == last) { PITH_ASSIGN_OR_RETURN(hits, validate(stage)); }
            if (stop || at_.step % recipe_.checkpoint_every == 0 || at_.step == last) { PITH_RETURN_IF_ERROR(save()); }
            if (stop) { return {ErrorCode::kCancelled, "stopped; the checkpoint is in '" + options_.work_dir + "'"}; }
            if (hits >= stage.until_hit) { break; }
        }
        return {};
    }

    // Returns the share of the answers' tokens that were the best token.
    Result<double> validate(const Stage & stage) {
        const BatchShape shape{stage.n_tokens, stage.n_sequences};
        ValidationReport report;
        report.n_tokens = shape.n_tokens;
        report.step = trainer_->n_steps();
        std::map<std::string, std::pair<double, double>> by_kind;  // hits, tokens
        double nll = 0, weight = 0, hits = 0, tokens = 0;
        const auto row_size = static_cast<size_t>(shape.n_tokens);
        for (int done = 0; done < recipe_.n_validation; done += shape.n_sequences) {
            std::vector<std::string> kinds;
            const StreamOptions stream{
                .space = SeedSpace::kValidation, .seed = recipe_.seed, .tasks = stage.tasks, .mixture = stage.documents};
            const Batch batch = make_batch(*encoder_, stream, static_cast<uint64_t>(done), shape, &kinds);
            PITH_ASSIGN_OR_RETURN(BatchLoss loss, trainer_->evaluate(batch));
            nll += loss.nll_sum;
            weight += loss.weight_sum;
            for (size_t i = 0; i < batch.weights.size(); ++i) {
                if (batch.weights[i] < kAnswerWeight) { continue; }
                auto & kind = by_kind[kinds[i / row_size]];
                for (double * sum : {&hits, &kind.first}) { *sum += loss.hit[i]; }
                for (double * sum : {&tokens, &kind.second}) { *sum += 1; }
            }
        }
        report.loss = nll / weight;
        report.answer_hits = hits / std::max(tokens, 1.0);
        for (const auto & [kind, sums] : by_kind) { report.hits_by_kind.emplace_back(kind, sums.first / sums.second); }
        if (hooks_.validation) { hooks_.validation(report); }
        PITH_RETURN_IF_ERROR(add_to_curve(report));
        return report.answer_hits;
    }

    Status add_to_curve(const ValidationReport & report) {
        const CurvePoint here{.step = report.step, .tokens_seen = at_.tokens_seen, .n_tokens = report.n_tokens};
        std::vector<CurvePoint> points;
        const auto add = [&](std::string what, double value) {
            points.push_back(here);
            points.back().what = std::move(what);
            points.back().value = value;
        };
        if (n_losses_ > 0) { add("loss", loss_sum_ / n_losses_); }
        loss_sum_ = 0;
        n_losses_ = 0;
        add("held-out loss", report.loss);
        add("held-out answers", report.answer_hits);
        for (const auto & [kind, hits] : report.hits_by_kind) { add("answers of " + kind, hits); }
        return curve_->append(points);
    }

    Result<TaskAccuracy> task_accuracy(const std::string & id, const BatchShape & shape, int n_samples) {
        TaskAccuracy a{id, shape.n_tokens, 0, 0};
        int exact = 0;
        while (a.n_samples < n_samples) {
            corpus::TaskOptions options;
            options.n_tokens = shape.n_tokens;
            options.seed = 2;  // never the samples that the demo asks (1)
            options.index = static_cast<uint64_t>(a.n_samples);
            PITH_ASSIGN_OR_RETURN(Batch batch, make_task_batch(*encoder_, id, options, shape));
            PITH_ASSIGN_OR_RETURN(BatchLoss loss, trainer_->evaluate(batch));
            exact += count_exact(batch, loss);
            a.n_samples += shape.n_sequences;
        }
        a.exact = static_cast<double>(exact) / a.n_samples;
        return a;
    }

    const Recipe & recipe_;
    const TrainOptions & options_;
    const TrainHooks & hooks_;
    Vocabulary vocabulary_;
    std::unique_ptr<Encoder> encoder_;
    std::unique_ptr<Trainer> trainer_;
    Position at_;
    std::unique_ptr<TrainingCurve> curve_;
    double loss_sum_ = 0;  // of the steps since the last validation
    int n_losses_ = 0;
};

}  // namespace

std::string curve_path(const TrainOptions & options) {
    return (std::filesystem::path(options.work_dir) / "curve.csv").string();
}

Status train(const Recipe & recipe, const TrainOptions & options, const TrainHooks & hooks) {
    return guarded_training([&]() -> Status {
        Training run(recipe, options, hooks);
        PITH_RETURN_IF_ERROR(run.prepare());
        if (options.resume) { PITH_RETURN_IF_ERROR(run.resume(false)); }
        return run.all_stages();
    });
}

Result<Evaluation> evaluate_checkpoint(const Recipe & recipe, const TrainOptions & options, const std::vector<int> & lengths,
                                       int n_samples, const std::function<void(const std::string &)> & note) {
    return guarded_training([&]() -> Result<Evaluation> {
        const TrainHooks hooks;
        Training run(recipe, options, hooks);
        PITH_RETURN_IF_ERROR(run.prepare());
        PITH_RETURN_IF_ERROR(run.resume(true));
        return run.evaluate(lengths, n_samples, note);
    });
}

}  // namespace pith::train
