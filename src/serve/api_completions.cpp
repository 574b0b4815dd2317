// api_completions.cpp - from a body to jobs, and from their events to a reply. Stage: serve.
#include <algorithm>
#include <array>
#include <set>

#include "core/log_once.h"
#include "core/text.h"
#include "policy/named_policy.h"
#include "policy/tolerance.h"
#include "serve/api.h"
#include "serve/completion_stream.h"
#include "serve/prompt_length.h"
#include "serve/shapes/fields.h"
#include "text/grammar_choice.h"
#include "text/json_grammar.h"
#include "text/lost_messages.h"
#include "text/plain_text.h"
#include "text/prompt.h"
#include "text/tagged_call.h"
#include "text/tool_grammar.h"

namespace pith::serve {
namespace {

// Tokens at a prompt's end that may be a question, where others may be asked of what stands before.
constexpr int64_t kQuestion = 128;

// Ends of messages that are told: the last user's, the answer's before it, and one more where functions are called between.
constexpr size_t kMostEnds = 3;

// Where the prompt's last messages end: behind the tokens by which the model ends its own.
std::vector<int32_t> last_message_ends(const Tokenizer & tokenizer, std::span<const int32_t> tokens) {
    std::vector<int32_t> ends;
    for (size_t n = tokens.size(); n > 0 && ends.size() < kMostEnds; --n) {
        if (tokenizer.is_end_of_generation(tokens[n - 1])) { ends.push_back(static_cast<int32_t>(n)); }
    }
    return ends;
}

// Where the text holds what was said for the last time; npos: nowhere. Looked for by its end, which is short: a search for the
// whole of it can take time with the square of its length.
size_t last_place_of(std::string_view said, std::string_view text) {
    constexpr size_t kEnd = 256;  // bytes
    const std::string_view end = said.substr(said.size() - std::min(said.size(), kEnd));
    const size_t at = text.rfind(end);
    if (at == std::string_view::npos) { return at; }
    const size_t behind = at + end.size();
    return text.substr(0, behind).ends_with(said) ? behind - said.size() : std::string_view::npos;
}

// How many tokens stand before the message's last paragraph: there may be a document, and others may ask about it, too.
// 0: it has one paragraph, or does not stand in the prompt as it is.
Result<int32_t> tokens_before_last_paragraph(const Tokenizer & tokenizer, std::string_view text, std::string_view message,
                                             std::span<const int32_t> tokens) {
    PITH_ASSIGN_OR_RETURN(const std::string said, as_plain_text(tokenizer, trim(message)));
    const size_t paragraph = said.rfind("\n\n");
    const size_t at = paragraph == std::string::npos ? paragraph : last_place_of(said, text);
    if (at == std::string::npos) { return 0; }
    PITH_ASSIGN_OR_RETURN(const auto before, encode_cut(tokenizer, text.substr(0, at + paragraph), /*add_special=*/true));
    return static_cast<int32_t>(common_prefix(before, tokens));
}

// Each answer to one prompt has another. A random one is random for each, and no other becomes it.
uint32_t seed_of_answer(uint32_t seed, int index) {
    const uint64_t random = SamplerOptions().seed;
    return seed == random ? seed : static_cast<uint32_t>((seed + static_cast<uint64_t>(index)) % random);
}

// The token whose text that is; -1: none.
int32_t one_token(const Tokenizer & tokenizer, const std::string & text) {
    if (text.empty()) { return -1; }
    const auto tokens = tokenizer.encode(text, /*add_special=*/false, /*parse_special=*/true);
    return tokens.ok() && tokens->size() == 1 ? tokens->front() : -1;
}

// The tokens that these marks begin with ("<|channel|>" of "<|channel|>final<|message|>"). None: one of them begins with none.
std::set<int32_t> tokens_of(const Tokenizer & tokenizer, const std::vector<std::string> & marks) {
    std::set<int32_t> tokens;
    for (const std::string & mark : marks) {
        const size_t end = mark.find('>');
        const int32_t token = end == std::string::npos ? -1 : one_token(tokenizer, mark.substr(0, end + 1));
        if (token < 0) { return {}; }
        tokens.insert(token);
    }
    return tokens;
}

// Of messages that end in one of the assistant's: whether an answer can begin with what it says.
Status check_begun(std::span<const ChatMessage> messages) {
    const ChatMessage & last = messages.back();
    if (messages.size() > 1 && messages[messages.size() - 2].role == "assistant") {
        return {ErrorCode::kInvalidArgument,
                "the last two messages are the assistant's: an answer goes on with one, put them together"};
    }
    if (!last.tool_calls.empty()) {
        return {ErrorCode::kInvalidArgument,
                "the last message is the assistant's and calls functions: what they returned must follow as 'tool' messages"};
    }
    if (!last.reasoning.empty()) {
        return {ErrorCode::kInvalidArgument,
                "the last message is the assistant's and has thoughts of its own: an answer goes on with what is said, leave "
                "them out"};
    }
    return {};
}

// Where the body has a message, which may have got functions behind its text since.
std::string place_of(const ChatMessage & message, const ChatRequest & asked) {
    for (size_t i = 0; i < asked.messages.size() && i < asked.places.size(); ++i) {
        const ChatMessage & one = asked.messages[i];
        if (one.role == message.role && !one.content.empty() && message.content.starts_with(one.content)) {
            return asked.places[i];
        }
    }
    return "messages";
}

// Templates are given what they ask for alone: one of libllama's list takes no variable, and clients send an effort with every
// request.
Json with_effort(Json all, const std::string & effort, std::string_view chat_template) {
    const auto asks_for = [chat_template](std::string_view name) { return chat_template.find(name) != std::string_view::npos; };
    if (asks_for("reasoning_effort")) { all["reasoning_effort"] = effort; }
    if (effort == "none" && asks_for("enable_thinking")) { all["enable_thinking"] = false; }
    return all;
}

// Of several the last one that has it counts.
Json variables_of(std::initializer_list<std::string_view> sources) {
    Json all = Json::object();
    for (const std::string_view source : sources) {
        if (!source.empty()) { all.update(Json::parse(source)); }
    }
    return all;
}

// A policy that evicts wants a budget, one that does not wants none: the server's own where the request says nothing.
Status choose_policy(const CompletionOptions & asked, SessionOptions & session) {
    if (asked.kv_budget) { session.budget = *asked.kv_budget; }
    if (asked.kv_policy) { session.policy = *asked.kv_policy; }
    if (asked.kv_tolerance) {
        PITH_ASSIGN_OR_RETURN(session.policy, with_tolerance(session.policy, *asked.kv_tolerance));
        if (session.budget.kind == BudgetKind::kNone) { session.budget = Budget(BudgetKind::kPercent, 100); }
        return {};
    }
    if (!asked.kv_policy || session.policy.is_auto()) { return {}; }
    PITH_ASSIGN_OR_RETURN(const Policy policy, named_policy(session.policy));
    if (policy.evicts() && session.budget.kind == BudgetKind::kNone) {
        return {ErrorCode::kInvalidArgument,
                field("kv_policy") + " is '" + session.policy.name() +
                    "', which needs a budget: add 'kv_budget', 1024 (tokens a head), \"20%\" or \"64M\""};
    }
    if (!policy.evicts()) {
        if (asked.kv_budget) {
            return {ErrorCode::kInvalidArgument,
                    field("kv_policy") + " is '" + session.policy.name() + "', which evicts nothing: leave out 'kv_budget'"};
        }
        session.budget = {};
    }
    return {};
}

}  // namespace

Result<Api::Conversation> Api::conversation_of(const ChatRequest & asked) const {
    if (!tokenizer_.has_chat_template()) {
        return {
            ErrorCode::kInvalidArgument,
            "this model has no chat template: use /v1/completions, or start the server with one (chatml, gemma, llama3, … or "
            "a file)"};
    }
    Conversation chat;
    chat.form = tool_form(tokenizer_.chat_template());
    chat.asked = &asked;
    chat.messages = asked.messages;
    chat.options.reasoning = options_.chat.reasoning;
    const bool is_told = options_.chat.reasoning != Reasoning::kAuto;
    const std::string_view unless_told = is_told ? std::string_view() : asked.variables_unless_told;
    Json variables = variables_of({unless_told, options_.chat.variables, asked.variables});
    if (!asked.effort.empty()) { variables = with_effort(std::move(variables), asked.effort, tokenizer_.chat_template()); }
    if (!variables.empty()) { chat.options.variables = dump(variables); }
    if (asked.continues && chat.messages.back().role == "assistant") {
        PITH_RETURN_IF_ERROR(check_begun(chat.messages));
        chat.begun = std::move(chat.messages.back().content);
        chat.messages.pop_back();
    }
    if (shows_tools(chat.form)) {
        chat.options.tools = asked.tools.json;
    } else {
        PITH_ASSIGN_OR_RETURN(chat.messages, with_tools_as_text(chat.messages, asked.tools.json));
    }
    return chat;
}

Result<std::string> Api::prompt_text(const Conversation & chat, bool plain) const {
    PITH_ASSIGN_OR_RETURN(std::string text, plain ? render_plain_chat(tokenizer_, chat.messages, chat.options)
                                                  : tokenizer_.apply_chat_template(chat.messages, chat.options));
    if (!chat.begun) { return text; }
    const ReasoningMarks marks = reasoning_marks(tokenizer_.chat_template(), text);
    if (marks.begins_open) {
        return {
            ErrorCode::kInvalidArgument,
            "the last message is the assistant's, and this model's template begins every answer with a thought, so that none "
            "can be gone on with: leave the message out, or switch thoughts off with 'chat_template_kwargs': "
            "{\"enable_thinking\": false}"};
    }
    if (marks.is_in(*chat.begun)) {  // it says itself where the answer begins
        if (!plain) { return text + *chat.begun; }
        PITH_ASSIGN_OR_RETURN(const std::string begun, as_plain_answer(tokenizer_, *chat.begun, marks));
        return text + begun;
    }
    if (!plain) { return text + marks.answer + *chat.begun; }
    PITH_ASSIGN_OR_RETURN(const std::string begun, as_plain_text(tokenizer_, *chat.begun));
    return text + marks.answer + begun;
}

Result<std::string> Api::whole_prompt_text(Conversation & chat, bool plain) const {
    const auto lost_of = [&](const std::string & text) {
        return lost_messages(tokenizer_, chat.messages, chat.options, text, plain);
    };
    auto text = prompt_text(chat, plain);
    const auto is_refused = [](const Status & status) { return status.code() == ErrorCode::kInvalidArgument; };
    if (!text.ok() && !is_refused(text.status())) { return text; }
    const std::vector<size_t> lost = text.ok() ? lost_of(*text) : std::vector<size_t>();
    if (text.ok() && lost.empty()) { return text; }
    // Templates differ in what order of roles they take; the words are the same.
    const std::vector<ChatMessage> as_given = chat.messages;
    const auto with_system_in_front = [](std::span<const ChatMessage> messages) {
        return has_late_system(messages) ? with_one_system(messages) : std::vector(messages.begin(), messages.end());
    };
    for (const auto rewrite : {+with_system_in_front, &with_neighbours_joined, &with_words_in_results}) {
        std::vector<ChatMessage> messages = rewrite(chat.messages);
        if (messages.size() == chat.messages.size() && !has_late_system(chat.messages)) { continue; }  // nothing has changed
        chat.messages = std::move(messages);
        auto again = prompt_text(chat, plain);
        if (again.ok() ? lost_of(*again).empty() : !is_refused(again.status())) { return again; }
    }
    if (!text.ok()) { return text; }
    const ChatMessage & first = as_given[lost.front()];
    return wrong(field(place_of(first, *chat.asked)) + " would be lost: this model's chat template writes no such " +
                 first.role + " message there; put its text into a user's message");
}

Result<Api::Prompt> Api::chat_prompt(ChatRequest & asked) const {
    PITH_ASSIGN_OR_RETURN(Conversation chat, conversation_of(asked));
    const std::vector<ChatMessage> & messages = chat.messages;
    Prompt prompt;
    std::vector<std::string_view> said;
    for (const ChatMessage & message : messages) {
        // Of the model's own turns a template may leave the thoughts out: they count when the text is written.
        if (message.role != "assistant") { said.emplace_back(message.content); }
    }
    prompt.n_over = tokens_over_context(tokenizer_, said, options_.n_context);
    if (prompt.n_over > 0) { return prompt; }
    PITH_ASSIGN_OR_RETURN(const std::string text, whole_prompt_text(chat, /*plain=*/true));
    prompt.n_over = tokens_over_context(tokenizer_, std::array{std::string_view(text)}, options_.n_context);
    if (prompt.n_over > 0) { return prompt; }
    PITH_ASSIGN_OR_RETURN(prompt.tokens, encode_cut(tokenizer_, text, /*add_special=*/true));
    if (options_.caches) {
        prompt.ends = last_message_ends(tokenizer_, prompt.tokens);
        const std::string_view last = messages.empty() ? std::string_view() : messages.back().content;
        PITH_ASSIGN_OR_RETURN(const int32_t n, tokens_before_last_paragraph(tokenizer_, text, last, prompt.tokens));
        if (n > 0) { prompt.ends.push_back(n); }
    }

    ReasoningMarks marks = reasoning_marks(tokenizer_.chat_template(), text);
    if (chat.begun) { marks.begins_open = marks.is_open_behind(*chat.begun); }
    if (asked.options.tells_reasoning) {
        prompt.form.reasoning = marks;
        prompt.form.hides_reasoning = asked.options.hides_reasoning;
        prompt.form.close_token = one_token(tokenizer_, marks.close);
        prompt.form.mark_tokens = tokens_of(tokenizer_, marks.silent);
    } else {
        prompt.form.shown = marks;
    }
    if (asked.tools.any()) {
        prompt.form.tools = chat.form;
        prompt.form.only_one_call = asked.tools.only_one;
        for (const ToolFunction & function : asked.tools.functions) {
            prompt.form.functions.insert(function.name);
            prompt.form.texts[function.name] = text_parameters(function.parameters);
        }
    }
    // A thought that the prompt has opened ends before a grammar begins.
    const ReasoningMarks in_grammar = prompt.form.reasoning.begins_open ? ReasoningMarks() : marks;
    std::vector<std::string> notes;
    const auto calls = [&](const ReasoningMarks & thought) {
        return tool_grammar(chat.form, asked.tools.functions, asked.tools.only_one, thought, &notes);
    };
    std::string & grammar = asked.options.sampler.grammar;
    if (asked.tools.must_call) {
        PITH_ASSIGN_OR_RETURN(grammar, calls(in_grammar));
    } else if (asked.options.has_format) {  // what is said has the format; or functions are called; behind a thought
        const bool begins = asked.options.tells_reasoning && !chat.begun;
        if (begins && !marks.answer.empty()) { grammar = grammar_behind(grammar_literal(marks.answer), "", grammar); }
        if (asked.tools.any()) {
            PITH_ASSIGN_OR_RETURN(const std::string call, calls({}));
            grammar = grammar_of_either(grammar, call);
        }
        const bool is_closed = marks.any() && trim(text).ends_with(marks.close);  // the template says that there is no thought
        if (begins && in_grammar.any() && !is_closed) {
            PITH_ASSIGN_OR_RETURN(grammar, grammar_behind_thought(grammar, in_grammar));
        }
    }
    for (const std::string & note : notes) { log_once(LogLevel::kWarning, note); }

    size_t n_system = 0;
    while (n_system < messages.size() && messages[n_system].role == "system") { ++n_system; }
    const bool is_of_use = asked.options.pin_system != PinSystem::kNo || options_.caches;
    if (!is_of_use || n_system == 0) { return prompt; }
    chat.options.add_assistant = false;
    const auto system = render_plain_chat(tokenizer_, std::span(messages).first(n_system), chat.options);
    if (!system.ok()) { return prompt; }  // a template that wants a user: nothing is known of the border
    PITH_ASSIGN_OR_RETURN(const auto tokens, encode_cut(tokenizer_, *system, true));
    prompt.n_system = static_cast<int>(common_prefix(tokens, prompt.tokens));
    return prompt;
}

Result<Job> Api::job_of(const Prompt & prompt, const CompletionOptions & options) const {
    Job job;
    job.tokens = prompt.tokens;
    job.session = options_.session;
    PITH_RETURN_IF_ERROR(choose_policy(options, job.session));
    job.may_evict = job.session.policy.is_auto() && job.session.budget.kind == BudgetKind::kNone;
    const auto n_prompt = static_cast<int64_t>(prompt.tokens.size());
    for (const PositionSpan & pin : options.kv_pin) {
        if (pin.end > n_prompt) {
            return {ErrorCode::kInvalidArgument,
                    "'kv_pin' ends at token " + std::to_string(pin.end) + ": the prompt has " + std::to_string(n_prompt)};
        }
        job.session.pinned.push_back(pin);
    }
    if (options.pin_system == PinSystem::kYes && prompt.n_system > 0) { job.session.pinned.push_back({0, prompt.n_system}); }
    if (options.pin_system == PinSystem::kWhereItFits) { job.n_system = prompt.n_system; }
    const int64_t room = options_.n_context - n_prompt;
    job.max_tokens = static_cast<int>(options.max_tokens < 0 ? room : std::min(room, options.max_tokens));
    job.cache_at = prompt.ends;  // the same conversation goes on otherwise from there
    if (options_.caches && n_prompt > kQuestion) { job.cache_at.push_back(static_cast<int32_t>(n_prompt - kQuestion)); }
    if (prompt.n_system > 0) { job.cache_at.push_back(prompt.n_system); }  // others begin with it
    job.uses_cache = options.cache_prompt;
    job.repairs = options_.repairs;
    job.session.draft_ngram = options.draft_ngram;
    job.sampler = options.sampler;
    job.stop = options.stop;
    job.form = prompt.form;
    job.n_logprobs = options.n_logprobs;
    job.ignore_eos = options.ignore_eos;
    job.min_tokens = options.min_tokens;
    job.tells_progress = options.stream && options.return_progress;
    job.tells_map = options.stream && options.return_kv_map;
    job.priority = options.priority;
    job.deadline_s = options.timeout_s;
    job.tells_timings = options.stream && options.timings_per_token;
    return job;
}

Result<ApiReply> Api::chat(const ApiRequest & request) {
    PITH_ASSIGN_OR_RETURN(const Body read, parse_body(request.body));
    const Json & body = read.json();
    PITH_ASSIGN_OR_RETURN(ChatRequest asked, parse_chat_request(body, options_.defaults, tokenizer_));
    PITH_ASSIGN_OR_RETURN(Prompt prompt, chat_prompt(asked));
    return complete(request, CompletionShape::Kind::kChat, {std::move(prompt)}, asked.options);
}

Result<ApiReply> Api::text(const ApiRequest & request) {
    PITH_ASSIGN_OR_RETURN(const Body read, parse_body(request.body));
    const Json & body = read.json();
    PITH_ASSIGN_OR_RETURN(TextRequest asked, parse_text_request(body, options_.defaults, tokenizer_));
    std::vector<Prompt> prompts;
    for (TextPrompt & one : asked.prompts) {
        Prompt & prompt = prompts.emplace_back();
        if (auto * tokens = std::get_if<std::vector<int32_t>>(&one)) {
            prompt.tokens = std::move(*tokens);
            continue;
        }
        const std::string & text = std::get<std::string>(one);
        prompt.n_over = tokens_over_context(tokenizer_, std::array{std::string_view(text)}, options_.n_context);
        if (prompt.n_over > 0) { break; }  // it is refused
        PITH_ASSIGN_OR_RETURN(prompt.tokens, tokenizer_.encode(text, /*add_special=*/true, /*parse_special=*/true));
    }
    return complete(request, CompletionShape::Kind::kText, prompts, asked.options);
}

std::variant<Begun, ApiError> Api::begin(const ApiRequest & request, const std::vector<Prompt> & prompts,
                                         const CompletionOptions & options) {
    if (closed_) { return not_ready(kIsClosed); }
    Begun begun;
    std::vector<Job> jobs;
    for (const Prompt & prompt : prompts) {
        const int64_t n = prompt.n_tokens();
        if (n == 0) { return invalid_request("the prompt is empty, and this model begins with no token of its own"); }
        if (n >= options_.n_context) { return too_long(n, options_.n_context); }
        auto job = job_of(prompt, options);
        if (!job.ok()) { return error_of(job.status()); }
        job->cache_name = owner_of(request);
        job->prompt = static_cast<int>(&prompt - prompts.data());
        for (int i = 0; i < options.n; ++i) {
            jobs.push_back(*job);
            jobs.back().sampler.seed = seed_of_answer(jobs.back().sampler.seed, i);
            begun.n_prompt.push_back(n);
        }
    }
    auto events = std::make_shared<Events>();
    begun.answers = std::make_unique<PendingAnswers>(generator_, events, jobs.size(), request.report);
    if (const Status status = generator_.submit(std::move(jobs), events); !status.ok()) { return error_of(status); }
    if (const auto failed = begun.answers->wait_until_accepted(request.gone)) { return error_of(*failed); }
    return begun;
}

ApiReply stream_reply(std::shared_ptr<ReplyStream> stream) {
    ApiReply reply;
    reply.content_type = "text/event-stream";
    reply.headers.emplace_back("Cache-Control", "no-cache");
    reply.headers.emplace_back("X-Accel-Buffering", "no");  // nginx would hold pieces back
    reply.stream = std::move(stream);
    return reply;
}

Result<ApiReply> Api::complete(const ApiRequest & request, CompletionShape::Kind kind, const std::vector<Prompt> & prompts,
                               const CompletionOptions & options) {
    auto begun = begin(request, prompts, options);
    if (const auto * error = std::get_if<ApiError>(&begun)) { return reply_of(*error); }
    auto & [pending, n_prompt] = std::get<Begun>(begun);
    CompletionShape shape(kind, options_.model_name, options_.version, options.n_logprobs >= 0, tokenizer_);
    if (options.stream) {
        const StreamOptions how{options.include_usage, options_.ping_s};
        return stream_reply(std::make_shared<CompletionStream>(std::move(pending), std::move(shape), std::move(n_prompt), how));
    }
    auto answers = pending->wait(request);
    if (const auto * error = std::get_if<ApiError>(&answers)) { return reply_of(*error); }
    ApiReply reply;
    reply.body = dump(shape.whole(std::get<std::vector<WholeAnswer>>(answers)));
    return reply;
}

}  // namespace pith::serve
