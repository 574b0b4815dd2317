// conversation.cpp - turns, and the way back.
#include "app/run/conversation.h"

#include <algorithm>
#include <utility>

#include "app/run/saved_text.h"
#include "app/run/text_length.h"
#include "cache/cache_file.h"
#include "common/flags/reread_words.h"
#include "core/text.h"
#include "engine/parts/cache_layout.h"
#include "engine/parts/model_parts.h"
#include "engine/read_question.h"
#include "pith/cache_file.h"
#include "plan/budget_check.h"
#include "text/plain_text.h"
#include "text/prompt.h"

namespace pith::app {

namespace {

constexpr size_t kUndoDepthOfAuto = 2;  // more would leave the cache itself too little of the memory

// Turns that can be taken back where something may be evicted.
size_t undo_depth_inside(const ConversationOptions & options) {
    const bool is_auto = options.session.budget.kind == BudgetKind::kAuto;
    return is_auto ? std::min(options.undo_depth, kUndoDepthOfAuto) : options.undo_depth;
}

}  // namespace

Result<Conversation> Conversation::open(const Model & model, const Tokenizer & tokenizer, ConversationOptions options) {
    Conversation conversation(model, tokenizer);
    conversation.options_ = std::move(options);
    if (!conversation.options_.raw) { PITH_ASSIGN_OR_RETURN(conversation.between_, between_turns(tokenizer)); }
    PITH_RETURN_IF_ERROR(conversation.begin());
    return conversation;
}

// Only evictions make copies.
size_t Conversation::undo_depth() const {
    return session_->ledger().budget_entries > 0 ? undo_depth_inside(options_) : options_.undo_depth;
}

// A session with nothing in it.
Status Conversation::begin() {
    const bool has_system = !options_.system.empty();
    ChatFrame frame = plain_frame(options_.system);
    if (!options_.raw) { PITH_ASSIGN_OR_RETURN(frame, chat_frame(tokenizer_, has_system)); }
    SessionOptions session = options_.session;
    session.n_snapshots = static_cast<int>(undo_depth_inside(options_)) + 1;  // and the turn's own
    // A share is of all that was said so far, not of the first message for good.
    if (session.budget.kind == BudgetKind::kPercent && session.grid == 0) { session.grid = kDefaultGrid; }
    PITH_RETURN_IF_ERROR(set_reread_words(tokenizer_, !options_.raw, session));
    if (has_system) {
        // What the first message will share with the system prompt alone.
        std::string system = options_.system;
        if (!options_.raw) { PITH_ASSIGN_OR_RETURN(system, as_plain_text(tokenizer_, options_.system)); }
        system.insert(0, frame.before_system);
        PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> alone, encode_first(system));
        PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> whole, encode_first(system + frame.before_user));
        session.pinned.push_back({0, static_cast<int32_t>(common_prefix(alone, whole))});
    }
    PITH_ASSIGN_OR_RETURN(Sampler sampler, Sampler::make(options_.sampler, &tokenizer_));
    PITH_ASSIGN_OR_RETURN(Session made, model_.session(session));
    const CacheLayout layout = cache_layout(file_of(model_), session.type_k, session.type_v);
    PITH_RETURN_IF_ERROR(check_budget(session, layout, model_.info().has_gates));
    frame_ = std::move(frame);
    session_ = std::move(made);
    sampler_ = std::move(sampler);
    tokens_.clear();
    states_.clear();
    n_turns_ = 0;
    pending_ = -1;
    in_open_turn_ = false;
    uses_template_ = !options_.raw;
    return {};
}

// The text that a conversation begins with. Without a template all of it is the user's: names of special tokens are tokens.
Result<std::vector<int32_t>> Conversation::encode_first(const std::string & text) const {
    return options_.raw ? tokenizer_.encode(text, true, true) : encode_cut(tokenizer_, text, true);
}

// What keeps a message that no template frames from running into the answer in front of it: the end of a line. Nothing where
// the user says what stands there, or the answer waits for the words: behind white space, and behind a reverse prompt.
std::string Conversation::line_between(std::string_view words) const {
    if (n_turns_ == 0 || !options_.in_prefix.empty() || starts_with_space(words)) { return ""; }
    constexpr size_t kTail = 64;  // tokens: more than a reverse prompt has
    std::string tail;
    for (size_t i = tokens_.size() - std::min(tokens_.size(), kTail); i < tokens_.size(); ++i) {
        tail += tokenizer_.piece(tokens_[i], /*special=*/true);
    }
    if (pending_ >= 0) { tail += tokenizer_.piece(pending_, /*special=*/true); }
    const bool waits = std::ranges::any_of(options_.reverse_prompts, [&tail](const auto & end) { return tail.ends_with(end); });
    return waits || ends_in_space(tail) ? "" : "\n";
}

