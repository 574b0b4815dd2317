// metrics.cpp - counters as text. Stage: serve.
#include "serve/metrics.h"

#include <algorithm>

#include "core/text.h"

namespace pith::serve {
namespace {

class Page {
public:
    void counter(const std::string & name, double value, const std::string & help) {
        head(name, "counter", help);
        line(name, value);
    }
    void gauge(const std::string & name, double value, const std::string & help) {
        head(name, "gauge", help);
        line(name, value);
    }
    void histogram(const std::string & name, const Histogram & histogram, const std::string & help) {
        head(name, "histogram", help);
        int64_t n = 0;
        for (size_t i = 0; i < histogram.ranges().size(); ++i) {
            n += histogram.ranges()[i];
            const bool last = i == Histogram::kBounds.size();
            line(name + "_bucket{le=\"" + (last ? "+Inf" : format_number(Histogram::kBounds[i])) + "\"}",
                 static_cast<double>(n));
        }
        line(name + "_sum", histogram.sum());
        line(name + "_count", static_cast<double>(histogram.count()));
    }
    void head(const std::string & name, const char * type, const std::string & help) {
        text_ += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
    }
    void line(const std::string & series, double value) { text_ += series + " " + format_number(value) + "\n"; }
    std::string take() { return std::move(text_); }

private:
    std::string text_;
};

double ratio(double a, double b) {
    return b > 0 ? a / b : 0;
}

// A label's value: quotes, backslashes and line breaks are escaped.
std::string label(const std::string & value) {
    std::string out;
    for (const char c : value) {
        if (c == '"' || c == '\\') { out += '\\'; }
        out += c == '\n' ? ' ' : c;
    }
    return out;
}

void add_llama_names(Page & page, const Metrics & m, const MetricsNow & now) {
    const auto n_prompt = static_cast<double>(m.n_prompt);
    const auto n_generated = static_cast<double>(m.n_generated);
    const auto n_steps = static_cast<double>(now.engine.n_steps);
    const auto held = static_cast<double>(now.engine.kv_allocated_bytes);
    page.counter("llamacpp:prompt_tokens_total", n_prompt, "Prompt tokens read");
    page.counter("llamacpp:prompt_seconds_total", m.prompt_s, "Seconds from a prompt's beginning to the first token, summed");
    page.counter("llamacpp:tokens_predicted_total", n_generated, "Tokens generated");
    page.counter("llamacpp:tokens_predicted_seconds_total", m.predict_s, "Seconds from first to last tokens, summed");
    page.counter("llamacpp:n_decode_total", n_steps, "Passes over the weights");
    page.counter("llamacpp:n_tokens_max", static_cast<double>(m.n_sequence_most), "Tokens of the longest sequence");
    page.gauge("llamacpp:prompt_tokens_seconds", ratio(n_prompt, m.prompt_s), "Prompt tokens a second");
    page.gauge("llamacpp:predicted_tokens_seconds", ratio(n_generated, m.predict_s), "Generated tokens a second");
    page.gauge("llamacpp:requests_processing", static_cast<double>(now.n_running), "Requests that run");
    page.gauge("llamacpp:requests_deferred", static_cast<double>(now.n_waiting), "Requests that wait");
    page.gauge("llamacpp:n_busy_slots_per_decode", ratio(static_cast<double>(m.n_busy), n_steps),
               "Sequences in a pass, on average");
    page.gauge("llamacpp:kv_cache_tokens", static_cast<double>(now.n_tokens), "Tokens of what runs, evicted ones included");
    page.gauge("llamacpp:kv_cache_usage_ratio", ratio(held, static_cast<double>(now.engine.ceiling_bytes)),
               "Held KV memory as a part of the ceiling; 0 without one");
}

}  // namespace

void Histogram::add(double seconds) {
    const auto range = std::ranges::lower_bound(kBounds, seconds) - kBounds.begin();
    ++ranges_[static_cast<size_t>(range)];
    ++count_;
    sum_ += seconds;
}

void Metrics::add(const AnswerCosts & costs) {
    n_prompt += costs.n_prompt - costs.n_cached;
    n_generated += costs.n_generated;
    n_sequence_most = std::max(n_sequence_most, costs.n_prompt + costs.n_generated);
    prompt_s += costs.prompt_s;
    predict_s += costs.predict_s;
    if (const int64_t n_evicted = costs.ledger.evicted_entries - costs.n_evicted_before; n_evicted > 0) {
        const bool told = evicted.contains(costs.ledger.policy) || evicted.size() < kMostPolicies;
        evicted[told ? costs.ledger.policy : "other"] += n_evicted;
    }
    queue.add(costs.queue_s);
    if (costs.n_generated == 0) { return; }
    first_token.add(costs.queue_s + costs.prompt_s);
    whole.add(costs.queue_s + costs.prompt_s + costs.predict_s);
}

std::string prometheus_text(const Metrics & m, const MetricsNow & now) {
    Page page;
    add_llama_names(page, m, now);
    const EngineLedger & engine = now.engine;
    const auto bytes = [](size_t n) { return static_cast<double>(n); };
    page.head("pith_kv_bytes", "gauge",
              "KV memory: held now, reserved for what runs, and (a part of what is held) of states that nobody uses now");
    page.line("pith_kv_bytes{state=\"held\"}", bytes(engine.kv_allocated_bytes));
    page.line("pith_kv_bytes{state=\"reserved\"}", bytes(engine.kv_reserved_bytes));
    page.line("pith_kv_bytes{state=\"idle\"}", bytes(engine.kv_idle_bytes));
    page.gauge("pith_kv_peak_bytes", bytes(engine.kv_peak_bytes), "The most that was ever held");
    page.gauge("pith_device_graph_bytes", bytes(engine.device_graph_bytes),
               "What graphs and hidden states hold of devices; 0 without one");
    page.gauge("pith_kv_budget_bytes", bytes(engine.ceiling_bytes), "Ceiling of all KV memory; 0: none");
    page.head("pith_evicted_entries_total", "counter", "Entries evicted, over all heads, of answers that have ended");
    for (const auto & [policy, n] : m.evicted) {
        page.line("pith_evicted_entries_total{policy=\"" + label(policy) + "\"}", static_cast<double>(n));
    }
    page.gauge("pith_requests_set_aside", static_cast<double>(engine.n_set_aside),
               "Requests that have begun, and whose cache is on disk while those of a lower priority number run");
    page.counter("pith_prefix_queries_total", static_cast<double>(engine.n_cache_sought),
                 "Prompt tokens that were looked for among the states");
    page.counter("pith_prefix_hits_total", static_cast<double>(engine.n_cache_found), "Prompt tokens that were found there");
    page.counter("pith_requests_refused_total", static_cast<double>(m.n_refused), "Answers refused since too many waited");
    page.counter("pith_requests_cancelled_total", static_cast<double>(m.n_cancelled), "Answers whose client went away");
    page.counter("pith_requests_timed_out_total", static_cast<double>(m.n_late),
                 "Answers that said nothing until their deadline");
    page.counter("pith_requests_cut_total", static_cast<double>(m.n_cut),
                 "Answers that had said nothing when the server ended");
    page.counter("pith_requests_failed_total", static_cast<double>(m.n_failed), "Answers that failed");
    page.histogram("pith_time_to_first_token_seconds", m.first_token, "From a request's arrival to its first token");
    page.histogram("pith_inter_token_latency_seconds", m.between_tokens, "Between two tokens of an answer");
    page.histogram("pith_e2e_request_latency_seconds", m.whole, "From a request's arrival to its last token");
    page.histogram("pith_request_queue_time_seconds", m.queue, "From a request's arrival until it began to be read");
    return page.take();
}

}  // namespace pith::serve
