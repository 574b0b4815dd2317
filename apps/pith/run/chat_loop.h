// chat_loop.h - the lines of `pith chat`: messages, commands, and what is said of both. Answers alone go to standard output.
#pragma once

#include <memory>
#include <string>

#include "app/run/auto_budget.h"
#include "app/run/conversation.h"
#include "app/run/line_editor.h"
#include "common/base/progress.h"

namespace pith::app {

class ChatLoop {
public:
    // Both must outlive it.
    ChatLoop(Conversation & conversation, const Tokenizer & tokenizer);

    // model_name: for the first line at a terminal. Returns the exit code.
    int run(const std::string & model_name);

private:
    static Conversation::Progress progress_on(std::unique_ptr<ProgressLine> & line);
    Status say(const std::string & message);
    Status command(const std::string & text);
    Status undo();
    Status retry();
    void forget_messages();
    Status system(const std::string & rest);
    Status policy(const std::string & rest);
    Status budget(const std::string & rest);
    Status save(const std::string & rest);
    Status load(const std::string & rest);
    Status follow(const PolicyChoice & policy, const Budget & budget);
    std::string policy_line() const;
    void show_kept() const;
    void tell_of_context_shift();

    Conversation & conversation_;
    const Tokenizer & tokenizer_;
    LineEditor editor_;
    AutoBudget auto_budget_;
    std::vector<std::string> messages_;  // of the turns there are, those that were read here
    std::string retry_;                  // whose turn /retry has taken back, without an answer yet
    int n_answered_ = 0;
    bool told_of_shift_ = false;
    int n_failed_ = 0;
};

}  // namespace pith::app
