// bench_crowd.cpp - one prefix, its forks, and steps until all have answered.
#include "speed/bench_crowd.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/median.h"
#include "core/stopwatch.h"
#include "core/text.h"
#include "engine/engine_options.h"
#include "speed/random_prompt.h"

namespace pith {
namespace {

class CrowdRunner {
public:
    CrowdRunner(const Model & model, const CrowdOptions & options, Engine engine)
        : model_(model), options_(options), engine_(std::move(engine)), random_(options.seed) {}

    Result<CrowdReport> run() {
        PITH_RETURN_IF_ERROR(read_prefix());
        PITH_RETURN_IF_ERROR(read_tails());
        PITH_RETURN_IF_ERROR(decode());
        report_.ledger = engine_.ledger();
        report_.resident = resident_bytes();
        if (options_.n_long > 0) { PITH_RETURN_IF_ERROR(read_long()); }
        for (const int64_t id : chats_) {
            PITH_ASSIGN_OR_RETURN(const Ledger ledger, engine_.ledger(id));
            report_.kv_full_bytes += ledger.kv_full_bytes;
            report_.n_tokens = std::max(report_.n_tokens, ledger.n_tokens);
        }
        return report_;
    }

private:
    // One step of all; what ends too early has failed.
    Status step(const std::string & what) {
        if (options_.cancel != nullptr && options_.cancel->load()) { return {ErrorCode::kCancelled, "cancelled"}; }
        if (options_.progress) { options_.progress(what); }
        return engine_.step().status();
    }

    Status read_prefix() {
        Request request;
        request.tokens = random_prompt(model_, options_.n_prefix, random_());
        request.options = options_.session;
        request.options.policy = options_.policies.front();
        request.max_tokens = 0;
        request.keep = true;
        PITH_ASSIGN_OR_RETURN(base_, engine_.submit(std::move(request)));
        const Stopwatch watch;
        while (engine_.state(base_) < RequestState::kDone) {
            PITH_RETURN_IF_ERROR(step("prefix, token " + with_commas(engine_.ledger().n_prompt)));
        }
        report_.prefix_tps = static_cast<double>(options_.n_prefix) / watch.seconds();
        return engine_.status(base_);
    }

    Status read_tails() {
        std::uniform_int_distribution<int32_t> pick(0, model_.info().n_vocab - 1);
        for (int i = 0; i < options_.n_chats; ++i) {
            Request request;
            request.tokens = random_prompt(model_, options_.n_tail, random_());
            request.after = base_;
            // Who has been read answers until the last one has, and while the long prompt is read.
            request.max_tokens = options_.n_generate + static_cast<int>(options_.n_tail + n_units()) + 64;
            request.choose = [this, pick](std::span<const float>) mutable { return pick(random_); };
            PITH_ASSIGN_OR_RETURN(const int64_t id, engine_.submit(std::move(request)));
            chats_.push_back(id);
        }
        const EngineLedger before = engine_.ledger();
        const Stopwatch watch;
        PITH_RETURN_IF_ERROR(step("chats"));
        PITH_RETURN_IF_ERROR(count_forks(before.kv_kept_bytes));
        while (!all_answer()) {
            const int64_t n_read = engine_.ledger().n_prompt - before.n_prompt;
            PITH_RETURN_IF_ERROR(
                step("chats, token " + with_commas(n_read) + " of " + with_commas(options_.n_chats * options_.n_tail)));
            for (const int64_t id : chats_) { PITH_RETURN_IF_ERROR(engine_.status(id)); }
        }
        const EngineLedger after = engine_.ledger();
        // Tokens that were answered meanwhile count as well: they shared the passes.
        report_.tail_tps =
            static_cast<double>(after.n_prompt + after.n_generated - before.n_prompt - before.n_generated) / watch.seconds();
        return {};
    }