// A message with what the template puts around it, behind all that was said.
Result<std::vector<int32_t>> Conversation::encode(const std::string & message) const {
    const std::string words = options_.in_prefix + message + options_.in_suffix;
    if (!uses_template_ && tokens_.empty()) { return encode_first(options_.system + frame_.before_user + words); }
    if (!uses_template_ || in_open_turn_) {
        const SavedText behind{uses_template_, in_open_turn_, -1, n_turns_, options_.system};
        return continuation(tokenizer_, behind, (uses_template_ ? "" : line_between(words)) + words);
    }
    PITH_ASSIGN_OR_RETURN(const std::string said, as_plain_text(tokenizer_, message));
    const std::string rest = options_.in_prefix + said + options_.in_suffix + frame_.after_user;
    if (n_turns_ > 0) { return encode_cut(tokenizer_, between_ + rest, false); }
    PITH_ASSIGN_OR_RETURN(const std::string system, as_plain_text(tokenizer_, options_.system));
    const std::string head = options_.system.empty() ? "" : frame_.before_system + system;
    return encode_first(head + frame_.before_user + rest);
}

Result<Conversation::State> Conversation::state() {
    State state{nullptr, tokens_.size(), n_turns_, pending_, in_open_turn_};
    if (!tokens_.empty()) { PITH_ASSIGN_OR_RETURN(state.session, session_->snapshot()); }
    return state;
}

Status Conversation::go_back(const State & state) {
    if (state.session) {
        PITH_RETURN_IF_ERROR(session_->restore(state.session));
        tokens_.resize(state.n_tokens);
        n_turns_ = state.n_turns;
        pending_ = state.pending;
        in_open_turn_ = state.in_open_turn;
    } else {
        PITH_RETURN_IF_ERROR(begin());
    }
    // What the penalties look back on is what is left; draws begin again with the seed.
    sampler_->reset();
    for (const int32_t token : tokens_) { sampler_->accept(token); }
    return {};
}

Status Conversation::read(const std::vector<int32_t> & tokens, const RunHooks & hooks, bool looks) {
    PITH_RETURN_IF_ERROR(looks ? read_question(*session_, tokens, hooks) : session_->prefill(tokens, hooks));
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    for (const int32_t token : tokens) { sampler_->accept(token); }
    return {};
}

// Where what was evicted is kept, what the message looks for of it comes back. One of more than a chunk is a text of its own.
Status Conversation::read_message(const std::vector<int32_t> & tokens, const RunHooks & hooks, ChatTurn & turn) {
    const bool looks = session_->ledger().cold_entries > 0 && std::ssize(tokens) <= options_.session.chunk;
    const int64_t n_before = session_->ledger().returned_entries;
    PITH_RETURN_IF_ERROR(read(tokens, hooks, looks));
    if (!looks) { return {}; }
    turn.kv_missed = session_->ledger().kv_missed;
    turn.n_returned = session_->ledger().returned_entries - n_before;
    return {};
}

Result<ChatTurn> Conversation::say(const std::string & message, const std::atomic<bool> & cancel, bool stream,
                                   const Progress & progress) {
    PITH_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, encode(message));
    if (pending_ >= 0) { tokens.insert(tokens.begin(), pending_); }
    const int64_t n_tokens = session_->n_tokens() + std::ssize(tokens);
    PITH_RETURN_IF_ERROR(check_context_size("the conversation with this message", n_tokens, options_.ctx_size));
    PITH_ASSIGN_OR_RETURN(const State before, state());
    RunHooks hooks;
    hooks.cancel = &cancel;
    hooks.progress = progress;
    ChatTurn turn;
    turn.n_read = std::ssize(tokens);
    Status status = read_message(tokens, hooks, turn);
    if (status.ok()) {
        GenerateOptions options;
        options.n_predict = limit_of_answer(options_.n_predict, n_tokens, options_.ctx_size);
        options.stream = stream;
        options.cancel = &cancel;
        options.reverse_prompts = options_.reverse_prompts;
        options.reasoning = options_.reasoning;
        options.hide_reasoning = options_.hide_reasoning;
        options.colours = options_.colours;
        sampler_->begin_answer();
        turn.answer = generate(*session_, tokenizer_, *sampler_, options);
        status = turn.answer.failure;
    }
    if (!status.ok()) {
        PITH_RETURN_IF_ERROR(go_back(before));
        return status;
    }
    // What ends an answer is not fed: what comes between two turns brings it along.
    const std::vector<int32_t> & said = turn.answer.tokens;
    pending_ = turn.answer.unfed;
    tokens_.insert(tokens_.end(), said.begin(), said.end() - (pending_ >= 0 ? 1 : 0));
    ++n_turns_;
    in_open_turn_ = false;
    states_.push_back(before);
    if (states_.size() > undo_depth()) { states_.pop_front(); }
    return turn;
}

