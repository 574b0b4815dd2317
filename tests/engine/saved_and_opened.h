// saved_and_opened.h - a session that was saved and opened beside the one that never was.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "cache/cache_file.h"
#include "engine/session_state.h"
#include "engine/tiny_model.h"
#include "pith/model.h"

namespace pith::testing {

inline constexpr int kFurther = 100;  // tokens that both go on with

inline std::string a_file() {
    return scratch_file("saved.pith");
}

// Feeds the same to both: a prompt, and tokens one by one. Every logit is the same.
inline void expect_same_from_here(Session & saved, Session & never_saved, const std::vector<int32_t> & tokens) {
    const auto prompt = std::span(tokens).first(kFurther / 4);
    ASSERT_TRUE(never_saved.prefill(prompt).ok());
    ASSERT_TRUE(saved.prefill(prompt).ok());
    ASSERT_TRUE(std::ranges::equal(saved.logits(), never_saved.logits()));
    for (const int32_t token : std::span(tokens).subspan(kFurther / 4, kFurther - kFurther / 4)) {
        ASSERT_TRUE(never_saved.append(token).ok());
        ASSERT_TRUE(saved.append(token).ok());
        ASSERT_TRUE(std::ranges::equal(saved.logits(), never_saved.logits())) << saved.n_tokens();
    }
    EXPECT_TRUE(state_of(saved) == state_of(never_saved));
    EXPECT_EQ(saved.tokens(), never_saved.tokens());
}

// Saves the session, opens the file, and goes on with both. evicts: on the way.
inline void expect_saving_changes_nothing(const Model & model, Session & session, bool evicts) {
    const std::string path = a_file();
    const Status saved = session.save(path, {{"name", "value"}});
    ASSERT_TRUE(saved.ok()) << saved.message();
    auto opened = model.open_session(path, 1);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_TRUE(state_of(*opened) == state_of(session));
    EXPECT_EQ(opened->tokens(), session.tokens());
    // All that is in the file came back: saved again, its sections are the same, but for the peaks of memory.
    const std::string again = path + ".again";
    ASSERT_TRUE(opened->save(again, {{"name", "value"}}).ok());
    const auto first = CacheFile::open(path);
    const auto second = CacheFile::open(again);
    ASSERT_TRUE(first.ok() && second.ok());
    for (const CacheSection & section : first->view().sections()) {
        if (section.name == "state") { continue; }
        const auto bytes = *first->view().section(section.name);
        EXPECT_TRUE(std::ranges::equal(bytes, *second->view().section(section.name))) << section.name;
    }

    const int64_t n_before = session.ledger().evicted_entries;
    expect_same_from_here(*opened, session, random_tokens(kFurther, model.info().n_vocab, 9));
    if (evicts) { EXPECT_GT(session.ledger().evicted_entries, n_before); }
}

}  // namespace pith::testing
