// generator.h - the one thread that drives an engine, and the requests that wait for it. Stage: serve.
//
// HTTP threads hand in jobs and read events; the engine's thread alone touches the engine. A job whose events nobody reads any
// more is cancelled, and its pages are free at once. A prompt that several answers of one request begin with is read once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "core/stopwatch.h"
#include "pith/engine.h"
#include "serve/answer_parser.h"
#include "serve/events.h"
#include "serve/metrics.h"

namespace pith::serve {

struct GeneratorOptions {
    EngineOptions engine;
    int most_waiting = 256;  // requests in line beyond those that run; one more is refused
};

// One answer that somebody waits for.
struct Job {
    std::vector<int32_t> tokens;
    int prompt = 0;  // which of the request's: jobs of one have the same tokens, and differ in how they are sampled alone
    SessionOptions session;
    int n_system = 0;  // the first so many tokens are pinned where there is a budget, and they fit in it; 0: nobody wants that
    bool may_evict = false;  // nobody chose a policy or a budget: where all of it can never fit, `auto` may keep a part
    int max_tokens = 1;      // 0: the prompt is read, no more
    SamplerOptions sampler;
    std::vector<std::string> stop;
    AnswerForm form;
    int n_logprobs = -1;     // -1: none
    int64_t min_tokens = 0;  // before so many the model does not end
    bool ignore_eos = false;
    bool tells_progress = false;
    bool tells_timings = false;  // with every piece
    bool tells_map = false;      // now and then what its cache holds
    int priority = 0;            // lower first: where there is no room, what runs with a higher number is set aside on disk
    double deadline_s = 0;       // since it came: what has been said then is the answer; 0: none
    // Of its states (Request::cache_name, cache_at).
    std::string cache_name;
    std::vector<int32_t> cache_at;
    bool uses_cache = true;
    bool repairs = true;  // Request::repair
};

struct SlotState {
    bool busy = false;
    int64_t task = 0;
    int64_t n_prompt = 0;
    int64_t n_generated = 0;
    bool reading = false;
};

// Of a moment.
struct GeneratorState {
    EngineLedger engine;
    int64_t n_waiting = 0;  // in line, wherever
    int64_t n_running = 0;
    int64_t n_tokens = 0;  // of what runs, prompts and answers
    std::vector<SlotState> slots;
    Metrics metrics;
};

// Threads: any.
class Generator {
public:
    // model and tokenizer must live as long as this. Errors: those of Model::engine().
    static Result<std::unique_ptr<Generator>> start(const Model & model, const Tokenizer & tokenizer,
                                                    const GeneratorOptions & options);
    // What has not ended is cancelled.
    ~Generator();
    Generator(const Generator &) = delete;
    Generator & operator=(const Generator &) = delete;

    // The jobs' events come to `events`, with their index here. Each gets Accepted and in the end AnswerEnd, or Failed.
    // Errors: kInvalidArgument (a sampler that cannot be).
    Status submit(std::vector<Job> jobs, const std::shared_ptr<Events> & events);
    // To be called after Events::abandon().
    void wake();
    // From now on whatever runs or waits ends at once: what has been said is the answer, and what has said nothing fails.
    void cut();

    GeneratorState state() const;
    int64_t n_open() const { return n_open_.load(); }  // jobs that have not ended

private:
    struct Run;
    struct Reading;
    Generator(Engine engine, const ModelInfo & model, const Tokenizer & tokenizer, const GeneratorOptions & options);
    // REQUIRES: mutex_ is held, of these three.
    bool is_full_for(size_t n_jobs) const;
    int64_t seconds_until_room() const;
    Status refuse(size_t n_jobs, Events & events);
    void break_off(const Status & why);
    void work();
    void begin(std::unique_ptr<Run> run);
    Status begin_alone(Run & run);
    Status begin_reading(Run & run);
    Result<int64_t> submit_alone(Run & run);
    Result<int64_t> submit_pinned(Run & run, const SessionOptions & session);
    void go_on_from_readings(const Stopwatch & step);
    void go_on_from(Run & run, int64_t reading);
    void read_alone(Run & run);
    void drop_readings();
    void look_after_runs(const Stopwatch & step);  // the newest
    void look_after(Run & run, const Stopwatch & step);
    void start(Run & run, const Stopwatch & step);
    void end(Run & run);
    void end_answer(Run & run);
    void fail(Run & run, const Status & status);
    void cut_runs();
    void drop(int64_t id);
    void tell_progress(Run & run) const;
    void tell_map(Run & run, bool at_once) const;
    void tell_state();

    const ModelInfo & model_;
    const Tokenizer & tokenizer_;
    GeneratorOptions options_;
    std::vector<int32_t> end_tokens_;
    Engine engine_;

    mutable std::mutex mutex_;  // of what follows
    std::condition_variable wake_;
    std::deque<std::unique_ptr<Run>> inbox_;
    bool ending_ = false;
    bool woken_ = false;
    bool cutting_ = false;
    GeneratorState state_;
    int64_t n_refused_ = 0;

    std::atomic<int64_t> n_open_{0};
    std::vector<std::unique_ptr<Run>> runs_;          // the engine's thread alone
    std::vector<std::shared_ptr<Reading>> readings_;  // that somebody waits for
    std::vector<std::pair<std::shared_ptr<Events>, Event>> ended_;
    Metrics metrics_;             // the engine's thread alone
    std::vector<int64_t> slots_;  // request of each slot, 0: free
    std::atomic<bool> stop_step_{false};
    std::thread thread_;
};

}  // namespace pith::serve
