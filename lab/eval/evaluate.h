// evaluate.h - a benchmark's tasks under many policies and budgets: which samples, which cases, and the run over all cores.
// Stage: eval.
//
//   plan_evaluation   samples → prompts → units (texts that share a prefill), cases, and what the run is (RunInfo)
//   run_evaluation    every unit under every case that the folder has no answer to yet; answers go to the folder as they come
//
// One-shot prefill (the default): a unit is prefilled once in full, and evicted under each case from there (exact:
// Session::evict()). Chunked, or `share` off: a prefill for each case. Samples on one context share it where the question is
// not compressed with it. Nothing is evicted while a question is read or answered, unless session.evict_every says so. Which
// answers come first depends on the cores; the answers do not, but for ties where several decode together. Errors: those of
// tasks (kBadFile: a data file), tokeniser, sessions and the folder; kCancelled. Threads: one evaluation at a time; it starts
// n_jobs threads of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/benchmark.h"
#include "engine/probe/policy_cases.h"
#include "eval/run_folder.h"
#include "eval/sample_file.h"
#include "eval/sample_prompt.h"
#include "pith/model.h"
#include "pith/text.h"

namespace pith {

struct EvalOptions {
    EvalOptions() {
        session.evict_every = 0;
        session.prefill = PrefillSchedule::kOneShot;
    }
    std::string family;
    std::vector<const benchmarks::Task *> tasks;  // perplexity: none
    std::vector<int> lengths = {0};               // 0: as the data is
    std::vector<PolicyChoice> policies;           // the full cache is always among them
    std::vector<Budget> budgets;
    int n_samples = 0;  // of each task and length; 0: all there are
    uint64_t seed = 1;
    std::map<std::string, std::string> files;  // text by TaskRules::file
    std::string haystack;                      // text for essays; empty: the tasks' own
    std::vector<std::string> texts;            // perplexity: documents; empty: the built-in generator's
    bool question_aware = false;
    bool guided = false;  // question-aware, in chunks: every chunk is judged by the question (RunHooks::n_question)
    bool raw = false;     // no chat template
    bool share = true;    // one prefill for all cases, where that is exact
    int n_ctx = 0;        // tokens the model takes; 0: what it was trained on
    int n_new = 0;        // tokens of an answer at most, where the task allows more; 0: as the task has it
    // Asked in place of what the tasks would make or read (sample_file.h): those of `tasks` and `lengths`, in their order.
    std::vector<FileSample> ready_samples;
    std::string samples_hash;   // of their file
    bool keep_prompts = false;  // in the answers; changes none of them
    std::string prefill_cache;  // a folder of prompts that were read (kept_prefill.h); empty: none is kept
    SessionOptions session;     // types, chunk, schedule, evict_every, heads; policy and budget are the cases'

    SessionOptions session_of(const PolicyCase & one) const;
    bool one_shot() const { return session.prefill == PrefillSchedule::kOneShot; }
};

// One turn of one sample, ready to be asked.
struct EvalQuestion {
    Answer key;  // all that is known before the answer; policy and budget are the case's
    const benchmarks::Task * task = nullptr;
    const benchmarks::Sample * sample = nullptr;
    size_t turn = 0;
    std::vector<int32_t> feed;       // after what is compressed, or after the turn before
    std::vector<int32_t> follow_up;  // after feed, instead of what was answered
    std::vector<std::vector<int32_t>> choices;
    int n_new = 0;  // tokens at most
    bool stop_at_newline = false;
};

// What is prefilled once and compressed, and what is asked of it.
struct EvalUnit {
    std::vector<int32_t> compressed;
    std::vector<EvalQuestion> questions;
    RereadPrompt reread;      // what asks for `compressed` once more
    int n_question = 0;       // tokens at the end of `compressed` that are in sight of all that is evicted
    bool dialogue = false;    // a question follows the one before; else all follow the compressed prompt
    bool perplexity = false;  // no questions: the likelihood of `compressed` under running eviction; questions[0] has the key
};

struct EvalPlan {
    RunInfo info;
    std::vector<PolicyCase> cases;
    std::vector<EvalUnit> units;
    std::vector<Answer> left_out;  // samples the model cannot take, and tasks without a sample that fits the length
    std::vector<std::unique_ptr<std::vector<benchmarks::Sample>>> samples;  // what questions point to

    struct Stretches {
        int length = 0;
        int n_read = 0;
        int n_all = 0;
    };
    std::vector<Stretches> stretches;  // perplexity: of each length, how many of the texts' are read

    int n_answers() const;  // all of the run's
};

// info.settings and info.about are extended, not replaced, by what the caller knows (versions, machine).
// A task that has no sample short enough is left out at that length, and the others are asked; an error where nothing is left
// to ask.
Result<EvalPlan> plan_evaluation(const Model & model, const Tokenizer & tokenizer, const EvalOptions & options);

struct EvalHooks {
    std::function<void(int n_done, int n_total)> progress;  // answers; from any thread, one at a time
    // Tokens of prompts, and of perplexities, that are read, of all that are to be read for the answers to come; likewise.
    std::function<void(int64_t n_done, int64_t n_total)> read;
    const std::atomic<bool> * cancel = nullptr;
    int n_jobs = 1;
    int n_parallel = 1;  // answers of a job that decode together (ask_together.h); 1: one after the other, a session each
};

Status run_evaluation(const Model & model, const Tokenizer & tokenizer, const EvalOptions & options, const EvalPlan & plan,
                      RunFolder & folder, const EvalHooks & hooks);

}  // namespace pith