    // After the first step of all, in which few have rows.
    Status count_forks(size_t kept) {
        size_t added = 0;
        for (const int64_t id : chats_) {
            PITH_ASSIGN_OR_RETURN(const Ledger ledger, engine_.ledger(id));
            if (engine_.state(id) != RequestState::kReading || ledger.n_tokens != options_.n_prefix) { continue; }
            ++report_.n_forks;
            added += ledger.kv_allocated_bytes;
        }
        report_.fork_growth = static_cast<double>(added) / static_cast<double>(kept);
        return {};
    }

    bool all_answer() const {
        return std::ranges::all_of(chats_, [&](int64_t id) { return !engine_.answer(id).empty(); });
    }

    Status decode() {
        const int64_t before = engine_.ledger().n_generated;
        const Stopwatch watch;
        std::vector<double> steps_s;
        for (int i = 0; i < options_.n_generate; ++i) {
            const Stopwatch one;
            PITH_RETURN_IF_ERROR(
                step("answers, token " + std::to_string(i + 1) + " of " + std::to_string(options_.n_generate)));
            steps_s.push_back(one.seconds());
        }
        report_.token_s = median(steps_s);
        report_.decode_tps = static_cast<double>(engine_.ledger().n_generated - before) / watch.seconds();
        for (const int64_t id : chats_) { PITH_RETURN_IF_ERROR(engine_.status(id)); }
        return {};
    }

    // Of the long prompt, at most: a chunk through a layer.
    int64_t n_units() const {
        const int64_t chunk = std::max(options_.session.chunk, 1);
        return options_.n_long == 0 ? 0 : (options_.n_long + chunk - 1) / chunk * model_.info().n_layers;
    }

    // Beside the answers. A step is a token of each, and a unit of the prompt.
    Status read_long() {
        Request request;
        request.tokens = random_prompt(model_, options_.n_long, random_());
        request.options = options_.session;
        request.options.policy = options_.policies.front();
        request.options.prefill = PrefillSchedule::kOneShot;
        request.max_tokens = 1;
        PITH_ASSIGN_OR_RETURN(const int64_t id, engine_.submit(std::move(request)));
        std::vector<double> steps_s;
        while (engine_.state(id) < RequestState::kDone) {
            const Stopwatch one;
            PITH_RETURN_IF_ERROR(step("a prompt in one shot, step " + std::to_string(steps_s.size() + 1)));
            steps_s.push_back(one.seconds());
        }
        PITH_RETURN_IF_ERROR(engine_.status(id));
        report_.n_long_steps = std::ssize(steps_s);
        report_.long_s = std::accumulate(steps_s.begin(), steps_s.end(), 0.0);
        report_.median_gap_s = median(steps_s);
        report_.longest_gap_s = *std::ranges::max_element(steps_s);
        report_.longest_unit_s = engine_.ledger().longest_unit_s;
        return {};
    }

    const Model & model_;
    const CrowdOptions & options_;
    Engine engine_;
    std::mt19937 random_;
    int64_t base_ = 0;
    std::vector<int64_t> chats_;
    CrowdReport report_;
};

}  // namespace

Result<CrowdReport> measure_crowd(const Model & model, const CrowdOptions & options) {
    PITH_RETURN_IF_ERROR(check_at_least("--crowd", options.n_chats, 1));
    PITH_RETURN_IF_ERROR(check_at_least("--prefix", options.n_prefix, 1));
    PITH_RETURN_IF_ERROR(check_at_least("--tail", options.n_tail, 1));
    PITH_RETURN_IF_ERROR(check_at_least("--n-predict", options.n_generate, 1));
    PITH_RETURN_IF_ERROR(check_at_least("--long", options.n_long, 0));
    PITH_RETURN_IF_ERROR(check_at_least("the number of policies", std::ssize(options.policies), 1));
    PITH_ASSIGN_OR_RETURN(Engine engine, model.engine(engine_options(options.session)));
    return CrowdRunner(model, options, std::move(engine)).run();
}

}  // namespace pith
