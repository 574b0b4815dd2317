// bench_measure.h - what the modes of `pith bench` do alike: settings, a model, a measurement that shows how far it is.
#pragma once

#include <string>
#include <utility>

#include "app/base/interrupt.h"
#include "app/base/ledger_report.h"
#include "app/base/progress.h"
#include "app/flags/engine_flags.h"
#include "bench/bench.h"

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

inline void add_session_settings(Json & object, const SessionOptions & session) {
    object["n_threads"] = session.n_threads;
    object["cache_type_k"] = std::string(to_string(session.type_k));
    object["cache_type_v"] = std::string(to_string(session.type_v));
}

}  // namespace pith::app
