// bench_batch.cpp - batches in one child, llama-batched-bench in another.
#include "speed/bench_batch.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <utility>

#include "core/check.h"
#include "core/median.h"
#include "core/stopwatch.h"
#include "engine/engine_options.h"
#include "engine/probe/bench_child.h"
#include "engine/probe/child_process.h"
#include "policy/named_policy.h"
#include "speed/random_prompt.h"

namespace pith {
namespace {

using Json = nlohmann::json;

constexpr int kPromptTokens = 512;
constexpr int kUntimedSteps = 2;

struct Case {
    int64_t depth = 0;
    PolicyChoice policy;
    bool evicts = false;
    bool own = false;  // evicted by each request, not once for all
};

// What one child measures: all batches of a case.
class CaseRunner {
public:
    CaseRunner(const BatchBenchOptions & options, const Case & one, Model model)
        : options_(options), case_(one), model_(std::move(model)), random_(options.seed) {}

    Result<Json> run() {
        Json out;
        PITH_ASSIGN_OR_RETURN(out["prompt_tps"], prompt_tps());
        PITH_ASSIGN_OR_RETURN(Engine engine, model_.engine(engine_options(options_.session)));
        PITH_ASSIGN_OR_RETURN(const int64_t base, read_prompt(engine));
        out["batches"] = Json::array();
        for (const int batch : options_.batches) {
            PITH_ASSIGN_OR_RETURN(Json row, decode(engine, base, batch));
            out["batches"].push_back(std::move(row));
        }
        return out;
    }

private:
    std::vector<int32_t> some_tokens(int64_t n) { return random_prompt(model_, n, random_()); }

    Result<double> prompt_tps() {
        SessionOptions full = options_.session;
        full.policy = "full";
        full.budget = Budget();
        double seconds = 0;
        for (int i = 0; i < 2; ++i) {  // the first warms up
            PITH_ASSIGN_OR_RETURN(Session session, model_.session(full));
            const std::vector<int32_t> tokens = some_tokens(kPromptTokens);
            const Stopwatch watch;
            PITH_RETURN_IF_ERROR(session.prefill(tokens));
            seconds = watch.seconds();
        }
        return kPromptTokens / seconds;
    }

    Result<int64_t> read_prompt(Engine & engine) {
        Request request;
        request.tokens = some_tokens(std::max<int64_t>(case_.depth, 1));
        request.options = options_.session;
        request.options.policy = case_.own ? PolicyChoice("full") : case_.policy;
        if (case_.own) { request.options.observe = {case_.policy}; }
        if (case_.own || !case_.evicts) { request.options.budget = Budget(); }
        request.max_tokens = 0;
        request.keep = true;
        PITH_ASSIGN_OR_RETURN(const int64_t id, engine.submit(std::move(request)));
        PITH_RETURN_IF_ERROR(engine.run());
        PITH_RETURN_IF_ERROR(engine.status(id));
        return id;
    }

    Result<Json> decode(Engine & engine, int64_t base, int batch) {
        std::uniform_int_distribution<int32_t> pick(0, model_.info().n_vocab - 1);
        std::vector<int64_t> ids;
        for (int i = 0; i < batch; ++i) {
            Request request;
            request.tokens = some_tokens(1);
            request.after = base;
            if (case_.own) { request.evict = Eviction{case_.policy, options_.session.budget}; }
            // Those that evict for themselves begin one after the other, and answer until the last one has.
            request.max_tokens = options_.n_generate + 2 * kUntimedSteps + 1 + batch;
            request.choose = [this, pick](std::span<const float>) mutable { return pick(random_); };
            PITH_ASSIGN_OR_RETURN(const int64_t id, engine.submit(std::move(request)));
            ids.push_back(id);
        }
        const auto all_answer = [&] {
            return std::ranges::all_of(ids, [&](int64_t id) { return !engine.answer(id).empty(); });
        };
        while (!all_answer()) {
            PITH_RETURN_IF_ERROR(engine.step().status());
            for (const int64_t id : ids) { PITH_RETURN_IF_ERROR(engine.status(id)); }
        }
        for (int i = 0; i < kUntimedSteps; ++i) { PITH_RETURN_IF_ERROR(engine.step().status()); }
        const EngineLedger before = engine.ledger();
        const Stopwatch watch;
        for (int i = 0; i < options_.n_generate; ++i) { PITH_RETURN_IF_ERROR(engine.step().status()); }
        const double seconds = watch.seconds();
        const EngineLedger after = engine.ledger();
        Json row;
        row["batch"] = batch;
        row["tps"] = static_cast<double>(after.n_generated - before.n_generated) / seconds;
        row["schedule_share"] = (after.schedule_s - before.schedule_s) / (after.step_s - before.step_s);
        row["kv_bytes"] = after.kv_allocated_bytes;
        for (const int64_t id : ids) {
            PITH_RETURN_IF_ERROR(engine.cancel(id));
            PITH_RETURN_IF_ERROR(engine.forget(id));
        }
        return row;
    }

