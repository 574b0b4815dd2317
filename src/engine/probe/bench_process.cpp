// bench_process.cpp - measurements in processes of their own, passed back as JSON. Stage: probe.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "core/items.h"
#include "core/median.h"
#include "engine/probe/bench_case.h"
#include "engine/probe/bench_child.h"
#include "engine/probe/child_process.h"

namespace pith {
namespace {

using Json = nlohmann::json;

Json to_json(const BenchMeasurement & measurement) {
    const Ledger & ledger = measurement.ledger;
    Json json;
    json["prefill_tps"] = measurement.prefill_tps;
    json["decode_tps"] = measurement.decode_tps;
    json["rss_peak_bytes"] = measurement.rss_peak_bytes;
    json["prefill_s"] = measurement.prefill_s;
    json["evidence_s"] = measurement.evidence_s;
    json["plan_s"] = measurement.plan_s;
    json["compact_s"] = measurement.compact_s;
    json["policy"] = ledger.policy;
    json["attention"] = ledger.attention;
    json["budget_entries"] = ledger.budget_entries;
    json["evicted_entries"] = ledger.evicted_entries;
    json["kept_entries"] = ledger.kept_entries;
    json["kv_needed_bytes"] = ledger.kv_needed_bytes;
    json["kv_allocated_bytes"] = ledger.kv_allocated_bytes;
    json["kv_peak_bytes"] = ledger.kv_peak_bytes;
    json["evidence_peak_bytes"] = ledger.evidence_peak_bytes;
    json["activation_peak_bytes"] = ledger.activation_peak_bytes;
    json["rss_anonymous_bytes"] = ledger.rss_anonymous_bytes;
    json["rss_anonymous_before_bytes"] = measurement.rss_anonymous_before_bytes;
    return json;
}

BenchMeasurement from_json(const Json & json) {
    BenchMeasurement measurement;
    measurement.prefill_tps = json.at("prefill_tps").get<std::vector<double>>();
    measurement.decode_tps = json.at("decode_tps").get<std::vector<double>>();
    measurement.rss_peak_bytes = json.at("rss_peak_bytes").get<size_t>();
    measurement.prefill_s = json.at("prefill_s").get<double>();
    measurement.evidence_s = json.at("evidence_s").get<double>();
    measurement.plan_s = json.at("plan_s").get<double>();
    measurement.compact_s = json.at("compact_s").get<double>();
    Ledger & ledger = measurement.ledger;
    ledger.policy = json.at("policy").get<std::string>();
    ledger.attention = json.at("attention").get<std::string>();
    ledger.budget_entries = json.at("budget_entries").get<int64_t>();
    ledger.evicted_entries = json.at("evicted_entries").get<int64_t>();
    ledger.kept_entries = json.at("kept_entries").get<int64_t>();
    ledger.kv_needed_bytes = json.at("kv_needed_bytes").get<size_t>();
    ledger.kv_allocated_bytes = json.at("kv_allocated_bytes").get<size_t>();
    ledger.kv_peak_bytes = json.at("kv_peak_bytes").get<size_t>();
    ledger.evidence_peak_bytes = json.at("evidence_peak_bytes").get<size_t>();
    ledger.activation_peak_bytes = json.at("activation_peak_bytes").get<size_t>();
    ledger.rss_anonymous_bytes = json.at("rss_anonymous_bytes").get<size_t>();
    measurement.rss_anonymous_before_bytes = json.at("rss_anonymous_before_bytes").get<size_t>();
    ledger.rss_peak_bytes = measurement.rss_peak_bytes;
    return measurement;
}

std::vector<std::string> llama_bench_command(const BenchOptions & options, int64_t depth, int n_repetitions,
                                             const char * flash_attention) {
    std::vector<std::string> command = llama_command(options.llama, options.model_path, options.session);
    command.insert(command.end(),
                   {"-o", "json", "-fa", flash_attention, "-p", std::to_string(options.n_prompt), "-n",
                    std::to_string(options.n_generate), "-d", std::to_string(depth), "-r", std::to_string(n_repetitions)});
    // Its warm-up is a whole prompt: worth having for short ones, minutes for long ones.
    if (options.n_prompt > 1024) { command.emplace_back("--no-warmup"); }
    return command;
}

}  // namespace

Result<BenchMeasurement> measure_pith(const BenchOptions & options, const BenchCase & bench_case, int n_repetitions) {
    const std::string name = "'" + bench_case.policy.name() + "' at depth " + std::to_string(bench_case.depth);
    PITH_ASSIGN_OR_RETURN(const Json json, measure_in_child(name, [&]() -> Result<Json> {
                              PITH_ASSIGN_OR_RETURN(const BenchMeasurement measured,
                                                    measure_here(options, bench_case, n_repetitions));
                              return to_json(measured);
                          }));
    return from_json(json);
}

namespace {

Result<BenchMeasurement> measure_llama_with(const BenchOptions & options, int64_t depth, int n_repetitions,
                                            const char * flash_attention) {
    PITH_ASSIGN_OR_RETURN(
        const ChildOutput child,
        run_program(llama_bench_command(options, depth, n_repetitions, flash_attention), options.llama.working_folder));
    const Json json = Json::parse(child.text, nullptr, false);
    if (child.exit_code != 0 || !json.is_array()) {
        return {ErrorCode::kUnsupported, "llama-bench ended with code " + std::to_string(child.exit_code) + " at depth " +
                                             std::to_string(depth) + ": leave it out (" + item::kLlamaBench + ")"};
    }
    BenchMeasurement measurement;
    measurement.rss_peak_bytes = child.rss_peak_bytes;
    for (const Json & test : json) {
        const auto samples = test.value("samples_ts", std::vector<double>{});
        (test.value("n_prompt", 0) > 0 ? measurement.prefill_tps : measurement.decode_tps) = samples;
    }
    return measurement;
}

}  // namespace

Result<BenchMeasurement> measure_llama(const BenchOptions & options, int64_t depth, int n_repetitions) {
    PITH_ASSIGN_OR_RETURN(BenchMeasurement best, measure_llama_with(options, depth, n_repetitions, "1"));
    const KvType values = options.session.type_v;
    if (values == KvType::kQ8_0 || values == KvType::kQ4_0) { return best; }  // it reads these with flash attention alone
    PITH_ASSIGN_OR_RETURN(BenchMeasurement other, measure_llama_with(options, depth, n_repetitions, "0"));
    const auto take_faster = [](std::vector<double> & rates, std::vector<double> & others) {
        if (median(others) > median(rates)) { rates.swap(others); }
    };
    take_faster(best.prefill_tps, other.prefill_tps);
    take_faster(best.decode_tps, other.decode_tps);
    best.rss_peak_bytes = std::min(best.rss_peak_bytes, other.rss_peak_bytes);
    return best;
}

}  // namespace pith
