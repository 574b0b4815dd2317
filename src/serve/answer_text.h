// answer_text.h - tokens' texts become pieces that may be shown: whole characters, and nothing of a stop text. Stage: serve.
//
// What might be the beginning of a stop text, or of a character, is held back until it is known.
// Pure C++. Threads: one at a time. Cost: the length of what is held back, for each stop text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pith::serve {

class AnswerText {
public:
    explicit AnswerText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

    // What may be shown now.
    std::string add(std::string_view piece);
    // The rest. REQUIRES: !stopped(), or nothing is left.
    std::string finish();
    bool stopped() const { return stopped_; }           // a stop text has come: what stands behind it is dropped
    const std::string & stop() const { return stop_; }  // that one; empty: none has

private:
    std::vector<std::string> stops_;  // none is empty
    std::string held_;
    std::string stop_;
    bool stopped_ = false;
};

}  // namespace pith::serve
