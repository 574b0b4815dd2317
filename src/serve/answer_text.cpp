// answer_text.cpp - holds back what is not known yet. Stage: serve.
#include "serve/answer_text.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace pith::serve {

std::string AnswerText::add(std::string_view piece) {
    if (stopped_) { return {}; }
    held_ += piece;
    size_t first = std::string::npos;
    for (const std::string & stop : stops_) {
        const size_t at = held_.find(stop);
        if (at < first) {
            first = at;
            stop_ = stop;
        }
    }
    if (first != std::string::npos) {
        stopped_ = true;
        std::string out = held_.substr(0, first);
        held_.clear();
        return out;
    }
    size_t n_back = incomplete_utf8_tail(held_);
    for (const std::string & stop : stops_) {
        for (size_t n = std::min(stop.size() - 1, held_.size()); n > n_back; --n) {
            if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, n))) {
                n_back = n;
                break;
            }
        }
    }
    std::string out = held_.substr(0, held_.size() - n_back);
    held_.erase(0, out.size());
    return out;
}

std::string AnswerText::finish() {
    return std::exchange(held_, {});
}

}  // namespace pith::serve
