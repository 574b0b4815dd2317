// api_completions.cpp - from a body to jobs, and from their events to a reply. Stage: serve.
#include <algorithm>

#include "policy/auto_policy.h"
#include "policy/policy.h"
#include "serve/api.h"
#include "serve/completion_stream.h"
#include "text/prompt.h"

namespace pith::serve {
namespace {

// A policy that evicts wants a budget, one that does not wants none: the server's own where the request says nothing.
Status choose_policy(const CompletionOptions & asked, SessionOptions & session) {
    if (asked.kv_budget) { session.budget = *asked.kv_budget; }
    if (!asked.kv_policy) { return {}; }
    session.policy = *asked.kv_policy;
    if (is_auto(session.policy)) { return {}; }
    PITH_ASSIGN_OR_RETURN(const Policy policy, Policy::parse(session.policy));
    if (policy.evicts() && session.budget.kind == BudgetKind::kNone) {
        return {ErrorCode::kInvalidArgument,
                "'kv_policy' is '" + session.policy +
                    "', which needs a budget: add 'kv_budget', 1024 (tokens a head), \"20%\" or \"64M\""};
    }
    if (!policy.evicts()) {
        if (asked.kv_budget) {
            return {ErrorCode::kInvalidArgument,
                    "'kv_policy' is '" + session.policy + "', which evicts nothing: leave out 'kv_budget'"};
        }
        session.budget = {};
    }
    return {};
}

}  // namespace

Result<Api::Prompt> Api::chat_prompt(const std::vector<ChatMessage> & messages, bool find_system) const {
    PITH_ASSIGN_OR_RETURN(const std::string text, tokenizer_.apply_chat_template(messages, /*add_assistant=*/true));
    Prompt prompt;
    PITH_ASSIGN_OR_RETURN(prompt.tokens, tokenizer_.encode(text, /*add_special=*/true, /*parse_special=*/true));
    size_t n_system = 0;
    while (n_system < messages.size() && messages[n_system].role == "system") { ++n_system; }
    if (!find_system || n_system == 0) { return prompt; }
    const auto system = tokenizer_.apply_chat_template(std::span(messages).first(n_system), /*add_assistant=*/false);
    if (!system.ok()) { return prompt; }  // a template that wants a user: nothing is known of the border
    PITH_ASSIGN_OR_RETURN(const auto tokens, tokenizer_.encode(*system, true, true));
    prompt.n_system = static_cast<int>(common_prefix(tokens, prompt.tokens));
    return prompt;
}

Result<Job> Api::job_of(const Prompt & prompt, const CompletionOptions & options) const {
    Job job;
    job.tokens = prompt.tokens;
    job.session = options_.session;
    PITH_RETURN_IF_ERROR(choose_policy(options, job.session));
    job.may_evict = is_auto(job.session.policy) && job.session.budget.kind == BudgetKind::kNone;
    const auto n_prompt = static_cast<int64_t>(prompt.tokens.size());
    for (const PositionSpan & pin : options.kv_pin) {
        if (pin.end > n_prompt) {
            return {ErrorCode::kInvalidArgument,
                    "'kv_pin' ends at token " + std::to_string(pin.end) + ": the prompt has " + std::to_string(n_prompt)};
        }
        job.session.pinned.push_back(pin);
    }
    if (options.pin_system && prompt.n_system > 0) { job.session.pinned.push_back({0, prompt.n_system}); }
    const int64_t room = options_.n_context - n_prompt;
    job.max_tokens = static_cast<int>(options.max_tokens < 0 ? room : std::min(room, options.max_tokens));
    job.sampler = options.sampler;
    job.stop = options.stop;
    job.n_logprobs = options.n_logprobs;
    job.ignore_eos = options.ignore_eos;
    job.tells_progress = options.stream && options.return_progress;
    job.tells_timings = options.stream && options.timings_per_token;
    return job;
}

ApiReply Api::chat(const ApiRequest & request) {
    const auto body = parse_body(request.body);
    if (!body.ok()) { return reply_of(error_of(body.status())); }
    const auto asked = parse_chat_request(*body, options_.defaults, tokenizer_);
    if (!asked.ok()) { return reply_of(error_of(asked.status())); }
    if (!tokenizer_.has_chat_template()) {
        return reply_of(ApiError{501, "not_supported_error", "this model has no chat template: use /v1/completions"});
    }
    auto prompt = chat_prompt(asked->messages, asked->options.pin_system);
    if (!prompt.ok()) { return reply_of(error_of(prompt.status())); }
    return complete(request, CompletionShape::Kind::kChat, {std::move(*prompt)}, asked->options);
}

ApiReply Api::text(const ApiRequest & request) {
    const auto body = parse_body(request.body);
    if (!body.ok()) { return reply_of(error_of(body.status())); }
    auto asked = parse_text_request(*body, options_.defaults, tokenizer_);
    if (!asked.ok()) { return reply_of(error_of(asked.status())); }
    std::vector<Prompt> prompts;
    for (TextPrompt & one : asked->prompts) {
        if (auto * tokens = std::get_if<std::vector<int32_t>>(&one)) {
            prompts.push_back({std::move(*tokens), 0});
            continue;
        }
        auto tokens = tokenizer_.encode(std::get<std::string>(one), /*add_special=*/true, /*parse_special=*/true);
        if (!tokens.ok()) { return reply_of(error_of(tokens.status())); }
        prompts.push_back({std::move(*tokens), 0});
    }
    return complete(request, CompletionShape::Kind::kText, prompts, asked->options);
}

ApiReply Api::complete(const ApiRequest & request, CompletionShape::Kind kind, const std::vector<Prompt> & prompts,
                       const CompletionOptions & options) {
    if (closed_) { return reply_of(not_ready("the server is about to end")); }
    std::vector<Job> jobs;
    std::vector<int64_t> n_prompt;
    for (const Prompt & prompt : prompts) {
        const auto n = static_cast<int64_t>(prompt.tokens.size());
        if (n == 0) { return reply_of(invalid_request("the prompt is empty, and this model begins with no token of its own")); }
        if (n >= options_.n_context) { return reply_of(too_long(n, options_.n_context)); }
        auto job = job_of(prompt, options);
        if (!job.ok()) { return reply_of(error_of(job.status())); }
        for (int i = 0; i < options.n; ++i) {
            jobs.push_back(*job);
            if (jobs.back().sampler.seed != SamplerOptions().seed) { jobs.back().sampler.seed += static_cast<uint32_t>(i); }
            n_prompt.push_back(n);
        }
    }
    const size_t n_answers = jobs.size();
    auto events = std::make_shared<Events>();
    auto pending = std::make_unique<PendingAnswers>(generator_, events, n_answers);
    if (const Status status = generator_.submit(std::move(jobs), events); !status.ok()) { return reply_of(error_of(status)); }
    if (const auto failed = pending->wait_until_accepted(request.gone)) { return reply_of(error_of(*failed)); }

    CompletionShape shape(kind, options_.model_name, options_.version, options.n_logprobs >= 0, tokenizer_);
    if (options.stream) {
        ApiReply reply;
        reply.content_type = "text/event-stream";
        reply.headers.emplace_back("Cache-Control", "no-cache");
        reply.headers.emplace_back("X-Accel-Buffering", "no");  // nginx would hold pieces back
        const StreamOptions how{options.include_usage};
        reply.stream = std::make_shared<CompletionStream>(std::move(pending), std::move(shape), std::move(n_prompt), how);
        return reply;
    }
    std::vector<WholeAnswer> answers(n_answers);
    while (pending->n_open() > 0) {
        auto event = pending->next();
        if (!event) {
            if (request.gone()) { return reply_of(not_ready("the client is gone")); }
            continue;
        }
        WholeAnswer & answer = answers[static_cast<size_t>(event->index)];
        if (auto * piece = std::get_if<AnswerPiece>(&event->what)) {
            answer.text += piece->text;
            std::ranges::move(piece->logprobs, std::back_inserter(answer.logprobs));
        } else if (auto * end = std::get_if<AnswerEnd>(&event->what)) {
            answer.end = std::move(*end);
        } else if (const auto * failed = std::get_if<Failed>(&event->what)) {
            return reply_of(error_of(*failed));
        }
    }
    ApiReply reply;
    reply.body = dump(shape.whole(answers));
    return reply;
}

}  // namespace pith::serve
