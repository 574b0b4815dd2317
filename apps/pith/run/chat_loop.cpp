// chat_loop.cpp - what a line does.
#include "app/run/chat_loop.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

#include "app/run/run_outcome.h"
#include "app/run/text_length.h"
#include "common/base/args.h"
#include "common/base/errors.h"
#include "common/base/interrupt.h"
#include "common/base/ledger_report.h"
#include "core/check.h"
#include "core/text.h"
#include "pith/policies.h"
#include "policy/named_policy.h"

namespace pith::app {
namespace {

constexpr const char * kHelp =
    "/help            this\n"
    "/clear           begin again\n"
    "/undo            take the last turn back\n"
    "/retry           take the last answer back and answer again\n"
    "/system TEXT     begin again with this system prompt (no text: show it)\n"
    "/policy P B      read the conversation again under policy P with budget B (no B: the same; no names: show them)\n"
    "/budget B        the same with another budget: 1024 tokens per head, 20%, 64M, auto (no B: show it)\n"
    "/kept            the conversation as the cache holds it: what every head dropped is left out\n"
    "/save FILE       keep the conversation in a file\n"
    "/load FILE       go on with the one in a file (of /save, `pith run --save-cache`, or `pith compress`)\n"
    "/stats           what the cache holds and what it cost\n"
    "/exit            end (Ctrl-D)\n"
    "A message that begins with / begins with //. Tab completes commands, files and policies. A line that ends in \\ goes on "
    "in\n"
    "the next. Ctrl-C stops an answer and keeps what was said.\n";

const std::vector<std::string> & command_names() {
    static const std::vector<std::string> names = {"/help",   "/clear", "/undo", "/retry", "/system", "/policy",
                                                   "/budget", "/kept",  "/save", "/load",  "/stats",  "/exit"};
    return names;
}

// What Tab may write: a command at the beginning of the line, what belongs behind some of them.
LineEditor::Completions completions(std::string_view before) {
    if (before.empty()) { return {command_names()}; }
    if (before == "/save " || before == "/load ") { return {{}, /*has_files=*/true}; }
    LineEditor::Completions found;
    if (before == "/policy ") {
        for (const PolicyInfo & policy : list_policies()) { found.words.push_back(policy.name); }
    }
    return found;
}

std::string budget_text(const Budget & budget) {
    return budget.kind == BudgetKind::kNone ? "no budget" : "budget " + budget.to_string();
}

int64_t kept_per_head(const Ledger & ledger) {
    return ledger.kept_entries / std::max<int64_t>(1, ledger.n_lanes);
}

std::string turns_text(int n) {
    return with_commas(n) + (n == 1 ? " turn" : " turns");
}

Status nothing(const std::string & what) {
    return {ErrorCode::kInvalidArgument, "there is nothing " + what};
}

// Of what a command did, beside the answers.
void tell(const std::string & what) {
    std::fprintf(stderr, "(%s)\n", what.c_str());
}

}  // namespace

ChatLoop::ChatLoop(Conversation & conversation, const Tokenizer & tokenizer)
    : conversation_(conversation),
      tokenizer_(tokenizer),
      editor_(completions),
      auto_budget_(conversation.options().session.budget) {}

int ChatLoop::run(const std::string & model_name) {
    const bool is_terminal = isatty(STDIN_FILENO) != 0;
    if (is_terminal) {
        const SessionOptions & session = conversation_.options().session;
        std::fprintf(stderr, "%s, policy %s, %s\n/help lists the commands, Tab completes them; Ctrl-D ends.\n",
                     model_name.c_str(), session.policy.name().c_str(), budget_text(session.budget).c_str());
    }
    for (;;) {
        const LineEditor::Input input = editor_.read("> ", ". ");
        if (input.what == LineEditor::What::kEnd) { break; }
        if (input.what == LineEditor::What::kInterrupt) {
            if (!is_terminal) { return kExitInterrupted; }  // nobody is there to type on
            std::fputs("\n(Ctrl-D or /exit ends)\n", stderr);
            continue;
        }
        const size_t first = input.text.find_first_not_of(" \t");
        if (first == std::string::npos) { continue; }
        const std::string text = input.text.substr(first);
        if (text == "/exit" || text == "/quit") { break; }
        const bool is_command = text[0] == '/' && !text.starts_with("//");
        const Status status = is_command ? command(text) : say(text.substr(text[0] == '/' ? 1 : 0));
        if (!status.ok()) { fail(status); }  // the conversation goes on
        if (!is_terminal && every_interrupt()) { return kExitInterrupted; }
    }
    // Where nobody was there to see it, somebody must be told.
    const bool was_in_vain = n_failed_ > 0 && n_answered_ == 0 && !is_terminal;
    return was_in_vain ? kExitFailed : kExitOk;
}

// The line goes when all is read: what follows is the answer's.
Conversation::Progress ChatLoop::progress_on(std::unique_ptr<ProgressLine> & line) {
    line = std::make_unique<ProgressLine>("reading");
    return [&line](int64_t n_done, int64_t n_total) {
        if (line) { line->show_tokens(n_done, n_total); }
        if (n_done >= n_total) { line.reset(); }
    };
}

Status ChatLoop::say(const std::string & message) {
    every_interrupt() = false;
    retry_.clear();
    std::unique_ptr<ProgressLine> line;
    const auto turn = conversation_.say(message, every_interrupt(), /*stream=*/true, progress_on(line));
    line.reset();
    if (turn.status().code() == ErrorCode::kCancelled) {
        std::fputs("(not read)\n", stderr);
        return {};
    }
    std::puts("");
    std::fflush(stdout);
    ++(turn.ok() ? n_answered_ : n_failed_);
    PITH_RETURN_IF_ERROR(turn.status());
    const Session & session = conversation_.session();
    if (turn->kv_missed >= 0) { tell_of_missed(turn->kv_missed, turn->n_returned, session.ledger().n_lanes); }
    tell_of_context_shift();
    warn_past_training(conversation_.model(), session.n_tokens(), session.ledger(),
                       conversation_.options().session.context_shift);
    auto_budget_.look_at(session);
    messages_.push_back(message);
    return {};
}

// Behind a try that said nothing, of which the turn is gone already, the same message once more.
Status ChatLoop::retry() {
    std::string message = retry_;
    if (message.empty()) {
        if (messages_.empty() || conversation_.n_turns() == 0) { return nothing("to answer again"); }
        message = messages_.back();
        PITH_RETURN_IF_ERROR(undo());
    }
    const size_t n_before = messages_.size();
    const Status done = say(message);
    if (messages_.size() == n_before) { retry_ = std::move(message); }
    return done;
}

Status ChatLoop::command(const std::string & text) {
    const size_t space = text.find(' ');
    const std::string name = text.substr(0, space);
    const std::string rest(trim(space == std::string::npos ? std::string_view() : std::string_view(text).substr(space)));
    Status done;
    if (name == "/help") {
        std::fputs(kHelp, stdout);
    } else if (name == "/clear") {
        PITH_RETURN_IF_ERROR(conversation_.clear(conversation_.options().system));
        forget_messages();
        tell("begun again");
    } else if (name == "/undo") {
        PITH_RETURN_IF_ERROR(undo());
        tell("the last turn is taken back: " + turns_text(conversation_.n_turns()) + " left");
    } else if (name == "/retry") {
        done = retry();
    } else if (name == "/system") {
        done = system(rest);
    } else if (name == "/policy") {
        done = policy(rest);
    } else if (name == "/budget") {
        done = budget(rest);
    } else if (name == "/kept") {
        show_kept();
    } else if (name == "/save") {
        done = save(rest);
    } else if (name == "/load") {
        done = load(rest);
    } else if (name == "/stats") {
        std::fputs(ledger_lines(conversation_.session().ledger()).c_str(), stdout);
    } else {
        return {ErrorCode::kInvalidArgument,
                "there is no command '" + name + "'" +
                    did_you_mean(name, command_names(), "; /help lists them, // begins a message with /")};
    }
    std::fflush(stdout);
    return done;
}

Status ChatLoop::undo() {
    PITH_ASSIGN_OR_RETURN(const bool done, conversation_.undo());
    if (!done) { return nothing("to take back: the last " + std::to_string(conversation_.undo_depth()) + " turns can be"); }
    if (!messages_.empty()) { messages_.pop_back(); }
    retry_.clear();
    return {};
}

void ChatLoop::forget_messages() {
    messages_.clear();
    retry_.clear();
}

Status ChatLoop::system(const std::string & rest) {
    if (rest.empty()) {
        std::printf("%s\n", conversation_.options().system.empty() ? "(none)" : conversation_.options().system.c_str());
        return {};
    }
    PITH_RETURN_IF_ERROR(conversation_.clear(rest));
    forget_messages();
    tell("begun again with this system prompt");
    return {};
}

Status ChatLoop::save(const std::string & rest) {
    if (rest.empty()) { return {ErrorCode::kInvalidArgument, "/save wants the name of a file"}; }
    if (conversation_.session().n_tokens() == 0) { return nothing("to save yet"); }
    PITH_RETURN_IF_ERROR(conversation_.save(rest));
    tell("saved to " + rest);
    return {};
}

Status ChatLoop::load(const std::string & rest) {
    if (rest.empty()) { return {ErrorCode::kInvalidArgument, "/load wants the name of a file"}; }
    PITH_RETURN_IF_ERROR(conversation_.load(rest));
    auto_budget_ = AutoBudget(conversation_.options().session.budget);
    forget_messages();
    tell(with_commas(conversation_.session().n_tokens()) + " tokens from " + rest);
    return {};
}

// "snapkv, budget 1024: 1,024 of 3,000 tokens per head are held"
std::string ChatLoop::policy_line() const {
    const Session & session = conversation_.session();
    const Ledger & ledger = session.ledger();
    std::string line = policy_text(ledger) + ", " + budget_text(conversation_.options().session.budget);
    if (session.n_tokens() > 0) {
        line +=
            ": " + with_commas(kept_per_head(ledger)) + " of " + with_commas(session.n_tokens()) + " tokens per head are held";
    }
    return line;
}

Status ChatLoop::policy(const std::string & rest) {
    if (rest.empty()) {
        std::printf("%s\n", policy_line().c_str());
        return {};
    }
    const size_t space = rest.find(' ');
    PITH_ASSIGN_OR_RETURN(const PolicyChoice policy, PolicyChoice::parse(rest.substr(0, space)));
    Budget budget = conversation_.options().session.budget;
    if (space != std::string::npos) {
        PITH_ASSIGN_OR_RETURN(budget,
                              Budget::parse(std::string(trim(std::string_view(rest).substr(space))), {"/policy's budget"}));
    } else if (const auto named = named_policy(policy); !policy.is_auto() && named.ok() && !named->evicts()) {
        budget = {};  // which it could not keep to
    }
    return follow(policy, budget);
}

Status ChatLoop::budget(const std::string & rest) {
    const SessionOptions & session = conversation_.options().session;
    if (rest.empty()) {
        std::printf("%s\n", policy_line().c_str());
        return {};
    }
    PITH_ASSIGN_OR_RETURN(const Budget budget, Budget::parse(rest, {"/budget"}));
    return follow(session.policy, budget);
}

Status ChatLoop::follow(const PolicyChoice & policy, const Budget & budget) {
    every_interrupt() = false;
    std::unique_ptr<ProgressLine> line;
    const Status done = conversation_.follow(policy, budget, progress_on(line), &every_interrupt());
    line.reset();
    if (done.code() == ErrorCode::kCancelled) {
        tell("as before: " + policy_line());
        return {};
    }
    PITH_RETURN_IF_ERROR(done);
    auto_budget_ = AutoBudget(budget);
    auto_budget_.look_at(conversation_.session());
    tell(policy_line());
    return {};
}

// The tokens that some lane still holds; how many of all.
void ChatLoop::show_kept() const {
    const Session & session = conversation_.session();
    const std::vector<int32_t> & tokens = conversation_.tokens();
    std::vector<bool> kept(tokens.size(), false);
    for (int l = 0; l < session.n_layers(); ++l) {
        for (int h = 0; h < session.n_kv_heads(); ++h) {
            for (const int32_t position : session.lane_positions(l, h)) {
                if (static_cast<size_t>(position) < kept.size()) { kept[static_cast<size_t>(position)] = true; }
            }
        }
    }
    std::string text;
    bool gap = false;
    for (size_t i = 0; i < tokens.size(); ++i) {
        if (kept[i]) {
            if (gap) { text += " [...] "; }
            text += tokenizer_.piece(tokens[i], true);
        }
        gap = !kept[i];
    }
    const auto n_kept = std::count(kept.begin(), kept.end(), true);
    std::printf("%s\n(%lld of %zu tokens are held by some head; %lld tokens per head on average)\n", text.c_str(),
                static_cast<long long>(n_kept), tokens.size(), static_cast<long long>(kept_per_head(session.ledger())));
}

// Once: the talk has passed what the model was trained on.
void ChatLoop::tell_of_context_shift() {
    if (told_of_shift_ || conversation_.session().ledger().n_context_shifts == 0) { return; }
    told_of_shift_ = true;
    warn(
        "the talk has passed the length that the model was trained on: what is kept of it has moved together (context "
        "shift), here and from now on whenever it must");
}

}  // namespace pith::app
