// grammar_matcher.cpp - tokens byte by byte, through the states of their characters. Stage: text.
#include "text/grammar_matcher.h"

#include <algorithm>
#include <array>

namespace pith {
namespace {

// Steps of GrammarStates: about half a second once, ten milliseconds a token on the average.
constexpr int64_t kStepsAtFirst = 8'000'000;
constexpr int64_t kStepsPerToken = 200'000;

// What a character of so many bytes is at least (RFC 3629: none is written longer than it must be).
constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
constexpr char32_t kFirstSurrogate = 0xD800;
constexpr char32_t kLastSurrogate = 0xDFFF;

}  // namespace

Result<GrammarMatcher> GrammarMatcher::make(Grammar grammar, const TokenTexts & texts) {
    GrammarMatcher matcher(std::move(grammar), texts);
    PITH_RETURN_IF_ERROR(matcher.reset());
    matcher.place_ = {};
    matcher.has_begun_ = false;
    matcher.states_.forget();  // until its turn comes it takes no more than the grammar
    return matcher;
}

Status GrammarMatcher::check_work() const {
    if (!states_.is_spent()) { return {}; }
    return {ErrorCode::kInvalidArgument,
            "the grammar can be read in too many ways at once: repeat fewer parts that may be empty or that begin alike"};
}

Status GrammarMatcher::reset() {
    states_.allow(kStepsAtFirst);
    states_.make_room(GrammarStates::kDead);
    place_ = {};
    place_.state = states_.start();
    has_begun_ = true;
    return check_work();
}

Status GrammarMatcher::begin() {
    return has_begun_ ? Status() : reset();
}

// Bytes that are no UTF-8 lead nowhere.
void GrammarMatcher::go(Place & place, char byte) {
    const auto bits = static_cast<unsigned char>(byte);
    if (place.n_missing == 0) {
        if (bits < 0x80) {
            place.state = states_.next(place.state, bits);
            return;
        }
        place.n_bytes = bits >= 0xF0 ? 4 : bits >= 0xE0 ? 3 : 2;
        place.n_missing = static_cast<uint8_t>(place.n_bytes - 1);
        place.begun = bits & (0xFFU >> (place.n_bytes + 1U));
        if (bits < 0xC2 || bits > 0xF4) { place = {}; }
        return;
    }
    place.begun = (place.begun << 6U) | (bits & 0x3FU);
    --place.n_missing;
    const bool is_more = (bits & 0xC0U) == 0x80U;
    if (!is_more || !goes_on(place)) {
        place = {};
    } else if (place.n_missing == 0) {
        place = {states_.next(place.state, place.begun)};
    }
}

// Behind whole characters, unless the state is dead; inside of one, where a character that begins so may come.
bool GrammarMatcher::goes_on(const Place & place) {
    if (place.state == GrammarStates::kDead || place.n_bytes == 0) { return place.state != GrammarStates::kDead; }
    const uint32_t n_bits = 6U * place.n_missing;
    const char32_t low = std::max<char32_t>(place.begun << n_bits, kLeast[place.n_bytes]);
    const char32_t high = std::min<char32_t>(((place.begun + 1) << n_bits) - 1, kMostCharacter);
    const bool is_surrogate = low >= kFirstSurrogate && high <= kLastSurrogate;
    return low <= high && !is_surrogate && states_.goes_on(place.state, low, high);
}

Result<bool> GrammarMatcher::allows(int32_t token) {
    PITH_RETURN_IF_ERROR(begin());
    if (token < 0 || token >= texts_->size()) { return false; }
    if (texts_->is_end(token)) { return place_.n_missing == 0 && states_.may_end(place_.state); }
    const std::string_view text = texts_->text(token);
    if (text.empty()) { return false; }
    Place place = place_;
    for (const char byte : text) { go(place, byte); }
    bool may = goes_on(place);
    if (!may && place_.n_missing == 0) { may = states_.next_token(place_.state, token) != GrammarStates::kDead; }
    PITH_RETURN_IF_ERROR(check_work());
    return may;
}

template <class Found>
void GrammarMatcher::follow(const Place & from, const std::vector<TokenTexts::Place> & tokens, const Found & found) {
    path_.resize(texts_->longest() + 1);
    has_left_.resize(path_.size());
    path_[0] = from;
    has_left_[0] = false;
    size_t dead_at = SIZE_MAX;  // the token before leads nowhere from so many of its bytes on
    for (const auto & [token, n_shared] : tokens) {
        if (n_shared < dead_at) {
            dead_at = SIZE_MAX;
            const std::string_view text = texts_->text(token);
            for (size_t i = n_shared; i < text.size() && dead_at == SIZE_MAX; ++i) {
                path_[i + 1] = path_[i];
                go(path_[i + 1], text[i]);
                has_left_[i + 1] = has_left_[i] || states_.may_leave(path_[i + 1].state);
                if (path_[i + 1].state == GrammarStates::kDead) { dead_at = i + 1; }
            }
        }
        const size_t end = dead_at == SIZE_MAX ? texts_->text(token).size() : dead_at;
        if (dead_at == SIZE_MAX || has_left_[end]) { found(token, n_shared, path_[end], has_left_[end]); }
    }
}

const GrammarMatcher::Mask & GrammarMatcher::mask_of(uint32_t inside) {
    constexpr size_t kMostMaskBytes = size_t{8} << 20;
    if (n_rooms_ != states_.n_rooms() || n_mask_bytes_ > kMostMaskBytes) {
        masks_.clear();
        n_mask_bytes_ = 0;
        n_rooms_ = states_.n_rooms();
    }
    const auto [known, is_new] = masks_.try_emplace(inside);
    Mask & mask = known->second;
    if (!is_new) { return mask; }
    std::string_view before;
    const auto n_few = static_cast<size_t>(texts_->size()) / 64;
    follow({inside}, texts_->in_order(), [&](int32_t token, uint32_t /*n_shared*/, const Place & place, bool has_left) {
        const bool goes = goes_on(place) && (place.n_missing > 0 || states_.is_known_to_go_on(place.state));
        if (goes && mask.tokens.empty() && mask.few.size() < n_few) {
            mask.few.push_back(token);
        } else if (goes) {
            mask.tokens.resize(static_cast<size_t>(texts_->size()));
            mask.tokens[static_cast<size_t>(token)] = true;
        } else if (has_left) {
            const std::string_view text = texts_->text(token);
            const auto differs = std::ranges::mismatch(text, before);
            mask.others.push_back({token, static_cast<uint32_t>(differs.in1 - text.begin())});
            before = text;
        }
    });
    n_mask_bytes_ += sizeof(Mask) + mask.tokens.size() / 8 + 4 * mask.few.size() + 8 * mask.others.size();
    if (states_.is_spent()) { n_rooms_ = 0; }  // it is not whole
    return mask;
}

Status GrammarMatcher::allowed(std::vector<bool> & tokens) {
    PITH_RETURN_IF_ERROR(begin());
    const auto take = [&](int32_t token, uint32_t /*n_shared*/, const Place & place, bool /*has_left*/) {
        if (goes_on(place)) { tokens[static_cast<size_t>(token)] = true; }
    };
    if (place_.n_missing > 0) {
        tokens.assign(static_cast<size_t>(texts_->size()), false);
        follow(place_, texts_->in_order(), take);
        return check_work();
    }
    const Mask & mask = mask_of(states_.inside_of(place_.state));
    PITH_RETURN_IF_ERROR(check_work());
    tokens = mask.tokens;
    tokens.resize(static_cast<size_t>(texts_->size()));
    for (const int32_t token : mask.few) { tokens[static_cast<size_t>(token)] = true; }
    follow(place_, mask.others, take);
    const GrammarStates::NamedTokens named = states_.named_tokens(place_.state);
    const bool may_end = states_.may_end(place_.state);
    for (int32_t token = 0; token < texts_->size() && (may_end || named.any()); ++token) {
        const auto at = static_cast<size_t>(token);
        tokens[at] = texts_->is_end(token) ? may_end : tokens[at] || (named.has(token) && !texts_->text(token).empty());
    }
    return check_work();
}

Status GrammarMatcher::accept(int32_t token) {
    PITH_RETURN_IF_ERROR(begin());
    states_.allow(std::min(states_.n_left() + kStepsPerToken, kStepsAtFirst));
    if (texts_->is_end(token)) { return {}; }
    place_.state = states_.make_room(place_.state);
    Place place = place_;
    for (const char byte : texts_->text(token)) { go(place, byte); }
    if (!goes_on(place)) { place = {}; }  // the first byte of a character that may not come
    if (place_.n_missing == 0) {
        const uint32_t named = states_.next_token(place_.state, token);
        if (named != GrammarStates::kDead && place.n_missing == 0) { place = {states_.both(place.state, named)}; }
    }
    place_ = place;
    return check_work();
}

}  // namespace pith
