// saved_and_opened.h - a session that was saved and opened, here and in another process, beside the one that never was.
//
// The other process is this program once more, told by an environment variable which file to open. It finds the model by what
// the file says, and leaves a hash of all logits beside it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "cache/cache_file.h"
#include "core/hash64.h"
#include "engine/session_state.h"
#include "engine/tiny_model.h"
#include "pith/cache_file.h"
#include "pith/model.h"

namespace pith::testing {

inline constexpr int kFurther = 100;  // tokens that both go on with

inline std::string a_file() {
    return scratch_file("saved.pith");
}

inline std::vector<int32_t> further_tokens(const Model & model) {
    return random_tokens(kFurther, model.info().n_vocab, 9);
}

// A prompt, and tokens one by one; behind each of them `then` is called. false: a call failed, or `then` wants no more.
template <class Then>
bool feed_further(Session & session, const std::vector<int32_t> & tokens, const Then & then) {
    if (!session.prefill(std::span(tokens).first(kFurther / 4)).ok() || !then()) { return false; }
    const auto rest = std::span(tokens).subspan(kFurther / 4, kFurther - kFurther / 4);
    return std::ranges::all_of(rest, [&](int32_t token) { return session.append(token).ok() && then(); });
}

inline void add_logits(const Session & session, Hash64 & hash) {
    const auto logits = session.logits();
    hash.add({reinterpret_cast<const uint8_t *>(logits.data()), logits.size_bytes()});
}

// Feeds the same to both. Every logit is the same; all: of these.
inline void expect_same_from_here(Session & saved, Session & never_saved, const std::vector<int32_t> & tokens,
                                  Hash64 * all = nullptr) {
    Hash64 hash;
    std::vector<std::vector<float>> logits;
    ASSERT_TRUE(feed_further(never_saved, tokens, [&] {
        add_logits(never_saved, hash);
        logits.emplace_back(never_saved.logits().begin(), never_saved.logits().end());
        return true;
    }));
    size_t i = 0;
    ASSERT_TRUE(feed_further(saved, tokens, [&] { return std::ranges::equal(saved.logits(), logits[i++]); }))
        << saved.n_tokens();
    EXPECT_TRUE(state_of(saved) == state_of(never_saved));
    EXPECT_EQ(saved.tokens(), never_saved.tokens());
    if (all != nullptr) { *all = hash; }
}

inline constexpr const char * kOpensFile = "PITH_TEST_OPENS_FILE";

inline std::string hash_beside(const std::string & path) {
    return path + ".logits";
}

// What the other process does: 0, or which step failed.
inline int open_and_tell(const std::string & path) {
    const auto info = read_cache_info(path);
    if (!info.ok()) { return 2; }
    ModelOptions options;
    options.lora_file = info->lora_file;
    options.lora_scale = info->lora_scale;
    options.gate_file = info->gate_file;
    const auto model = Model::load(info->model_path, options);
    if (!model.ok()) { return 3; }
    auto session = model->open_session(path, 1);
    if (!session.ok()) { return 4; }
    Hash64 hash;
    const bool fed = feed_further(*session, further_tokens(*model), [&] {
        add_logits(*session, hash);
        return true;
    });
    if (!fed) { return 5; }
    std::ofstream(hash_beside(path)) << hash_text(hash.value());
    return 0;
}

// Comes before any test.
class OpensFile : public ::testing::Environment {
    void SetUp() override {
        if (const char * path = std::getenv(kOpensFile)) { _exit(open_and_tell(path)); }
    }
};
inline const auto * const kOpensFileIfTold = ::testing::AddGlobalTestEnvironment(new OpensFile);

// The hash of all logits that another process has behind the file; a word where there is none.
inline std::string logits_of_another_process(const std::string & path) {
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    std::string program = "/proc/self/exe";
    char * const arguments[] = {program.data(), nullptr};
    setenv(kOpensFile, path.c_str(), 1);
    pid_t child = 0;
    const int failed = posix_spawn(&child, program.c_str(), &quiet, nullptr, arguments, environ);
    unsetenv(kOpensFile);
    posix_spawn_file_actions_destroy(&quiet);
    int state = 0;
    if (failed != 0 || waitpid(child, &state, 0) != child) { return "no process"; }
    if (state != 0) { return "state " + std::to_string(state); }
    std::string hash;
    std::ifstream(hash_beside(path)) >> hash;
    std::remove(hash_beside(path).c_str());
    return hash;
}

// Saves the session, opens the file, here and in another process, and goes on with all of them. evicts: on the way.
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
    Hash64 logits;
    expect_same_from_here(*opened, session, further_tokens(model), &logits);
    EXPECT_EQ(logits_of_another_process(path), hash_text(logits.value()));
    if (evicts) { EXPECT_GT(session.ledger().evicted_entries, n_before); }
}

}  // namespace pith::testing