    const BatchBenchOptions & options_;
    const Case & case_;
    Model model_;
    std::mt19937 random_;
};

Result<Json> measure_pith(const BatchBenchOptions & options, const Case & one) {
    const std::string name = "'" + one.policy.name() + "' at depth " + std::to_string(one.depth);
    return measure_in_child(name, [&]() -> Result<Json> {
        PITH_ASSIGN_OR_RETURN(Model model, Model::load(options.model_path, options.model));
        return CaseRunner(options, one, std::move(model)).run();
    });
}

// Tokens a second, batch by batch.
Result<std::vector<double>> measure_llama_with(const BatchBenchOptions & options, int64_t depth, const char * flash_attention) {
    const int64_t most = *std::ranges::max_element(options.batches);
    const int64_t n_prompt = std::max<int64_t>(depth, 1);
    std::string batches;
    for (const int batch : options.batches) { batches += (batches.empty() ? "" : ",") + std::to_string(batch); }
    std::vector<std::string> command = llama_command(options.llama, options.model_path, options.session);
    command.insert(command.end(), {"-c", std::to_string(most * (n_prompt + options.n_generate + 1) + 64), "-npp",
                                   std::to_string(n_prompt), "-ntg", std::to_string(options.n_generate), "-npl", batches, "-fa",
                                   flash_attention, "--output-format", "jsonl", "-pps"});
    PITH_ASSIGN_OR_RETURN(const ChildOutput child, run_program(command, options.llama.working_folder));
    std::vector<double> tps;
    std::istringstream lines(child.text);
    for (std::string line; std::getline(lines, line);) {
        const Json json = Json::parse(line, nullptr, false);
        if (json.is_object() && json.contains("speed_tg")) { tps.push_back(json["speed_tg"].get<double>()); }
    }
    if (child.exit_code != 0 || tps.size() != options.batches.size()) {
        return {ErrorCode::kUnsupported, "llama-batched-bench ended with code " + std::to_string(child.exit_code) + " and " +
                                             std::to_string(tps.size()) + " of " + std::to_string(options.batches.size()) +
                                             " measurements at depth " + std::to_string(depth) +
                                             ": leave it out with --no-llama"};
    }
    return tps;
}

// With flash attention or without, the faster one for each batch.
Result<std::vector<double>> measure_llama(const BatchBenchOptions & options, int64_t depth) {
    PITH_ASSIGN_OR_RETURN(std::vector<double> best, measure_llama_with(options, depth, "on"));
    const KvType values = options.session.type_v;
    if (values == KvType::kQ8_0 || values == KvType::kQ4_0) { return best; }  // it reads these with flash attention alone
    PITH_ASSIGN_OR_RETURN(const std::vector<double> other, measure_llama_with(options, depth, "off"));
    for (size_t i = 0; i < best.size(); ++i) { best[i] = std::max(best[i], other[i]); }
    return best;
}

Status check(const BatchBenchOptions & options) {
    PITH_RETURN_IF_ERROR(check_at_least("--n-predict", options.n_generate, 1));
    PITH_RETURN_IF_ERROR(check_at_least("--repetitions", options.n_repetitions, 1));
    PITH_RETURN_IF_ERROR(check_at_least("the number of batches", std::ssize(options.batches), 1));
    for (const int batch : options.batches) { PITH_RETURN_IF_ERROR(check_at_least("--batch", batch, 1)); }
    for (const int64_t depth : options.depths) { PITH_RETURN_IF_ERROR(check_at_least("--depth", depth, 0)); }
    return {};
}

void tell(const BatchBenchOptions & options, int round, const std::string & who, int64_t depth) {
    if (!options.progress) { return; }
    options.progress(who + " at depth " + std::to_string(depth) + ", round " + std::to_string(round + 1) + " of " +
                     std::to_string(options.n_repetitions));
}

}  // namespace

Result<std::vector<BatchRow>> run_batch_bench(const BatchBenchOptions & options) {
    PITH_RETURN_IF_ERROR(check(options));
    std::vector<Case> cases;
    std::vector<BatchRow> rows;  // [case][batch]
    for (const int64_t depth : options.depths) {
        for (const PolicyChoice & choice : options.policies) {
            PITH_ASSIGN_OR_RETURN(const Policy policy, named_policy(choice));
            cases.push_back({depth, choice, policy.evicts(), policy.evicts() && options.own});
            for (const int batch : options.batches) {
                BatchRow & row = rows.emplace_back();
                row.depth = depth;
                row.policy = policy.name();
                row.budget = policy.evicts() ? options.session.budget.to_string() : "";
                row.batch = batch;
            }
        }
    }
    const size_t n_batches = options.batches.size();
    std::vector<std::vector<double>> ratios(rows.size());
    for (int round = 0; round < options.n_repetitions; ++round) {
        std::vector<double> llama;
        for (size_t c = 0; c < cases.size(); ++c) {
            const Case & one = cases[c];
            if (!options.llama.command.empty() && (c == 0 || cases[c - 1].depth != one.depth)) {
                tell(options, round, "llama.cpp", one.depth);
                PITH_ASSIGN_OR_RETURN(llama, measure_llama(options, one.depth));
            }
            tell(options, round, one.policy.name(), one.depth);
            PITH_ASSIGN_OR_RETURN(const Json measured, measure_pith(options, one));
            for (size_t b = 0; b < n_batches; ++b) {
                BatchRow & row = rows[c * n_batches + b];
                const Json & from = measured.at("batches").at(b);
                row.tps.push_back(from.at("tps").get<double>());
                row.prompt_tps.push_back(measured.at("prompt_tps").get<double>());
                row.schedule_share.push_back(from.at("schedule_share").get<double>());
                row.kv_bytes = from.at("kv_bytes").get<size_t>();
                if (llama.empty()) { continue; }
                row.llama_tps.push_back(llama[b]);
                ratios[c * n_batches + b].push_back(row.tps.back() / llama[b]);
            }
        }
    }
    for (size_t i = 0; i < rows.size(); ++i) { rows[i].ratio = median(ratios[i]); }
    return rows;
}

}  // namespace pith