Result<bool> Conversation::undo() {
    if (states_.empty()) { return false; }
    std::deque<State> older = std::exchange(states_, {});
    const Status status = go_back(older.back());
    if (status.ok()) { older.pop_back(); }
    states_ = std::move(older);
    if (!status.ok()) { return status; }
    return true;
}

Status Conversation::clear(std::string system) {
    const std::string before = std::exchange(options_.system, std::move(system));
    const Status status = begin();
    if (!status.ok()) { options_.system = before; }
    return status;
}

Status Conversation::save(const std::string & path) const {
    PITH_RETURN_IF_ERROR(check_can_save(path));
    return session_->save(
        path, to_notes({uses_template_, in_open_turn_, pending_, n_turns_, options_.system, tokenizer_.chat_template()}));
}

Status Conversation::load(const std::string & path) {
    PITH_ASSIGN_OR_RETURN(const SessionFile file, SessionFile::open(path));
    SavedText text = saved_text(file.info().notes);
    if (!text.chat_template.empty() && text.chat_template != tokenizer_.chat_template()) {
        return {ErrorCode::kInvalidArgument, "'" + path +
                                                 "' was saved with another chat template: start with it "
                                                 "(--chat-template-file; `pith cache info --json` shows it)"};
    }
    ChatFrame frame = plain_frame(text.system);
    std::string between;
    if (text.uses_template) {
        PITH_ASSIGN_OR_RETURN(frame, chat_frame(tokenizer_, !text.system.empty()));
        PITH_ASSIGN_OR_RETURN(between, between_turns(tokenizer_));
    }
    PITH_ASSIGN_OR_RETURN(Sampler sampler, Sampler::make(options_.sampler, &tokenizer_));
    PITH_ASSIGN_OR_RETURN(Session opened, file.session(model_, options_.session.n_threads, Entries::kOwn));
    PITH_RETURN_IF_ERROR(opened.set_draft_ngram(options_.session.draft_ngram));
    PITH_RETURN_IF_ERROR(opened.set_repair_every(options_.session.repair_every));
    std::vector<int32_t> tokens = opened.tokens();
    for (const int32_t token : tokens) { sampler.accept(token); }
    const SessionOptions of_chat = options_.session;
    options_.session = file.info().options;
    options_.session.draft_ngram = of_chat.draft_ngram;
    options_.session.repair_every = of_chat.repair_every;
    options_.session.auto_may_reread = false;  // a chat that begins anew reads its turns once
    options_.session.pinned.clear();           // the system prompt's, which begin() finds out by itself
    options_.session.n_threads = of_chat.n_threads;
    options_.system = std::move(text.system);
    frame_ = std::move(frame);
    if (text.uses_template) { between_ = std::move(between); }
    session_ = std::move(opened);
    sampler_ = std::move(sampler);
    tokens_ = std::move(tokens);
    states_.clear();  // they belong to the session that is gone
    n_turns_ = text.n_turns;
    pending_ = text.pending;
    in_open_turn_ = text.open_turn;
    uses_template_ = text.uses_template;
    return {};
}

Status Conversation::follow(const PolicyChoice & policy, const Budget & budget, const Progress & progress,
                            const std::atomic<bool> * cancel) {
    Conversation other(model_, tokenizer_);
    other.options_ = options_;
    other.options_.session.policy = policy;
    other.options_.session.budget = budget;
    other.between_ = between_;
    PITH_RETURN_IF_ERROR(other.begin());
    if (!tokens_.empty()) {
        RunHooks hooks;
        hooks.progress = progress;
        hooks.cancel = cancel;
        PITH_RETURN_IF_ERROR(other.read(tokens_, hooks));
    }
    options_ = std::move(other.options_);
    session_ = std::move(other.session_);
    sampler_ = std::move(other.sampler_);
    states_.clear();  // they belong to the session that is gone
    return {};
}

}  // namespace pith::app
