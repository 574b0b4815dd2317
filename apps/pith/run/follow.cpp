// follow.cpp - pieces of text to tokens, tokens to calls, and the place in the text that a saved file goes on from.
#include "app/run/follow.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <span>
#include <utility>

#include "app/run/followed_input.h"
#include "common/base/ledger_report.h"
#include "common/base/progress.h"
#include "core/text.h"

namespace pith::app {
namespace {

class Follower {
public:
    Follower(Session & session, const Tokenizer & tokenizer, std::vector<int32_t> begin, SavedText text,
             const FollowOptions & options, const std::atomic<bool> & stop, FollowedInput input)
        : session_(session),
          tokenizer_(tokenizer),
          text_(std::move(text)),
          options_(options),
          stop_(stop),
          input_(std::move(input)),
          waiting_(std::move(begin)),
          n_in_front_(waiting_.size()),
          n_fed_(text_.place.n_tokens) {}

    Result<bool> run() {
        const Status status = read();
        const bool stopped = status.code() == ErrorCode::kCancelled;
        if (!status.ok() && !stopped && n_unsaved_ == 0) { return status; }
        const Status saved = save();
        if (!status.ok() && !stopped) { return status; }
        PITH_RETURN_IF_ERROR(saved);
        return !stopped && input_.at_end();
    }

private:
    // Some of the text, of which tokens wait.
    struct Piece {
        StreamPlace begin;  // in front of it
        int64_t n_tokens = 0;
    };

    Status read() {
        for (;;) {
            const size_t n_call = n_in_front_ + static_cast<size_t>(options_.call);
            while (waiting_.size() < n_call) {
                PITH_ASSIGN_OR_RETURN(const bool came, take_piece());
                if (!came) { break; }
            }
            if (waiting_.size() < n_call && !input_.at_end()) { return {ErrorCode::kCancelled, "stopped"}; }
            if (waiting_.empty()) { return {}; }
            PITH_RETURN_IF_ERROR(feed(std::min(waiting_.size(), n_call)));
            // The end of what may still go on is no place to begin at.
            if (options_.save_every > 0 && n_unsaved_ >= options_.save_every && !input_.at_end()) {
                PITH_RETURN_IF_ERROR(save());
            }
        }
    }

    Result<bool> take_piece() {
        const StreamPlace before{input_.n_bytes(), 0, input_.tail_hash()};
        PITH_ASSIGN_OR_RETURN(const std::optional<std::string> piece, input_.next());
        if (!piece) { return false; }
        PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, further_tokens(tokenizer_, text_, *piece));
        const auto n = std::ssize(tokens);
        const int64_t n_known = pieces_.empty() ? n_fed_ : 0;  // read before the file was saved
        if (n_known > n) {
            return Status(ErrorCode::kInvalidArgument, "the text that follows byte " + std::to_string(before.n_bytes) +
                                                           " is not the one that was read before");
        }
        pieces_.push_back({before, n});
        waiting_.insert(waiting_.end(), tokens.begin() + n_known, tokens.end());
        leave_pieces();
        return true;
    }

    // Those that have been read whole.
    void leave_pieces() {
        while (!pieces_.empty() && n_fed_ >= pieces_.front().n_tokens) {
            n_fed_ -= pieces_.front().n_tokens;
            pieces_.pop_front();
        }
    }

    Status feed(size_t n) {
        RunHooks hooks;
        hooks.cancel = &stop_;
        PITH_RETURN_IF_ERROR(session_.prefill(std::span(waiting_).first(n), hooks));
        waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(n));
        n_fed_ += static_cast<int64_t>(n - std::exchange(n_in_front_, 0));
        n_unsaved_ += static_cast<int64_t>(n);
        leave_pieces();
        line_.show_text(with_commas(session_.n_tokens()) + " tokens, " + bytes_text(static_cast<size_t>(input_.n_bytes())));
        if (session_.ledger().budget_entries > 0) { return {}; }
        return {ErrorCode::kInvalidArgument, "--follow reads without end, and policy " + session_.ledger().policy +
                                                 " evicts nothing: give a --policy that keeps to the --budget"};
    }

    StreamPlace place() const {
        if (pieces_.empty()) { return {input_.n_bytes(), 0, input_.tail_hash()}; }
        StreamPlace place = pieces_.front().begin;
        place.n_tokens = n_fed_;
        return place;
    }

    Status save() {
        if (options_.save_cache.empty() || session_.n_tokens() == 0) { return {}; }
        text_.place = place();
        PITH_RETURN_IF_ERROR(session_.save(options_.save_cache, to_notes(text_)));
        n_unsaved_ = 0;
        return {};
    }

    Session & session_;
    const Tokenizer & tokenizer_;
    SavedText text_;
    const FollowOptions & options_;
    const std::atomic<bool> & stop_;
    FollowedInput input_;
    std::deque<Piece> pieces_;  // of which tokens wait
    std::vector<int32_t> waiting_;
    size_t n_in_front_;      // of them, in front of the text
    int64_t n_fed_;          // of the first piece's tokens
    int64_t n_unsaved_ = 0;  // tokens fed since the last save
    ProgressLine line_{"following"};
};

}  // namespace

Status check_endless(const SessionOptions & options) {
    const bool is_fixed = options.budget.kind == BudgetKind::kEntries || options.budget.kind == BudgetKind::kBytes;
    if (!is_fixed) {
        return {ErrorCode::kInvalidArgument,
                "--follow reads without end: give a --budget in tokens per head (1024) or in bytes (512M)"};
    }
    if (options.evict_every > 0) { return {}; }
    return {ErrorCode::kInvalidArgument, "--follow evicts as it reads: --evict-every 0 evicts nothing behind the first chunk"};
}

Result<bool> follow(Session & session, const Tokenizer & tokenizer, std::vector<int32_t> begin, SavedText text,
                    const FollowOptions & options, const std::atomic<bool> & stop) {
    PITH_ASSIGN_OR_RETURN(FollowedInput input,
                          FollowedInput::open(options.input, text.place.n_bytes, text.place.tail_hash, stop));
    if (stop.load()) { return false; }  // perhaps before its place in the text was found: the file that is there is right
    return Follower(session, tokenizer, std::move(begin), std::move(text), options, stop, std::move(input)).run();
}

}  // namespace pith::app
