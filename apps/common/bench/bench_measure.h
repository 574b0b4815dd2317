// bench_measure.h - what the modes of `pith bench` do alike: settings, a model, a measurement that shows how far it is.
#pragma once

#include <string>
#include <utility>

#include "common/base/errors.h"
#include "common/base/interrupt.h"
#include "common/base/ledger_report.h"
#include "common/base/progress.h"
#include "common/flags/engine_flags.h"
#include "engine/probe/bench.h"

namespace pith::app {

// What the command line sets for every mode; what is measured at (depths, lengths, budgets) is the mode's own.
template <class Options>
Options measure_options(const BenchOptions & bench) {
    Options options;
    options.session = bench.session;
    options.policies = bench.policies;
    options.n_generate = bench.n_generate;
    options.n_repetitions = bench.n_repetitions;
    options.seed = bench.seed;
    return options;
}

// Loads the model and runs measure(model, options) under a progress line; Ctrl-C cancels. Returns what measure returns.
template <class Options, class Measure>
auto measure_on(const ModelFlags & flags, Options options, Measure measure)
    -> decltype(measure(std::declval<const Model &>(), options)) {
    const auto model = flags.load();
    if (!model.ok()) { return model.status(); }
    options.cancel = &catch_interrupt();
    ProgressLine line("bench");
    options.progress = [&line](const std::string & what) { line.show_text(what); };
    return measure(*model, options);
}

// Shows what was measured, as JSON or as a table, or says why there is nothing. Returns the exit code.
template <class Report, class AsJson, class AsTable>
int show_measured(const Result<Report> & report, bool json, AsJson as_json, AsTable as_table) {
    if (!report.ok()) { return fail(report.status()); }
    if (json) {
        print_json(as_json(*report));
    } else {
        as_table(*report);
    }
    return kExitOk;
}

// What the object of every mode begins with: the model and the settings, as far as the mode has them.
template <class Options>
Json measurement_json(const std::string & model_path, const Options & options) {
    Json object;
    object["model"] = model_path;
    if constexpr (requires { options.n_prompt; }) { object["n_prompt"] = options.n_prompt; }
    if constexpr (requires { options.n_generate; }) { object["n_generate"] = options.n_generate; }
    object["n_repetitions"] = options.n_repetitions;
    object["n_threads"] = options.session.n_threads;
    object["cache_type_k"] = std::string(to_string(options.session.type_k));
    object["cache_type_v"] = std::string(to_string(options.session.type_v));
    return object;
}

}  // namespace pith::app
