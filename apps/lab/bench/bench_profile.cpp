// bench_profile.cpp - the table of where a token's time goes.
#include "speed/bench_profile.h"

#include <algorithm>
#include <cstdio>

#include "app/bench/bench_modes.h"
#include "common/bench/bench_measure.h"

namespace pith::app {
namespace {

double milliseconds_per_token(double seconds, const PhaseProfile & phase) {
    return 1000 * seconds / static_cast<double>(phase.n_tokens);
}

void print_phase(const ProfileRow & row, const PhaseProfile & phase) {
    std::printf("%s, %s%s%s, %lld tokens%s%s: %.3f ms a token; %.3f without the profile (%+.1f %%)\n", phase.name.c_str(),
                row.policy.c_str(), row.budget.empty() ? "" : ", budget ", row.budget.c_str(),
                static_cast<long long>(phase.n_tokens), phase.name == "decode" ? " at depth " : "",
                phase.name == "decode" ? std::to_string(row.depth).c_str() : "", milliseconds_per_token(phase.total_s, phase),
                milliseconds_per_token(phase.plain_s, phase), 100 * (phase.total_s / phase.plain_s - 1));
    for (const TimePart & part : phase.parts) {
        std::printf("  %-11s %9.3f ms %6.2f %%\n", part.name.c_str(), milliseconds_per_token(part.seconds, phase),
                    100 * part.seconds / phase.total_s);
    }
    std::puts("");
}

Json to_json(const std::string & model_path, const ProfileOptions & options, const std::vector<ProfileRow> & rows) {
    Json object = measurement_json(model_path, options);
    object["rows"] = Json::array();
    for (const ProfileRow & row : rows) {
        for (const PhaseProfile & phase : row.phases) {
            Json out;
            out["depth"] = row.depth;
            out["policy"] = row.policy;
            out["budget"] = row.budget;
            out["phase"] = phase.name;
            out["n_tokens"] = phase.n_tokens;
            out["plain_s"] = phase.plain_s;
            out["total_s"] = phase.total_s;
            for (const TimePart & part : phase.parts) { out["parts_s"][part.name] = part.seconds; }
            object["rows"].push_back(std::move(out));
        }
    }
    return object;
}

}  // namespace

int bench_profile(const ModelFlags & model_flags, const BenchOptions & bench, bool json) {
    auto options = measure_options<ProfileOptions>(bench);
    options.depths = bench.depths;
    std::replace(options.depths.begin(), options.depths.end(), int64_t{0}, static_cast<int64_t>(bench.n_prompt));
    const auto rows = measure_on(model_flags, options, measure_profile);
    return show_measured(
        rows, json, [&](const auto & all) { return to_json(model_flags.path, options, all); },
        [](const std::vector<ProfileRow> & all) {
            for (const ProfileRow & row : all) {
                for (const PhaseProfile & phase : row.phases) { print_phase(row, phase); }
            }
        });
}

}  // namespace pith::app
