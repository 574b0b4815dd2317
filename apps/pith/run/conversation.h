// conversation.h - a conversation inside a budget: what is fed turn by turn, and states to come back to.
//
// A turn is a transaction: an error, or Ctrl-C while the message is read, leaves the conversation as it was (draws begin again
// with the seed). Ctrl-C while the
// answer is written keeps what was said. The model's chat template is taken apart once (text/chat_frame.h), so nothing is ever
// read twice. Threads: one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/run/generate.h"
#include "pith/model.h"
#include "pith/session.h"
#include "pith/text.h"
#include "text/chat_frame.h"

namespace pith::app {

struct ConversationOptions {
    SessionOptions session;
    SamplerOptions sampler;
    bool raw = false;                          // no chat template: messages and answers are one text that goes on
    std::string system;                        // pinned: never evicted
    std::string in_prefix;                     // in front of every message, inside of what the template puts around it
    std::string in_suffix;                     // and behind it
    int64_t n_predict = -1;                    // tokens of an answer at most; -1: until the model ends
    int ctx_size = 0;                          // of the conversation at most, answers too; 0: no limit
    std::vector<std::string> reverse_prompts;  // an answer ends where it says one
    ReasoningMarks reasoning;                  // by which thoughts are told from answers
    bool hide_reasoning = false;
    bool colours = false;   // answers are for a terminal
    size_t undo_depth = 8;  // turns that can be taken back: each costs a copy of what the cache holds
                            // (2 at most under --budget auto, which leaves memory for these copies)
};

struct ChatTurn {
    int64_t n_read = 0;  // tokens of the message, with what the template puts around it
    Generated answer;
    double kv_missed = -1;   // Ledger's, where what was evicted is kept
    int64_t n_returned = 0;  // entries that came back for it
};

class Conversation {
public:
    using Progress = std::function<void(int64_t n_done, int64_t n_total)>;

    // model and tokenizer must outlive the conversation. Errors: those of Model::session, Sampler::make and chat_frame;
    // kBudget: one that cannot hold what is protected, the system prompt too. clear() and follow() look again.
    static Result<Conversation> open(const Model & model, const Tokenizer & tokenizer, ConversationOptions options);

    // stream: the answer is written to stdout as it comes. Errors: of the session and the sampler; kCancelled: while the
    // message was read. The conversation is then as before.
    Result<ChatTurn> say(const std::string & message, const std::atomic<bool> & cancel, bool stream = true,
                         const Progress & progress = {});
    // The state before the last turn, bit for bit. false: there is none to go back to.
    Result<bool> undo();
    // From the beginning, with this system prompt.
    Status clear(std::string system);
    // The conversation so far is read again under another policy and budget. Errors: the conversation is then as before.
    Status follow(const PolicyChoice & policy, const Budget & budget, const Progress & progress = {},
                  const std::atomic<bool> * cancel = nullptr);

    // The conversation as a file, and one from a file in place of this one: of its own settings, system prompt included, or a
    // text that `pith compress` has read, which the first message then asks about. Turns before it cannot be taken back.
    // Errors: those of Session::save() and Model::open_session(); the conversation is then as before.
    Status save(const std::string & path) const;
    Status load(const std::string & path);

    int n_turns() const { return n_turns_; }
    const ConversationOptions & options() const { return options_; }
    size_t undo_depth() const;  // turns that can be taken back, at most
    const Model & model() const { return model_; }
    const Session & session() const { return *session_; }
    const std::vector<int32_t> & tokens() const { return tokens_; }  // all that was fed, in order

private:
    struct State {
        std::shared_ptr<Session::Snapshot> session;  // null: nothing had been fed
        size_t n_tokens = 0;
        int n_turns = 0;
        int32_t pending = -1;
        bool in_open_turn = false;
    };

    Conversation(const Model & model, const Tokenizer & tokenizer) : model_(model), tokenizer_(tokenizer) {}
    Status begin();
    Result<std::vector<int32_t>> encode_first(const std::string & text) const;
    Result<std::vector<int32_t>> encode(const std::string & message) const;
    std::string line_between(std::string_view words) const;
    Result<State> state();
    Status go_back(const State & state);
    Status read_message(const std::vector<int32_t> & tokens, const RunHooks & hooks, ChatTurn & turn);
    // looks: what they look for among what was evicted comes back.
    Status read(const std::vector<int32_t> & tokens, const RunHooks & hooks, bool looks = false);

    const Model & model_;
    const Tokenizer & tokenizer_;
    ConversationOptions options_;
    ChatFrame frame_;
    std::string between_;  // turns, where a template is used
    std::optional<Session> session_;
    std::optional<Sampler> sampler_;
    std::vector<int32_t> tokens_;
    std::deque<State> states_;  // before each of the last turns
    int n_turns_ = 0;
    int32_t pending_ = -1;       // said, not yet fed
    bool in_open_turn_ = false;  // the user's turn has begun, with a text that was loaded
    bool uses_template_ = true;  // false: raw, or a text that was loaded is
};

}  // namespace pith::app
