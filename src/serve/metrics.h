// metrics.h - what a server counts, as Prometheus reads it. Stage: serve.
//
// Names: `llamacpp:` as llama-server has them, so that its dashboards go on; `pith_` is Pith's own, with vLLM's names for
// times. Pure C++. Threads: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "pith/batch_engine.h"
#include "serve/shapes/answer.h"

namespace pith::serve {

// How often a time came into each of some ranges.
class Histogram {
public:
    // Seconds, a range's end. A long prompt on a CPU takes minutes.
    static constexpr std::array<double, 18> kBounds = {0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                                       2.5,   5,     10,   30,    60,   120, 300,  600, 1800};
    void add(double seconds);
    int64_t count() const { return count_; }
    double sum() const { return sum_; }
    std::span<const int64_t> ranges() const { return ranges_; }  // one more than bounds: what is above all

private:
    std::array<int64_t, kBounds.size() + 1> ranges_{};
    int64_t count_ = 0;
    double sum_ = 0;
};

struct Metrics {
    int64_t n_prompt = 0;
    int64_t n_generated = 0;
    int64_t n_sequence_most = 0;  // tokens of the longest
    int64_t n_refused = 0;        // 429
    int64_t n_cancelled = 0;
    int64_t n_late = 0;  // 504
    int64_t n_cut = 0;   // 503, since the server ends
    int64_t n_failed = 0;
    double prompt_s = 0;
    double predict_s = 0;
    int64_t n_busy = 0;                          // sequences that ran, summed over steps
    static constexpr size_t kMostPolicies = 64;  // that are told apart: clients name them, and each is a series
    std::map<std::string, int64_t> evicted;      // entries, by policy
    Histogram first_token;
    Histogram between_tokens;
    Histogram whole;
    Histogram queue;

    void add(const AnswerCosts & costs);
};

// Of a server's present.
struct MetricsNow {
    EngineLedger engine;
    int64_t n_running = 0;
    int64_t n_waiting = 0;
    int64_t n_tokens = 0;  // of what runs
};

// The exposition format, version 0.0.4.
std::string prometheus_text(const Metrics & metrics, const MetricsNow & now);

}  // namespace pith::serve
