// run_job.cpp - see run_job.h.
#include "app/run/run_job.h"

namespace pith::app {

bool RunJob::shares_context() const {
    const bool once = flags.question_later || (!flags.question_aware && request.questions.size() > 1);
    return once && !request.context.empty() && !request.questions.front().empty();
}

// A prompt without a context is all question: nothing of it can be judged by the rest.
int RunJob::n_question(size_t index) const {
    const bool asks = !request.context.empty() && !request.questions[index].empty();
    return asks ? static_cast<int>(prompt.questions[index].size()) : 0;
}

std::vector<int32_t> RunJob::all_questions() const {
    std::vector<int32_t> all;
    for (const auto & one : prompt.questions) { all.insert(all.end(), one.begin(), one.end()); }
    return all;
}

GenerateOptions RunJob::answer_options() const {
    GenerateOptions answer;
    answer.ignore_eos = flags.ignore_eos;
    answer.stream = false;
    answer.reverse_prompts = reverse_prompts;
    answer.reasoning = flags.reasoning_marks;
    answer.hide_reasoning = flags.chat_template.hides_reasoning();
    answer.n_logprobs = flags.n_logprobs;
    return answer;
}

void tell_of_sight(const RunJob & job, bool seen, size_t n_tokens, const Ledger & ledger, RunOutcome & outcome) {
    if (n_tokens == 0 || (!seen && ledger.evicted_entries == 0)) { return; }
    outcome.in_sight = seen;
    if (!seen) {
        warn_of_unseen_questions(ledger, n_tokens, job.options.chunk, "; --question-aware compresses it for each of them");
    }
}

}  // namespace pith::app
