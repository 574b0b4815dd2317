// c_interface_test.cpp - the library as C programs see it: structs of older callers, errors, and what C++ does, done from C.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "model/gguf_edit.h"
#include "model/random/random_model.h"
#include "pith/pith.h"

namespace pith::c_interface_test {
namespace {

using testing::TempFolder;

constexpr int kContext = 164;
constexpr int kQuestions = 21;  // tokens of all of them
constexpr int kBudget = 24;
constexpr const char * kPolicy = "snapkv:window=21";  // as long as the questions, so that a plain prompt has the same window

struct FreeModel {
    void operator()(pith_model * model) const { pith_model_free(model); }
};
struct FreeSession {
    void operator()(pith_session * session) const { pith_session_free(session); }
};
using ModelHandle = std::unique_ptr<pith_model, FreeModel>;
using SessionHandle = std::unique_ptr<pith_session, FreeSession>;
using Lanes = std::vector<std::vector<int32_t>>;

std::vector<int32_t> tokens_of(int n, unsigned state) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < n; ++i) {
        state = state * 1664525U + 1013904223U;
        tokens.push_back(static_cast<int32_t>((state >> 16U) % 500U));
    }
    return tokens;
}

class CInterface : public ::testing::Test {
protected:
    void SetUp() override {
        const std::string path = folder_.file("tiny.gguf");
        ASSERT_TRUE(write_random_model({}, path).ok());
        pith_model * model = nullptr;
        ASSERT_EQ(pith_model_load(path.c_str(), nullptr, &model), PITH_OK) << pith_error();
        model_.reset(model);
        pith_model_info info{};
        info.size = sizeof info;
        ASSERT_EQ(pith_model_get_info(model, &info), PITH_OK);
        n_layers_ = info.n_layers;
        n_kv_heads_ = info.n_kv_heads;
    }
    static pith_session_options options_of(const char * policy, const char * budget, const char * prefill = "one-shot") {
        pith_session_options options;
        pith_session_options_init(&options, sizeof options);
        options.policy = policy;
        options.budget = budget;
        options.prefill = prefill;
        options.n_threads = 1;
        return options;
    }
    SessionHandle open(const pith_session_options & options) const {
        pith_session * session = nullptr;
        EXPECT_EQ(pith_session_new(model_.get(), &options, &session), PITH_OK) << pith_error();
        return SessionHandle(session);
    }
    Lanes lanes_below(const SessionHandle & session, int32_t end) const {
        Lanes all;
        for (int l = 0; l < n_layers_; ++l) {
            for (int h = 0; h < n_kv_heads_; ++h) {
                const int32_t * positions = nullptr;
                size_t n = 0;
                EXPECT_EQ(pith_lane_positions(session.get(), l, h, &positions, &n), PITH_OK);
                all.emplace_back();
                for (size_t i = 0; i < n; ++i) {
                    if (positions[i] < end) { all.back().push_back(positions[i]); }
                }
            }
        }
        return all;
    }
    static std::vector<int32_t> answer(const SessionHandle & session, const std::vector<int32_t> & question) {
        EXPECT_EQ(pith_prefill(session.get(), question.data(), question.size(), nullptr), PITH_OK) << pith_error();
        std::vector<int32_t> said(8);
        for (int32_t & token : said) { EXPECT_EQ(pith_decode(session.get(), &token), PITH_OK); }
        return said;
    }

    TempFolder folder_;
    ModelHandle model_;
    int n_layers_ = 0;
    int n_kv_heads_ = 0;
    const std::vector<int32_t> context_ = tokens_of(kContext, 3);
    const std::vector<int32_t> questions_ = tokens_of(kQuestions, 4);
};

// A prompt that ends in all the questions, which are pinned and on top of the budget: what that keeps of the context.
TEST_F(CInterface, QuestionsInSightKeepWhatAPromptThatEndsInThemKeeps) {
    const std::string budget = std::to_string(kBudget);
    const std::string budget_with_questions = std::to_string(kBudget + kQuestions);
    std::vector<int32_t> whole = context_;
    whole.insert(whole.end(), questions_.begin(), questions_.end());
    pith_session_options options = options_of(kPolicy, budget_with_questions.c_str());
    const pith_span pinned = {kContext, kContext + kQuestions};
    options.pinned = &pinned;
    options.n_pinned = 1;
    const SessionHandle together = open(options);
    ASSERT_EQ(pith_prefill(together.get(), whole.data(), whole.size(), nullptr), PITH_OK) << pith_error();

    const SessionHandle session = open(options_of(kPolicy, budget.c_str()));
    bool seen = false;
    ASSERT_EQ(pith_prefill_for_questions(session.get(), context_.data(), context_.size(), questions_.data(), questions_.size(),
                                         nullptr, &seen),
              PITH_OK)
        << pith_error();
    EXPECT_TRUE(seen);
    EXPECT_EQ(pith_n_tokens(session.get()), kContext);
    EXPECT_EQ(lanes_below(session, kContext + kQuestions), lanes_below(together, kContext));
    pith_ledger ledger{};
    ledger.size = sizeof ledger;
    ASSERT_EQ(pith_get_ledger(session.get(), &ledger), PITH_OK);
    EXPECT_EQ(ledger.kept_entries, kBudget * ledger.n_lanes);
    EXPECT_EQ(ledger.n_tokens, kContext);
    EXPECT_GT(ledger.kv_full_bytes, ledger.kv_needed_bytes);
    EXPECT_STREQ(ledger.schedule, "one-shot, question seen");

    // Out of sight the same policy keeps something else: the test can fail.
    const SessionHandle later = open(options_of(kPolicy, budget.c_str()));
    ASSERT_EQ(pith_prefill(later.get(), context_.data(), context_.size(), nullptr), PITH_OK);
    EXPECT_NE(lanes_below(session, kContext), lanes_below(later, kContext));
}

TEST_F(CInterface, EveryQuestionIsAskedOfTheSameState) {
    pith_session_options options = options_of(kPolicy, "24", "chunked");
    options.chunk = 48;
    options.evict_every = 4;
    const SessionHandle session = open(options);
    bool seen = false;
    ASSERT_EQ(pith_prefill_for_questions(session.get(), context_.data(), context_.size(), questions_.data(), questions_.size(),
                                         nullptr, &seen),
              PITH_OK);
    EXPECT_TRUE(seen);
    pith_ledger ledger{};
    ledger.size = sizeof ledger;
    ASSERT_EQ(pith_get_ledger(session.get(), &ledger), PITH_OK);
    EXPECT_STREQ(ledger.schedule, "in chunks, question seen");
    pith_snapshot * compressed = nullptr;
    ASSERT_EQ(pith_session_snapshot(session.get(), &compressed), PITH_OK);
    const std::vector<int32_t> one(questions_.begin(), questions_.begin() + 9);
    const std::vector<int32_t> other(questions_.begin() + 9, questions_.end());
    const auto first = answer(session, one);
    ASSERT_EQ(pith_session_restore(session.get(), compressed), PITH_OK);
    const auto second = answer(session, other);
    ASSERT_EQ(pith_session_restore(session.get(), compressed), PITH_OK);
    EXPECT_EQ(answer(session, one), first);
    ASSERT_EQ(pith_session_restore(session.get(), compressed), PITH_OK);
    EXPECT_EQ(answer(session, other), second);
    pith_snapshot_free(compressed);
}

TEST_F(CInterface, ASavedSessionGoesOnAsTheOneThatWasNot) {
    const SessionHandle session = open(options_of(kPolicy, "24", "chunked"));
    ASSERT_EQ(pith_prefill(session.get(), context_.data(), context_.size(), nullptr), PITH_OK);
    const TempFolder folder;
    const std::string path = folder.file("a.pith");
    ASSERT_EQ(pith_session_save(session.get(), path.c_str()), PITH_OK) << pith_error();
    pith_session * made = nullptr;
    ASSERT_EQ(pith_session_open(model_.get(), path.c_str(), 1, &made), PITH_OK) << pith_error();
    const SessionHandle opened(made);
    EXPECT_EQ(pith_n_tokens(opened.get()), pith_n_tokens(session.get()));
    std::vector<int32_t> tokens(context_.size());
    size_t n = tokens.size();
    ASSERT_EQ(pith_session_tokens(opened.get(), tokens.data(), &n), PITH_OK);
    EXPECT_EQ(tokens, context_);
    const std::vector<int32_t> question(questions_.begin(), questions_.begin() + 9);
    EXPECT_EQ(answer(opened, question), answer(session, question));
    EXPECT_EQ(pith_session_load(opened.get(), path.c_str()), PITH_OK) << pith_error();
    EXPECT_EQ(pith_n_tokens(opened.get()), static_cast<int64_t>(context_.size()));
    const SessionHandle other = open(options_of(kPolicy, "25", "chunked"));
    EXPECT_EQ(pith_session_load(other.get(), path.c_str()), PITH_INVALID_ARGUMENT);
    EXPECT_NE(std::string(pith_error()).find("another budget: 24, here 25"), std::string::npos) << pith_error();
}

TEST_F(CInterface, QuestionsThatCannotBeInSightAreRefusedOrSaidToBeOut) {
    const auto read = [&](const SessionHandle & session, const std::vector<int32_t> & questions, bool * seen) {
        return pith_prefill_for_questions(session.get(), context_.data(), context_.size(), questions.data(), questions.size(),
                                          nullptr, seen);
    };
    bool seen = true;
    const SessionHandle roomy = open(options_of(kPolicy, "1000"));
    EXPECT_EQ(read(roomy, questions_, &seen), PITH_OK);
    EXPECT_FALSE(seen) << "nothing was evicted";
    EXPECT_EQ(read(roomy, questions_, nullptr), PITH_INVALID_ARGUMENT) << "it holds tokens";
    EXPECT_NE(std::string(pith_error()).find("empty session"), std::string::npos) << pith_error();
    pith_session_options options = options_of(kPolicy, "24", "chunked");
    options.chunk = kQuestions - 1;
    const SessionHandle short_chunks = open(options);
    seen = true;
    EXPECT_EQ(read(short_chunks, questions_, &seen), PITH_OK);
    EXPECT_FALSE(seen) << "they are longer than a chunk";
    const SessionHandle session = open(options_of(kPolicy, "24"));
    EXPECT_EQ(read(session, {}, &seen), PITH_INVALID_ARGUMENT);
    EXPECT_NE(std::string(pith_error()).find("no questions"), std::string::npos) << pith_error();
    EXPECT_EQ(read(session, {1000000}, &seen), PITH_INVALID_ARGUMENT) << "outside the vocabulary";
    pith_run_options run;
    pith_run_options_init(&run, sizeof run);
    run.n_question = 3;
    EXPECT_EQ(pith_prefill_for_questions(session.get(), context_.data(), context_.size(), questions_.data(), questions_.size(),
                                         &run, &seen),
              PITH_INVALID_ARGUMENT);
    EXPECT_EQ(pith_prefill_for_questions(nullptr, context_.data(), 1, questions_.data(), 1, nullptr, &seen),
              PITH_INVALID_ARGUMENT);
    run.n_question = 0;
    run.progress = [](int64_t, int64_t, void *) { return false; };
    EXPECT_EQ(pith_prefill_for_questions(session.get(), context_.data(), context_.size(), questions_.data(), questions_.size(),
                                         &run, &seen),
              PITH_CANCELLED);
    EXPECT_EQ(pith_n_tokens(session.get()), 0);
    EXPECT_EQ(read(session, questions_, &seen), PITH_OK) << "the session is good as new";
    EXPECT_TRUE(seen);
}

// In the middle of a chunk: nobody is asked in between. The first graph that is built reads the flag.
TEST_F(CInterface, AFlagEndsWhatTakesLongUntilItIsCleared) {
    pith_cancel * cancel = nullptr;
    EXPECT_EQ(pith_cancel_new(nullptr), PITH_INVALID_ARGUMENT);
    ASSERT_EQ(pith_cancel_new(&cancel), PITH_OK);
    const SessionHandle session = open(options_of("full", nullptr));
    const auto prefill = [&](const pith_run_options * run) {
        return pith_prefill(session.get(), context_.data(), context_.size(), run);
    };
    EXPECT_EQ(pith_session_cancel_by(nullptr, cancel), PITH_INVALID_ARGUMENT);
    ASSERT_EQ(pith_session_cancel_by(session.get(), cancel), PITH_OK);
    pith_cancel_set(cancel);
    EXPECT_EQ(prefill(nullptr), PITH_CANCELLED);
    EXPECT_EQ(prefill(nullptr), PITH_CANCELLED) << "it stays set";
    EXPECT_EQ(pith_n_tokens(session.get()), 0);
    pith_cancel_clear(cancel);
    pith_run_options run;
    pith_run_options_init(&run, sizeof run);
    run.progress = [](int64_t, int64_t, void *) { return false; };
    EXPECT_EQ(prefill(&run), PITH_CANCELLED);
    EXPECT_EQ(prefill(nullptr), PITH_OK) << "a callback that says no ends one call alone";
    // Set while a call runs, by its callback.
    run.progress = [](int64_t, int64_t, void * flag) {
        pith_cancel_set(static_cast<pith_cancel *>(flag));
        return true;
    };
    run.user = cancel;
    EXPECT_EQ(pith_prefill(session.get(), questions_.data(), questions_.size(), &run), PITH_OK) << "it was done";
    EXPECT_EQ(pith_evict_for_questions(session.get(), questions_.data(), questions_.size(), "snapkv:window=8", "64"),
              PITH_CANCELLED);
    ASSERT_EQ(pith_session_cancel_by(session.get(), nullptr), PITH_OK);
    EXPECT_EQ(pith_evict_for_questions(session.get(), questions_.data(), questions_.size(), "snapkv:window=8", "64"), PITH_OK)
        << pith_error();

    pith_engine * engine = nullptr;
    ASSERT_EQ(pith_engine_new(model_.get(), nullptr, &engine), PITH_OK) << pith_error();
    pith_request request;
    pith_request_init(&request, sizeof request);
    request.tokens = context_.data();
    request.n_tokens = context_.size();
    request.max_tokens = 2;
    request.stop_at_end = false;
    int64_t id = 0;
    ASSERT_EQ(pith_engine_submit(engine, &request, &id), PITH_OK);
    ASSERT_EQ(pith_engine_cancel_by(engine, cancel), PITH_OK);
    EXPECT_EQ(pith_engine_run(engine, nullptr, nullptr), PITH_CANCELLED);
    bool more = false;
    EXPECT_EQ(pith_engine_step(engine, &more), PITH_OK);
    EXPECT_TRUE(more);
    EXPECT_NE(pith_engine_state(engine, id), PITH_REQUEST_DONE);
    pith_cancel_clear(cancel);
    EXPECT_EQ(pith_engine_run(engine, nullptr, nullptr), PITH_OK) << pith_error();
    EXPECT_EQ(pith_engine_state(engine, id), PITH_REQUEST_DONE);
    pith_cancel_free(cancel);  // the engine keeps what it needs
    EXPECT_EQ(pith_engine_step(engine, &more), PITH_OK);
    pith_engine_free(engine);
}

// Two sessions under one flag, each on a thread of its own.
TEST_F(CInterface, ACallbackThatSaysNoEndsNobodyElsesCall) {
    pith_cancel * cancel = nullptr;
    ASSERT_EQ(pith_cancel_new(&cancel), PITH_OK);
    pith_session_options options = options_of("full", nullptr);
    options.n_threads = 1;
    const SessionHandle says_no = open(options);
    const SessionHandle goes_on = open(options);
    for (const SessionHandle * session : {&says_no, &goes_on}) {
        ASSERT_EQ(pith_session_cancel_by(session->get(), cancel), PITH_OK);
    }
    pith_run_options run;
    pith_run_options_init(&run, sizeof run);
    run.progress = [](int64_t, int64_t, void *) { return false; };
    std::atomic<bool> done = false;
    std::thread other([&] {
        while (!done) { EXPECT_EQ(pith_prefill(says_no.get(), context_.data(), context_.size(), &run), PITH_CANCELLED); }
    });
    for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(pith_prefill(goes_on.get(), context_.data(), 8, nullptr), PITH_OK) << i << ": " << pith_error();
    }
    done = true;
    other.join();
    pith_cancel_free(cancel);
}

// By its own callback: the call under way keeps the flag that it began with.
TEST_F(CInterface, AFlagMayBeTakenAwayWhileItIsWatched) {
    pith_cancel * cancel = nullptr;
    ASSERT_EQ(pith_cancel_new(&cancel), PITH_OK);
    const SessionHandle session = open(options_of("full", nullptr));
    ASSERT_EQ(pith_session_cancel_by(session.get(), cancel), PITH_OK);
    pith_cancel_free(cancel);
    pith_run_options run;
    pith_run_options_init(&run, sizeof run);
    run.user = session.get();
    run.progress = [](int64_t, int64_t, void * user) {
        return pith_session_cancel_by(static_cast<pith_session *>(user), nullptr) == PITH_OK;
    };
    EXPECT_EQ(pith_prefill(session.get(), context_.data(), context_.size(), &run), PITH_OK) << pith_error();
    EXPECT_EQ(pith_prefill(session.get(), context_.data(), 4, nullptr), PITH_OK) << pith_error();
}

// A caller compiled against an older header, whose structs end earlier.
TEST_F(CInterface, StructsOfOlderCallersAreTakenAsFarAsTheyGo) {
    pith_session_options options = options_of("snapkv", "64");
    options.size = offsetof(pith_session_options, n_threads);
    options.evict_every = -7;  // beyond what this caller knows: not read
    EXPECT_NE(open(options), nullptr);
    options.size = sizeof options;
    pith_session * refused = nullptr;
    EXPECT_EQ(pith_session_new(model_.get(), &options, &refused), PITH_OK) << "seen when the prompt comes";
    const SessionHandle other(refused);
    EXPECT_EQ(pith_prefill(refused, context_.data(), context_.size(), nullptr), PITH_INVALID_ARGUMENT);

    struct {
        pith_ledger ledger;
        char behind;
    } old;
    std::memset(static_cast<void *>(&old), 0x5A, sizeof old);
    old.ledger.size = offsetof(pith_ledger, n_generated);
    const SessionHandle session = open(options_of("full", nullptr));
    ASSERT_EQ(pith_prefill(session.get(), context_.data(), context_.size(), nullptr), PITH_OK);
    ASSERT_EQ(pith_get_ledger(session.get(), &old.ledger), PITH_OK);
    EXPECT_EQ(old.ledger.n_prompt, kContext);
    EXPECT_EQ(old.ledger.n_generated, 0x5A5A5A5A5A5A5A5A) << "not the caller's to know";
    old.ledger.size = 0;
    EXPECT_EQ(pith_get_ledger(session.get(), &old.ledger), PITH_INVALID_ARGUMENT);
    EXPECT_NE(std::string(pith_error()).find("sizeof"), std::string::npos) << pith_error();
}

// ---- engines ----

// Asked of the session and of the engine: the same answer, and one that the other does not get.
TEST_F(CInterface, AnEngineAnswersAsSessionsDo) {
    pith_session_options options = options_of(kPolicy, "24", "chunked");
    options.chunk = 48;
    options.evict_every = 4;
    std::vector<std::vector<int32_t>> alone;
    const std::vector<std::vector<int32_t>> prompts = {context_, tokens_of(90, 11), tokens_of(120, 12)};
    for (const auto & prompt : prompts) { alone.push_back(answer(open(options), prompt)); }
    ASSERT_NE(alone[0], alone[1]);

    pith_engine_options engine_options;
    pith_engine_options_init(&engine_options, sizeof engine_options);
    engine_options.ceiling = "64M";
    engine_options.n_threads = 1;
    engine_options.grid = 0;  // evictions come when a session has them
    pith_engine * engine = nullptr;
    ASSERT_EQ(pith_engine_new(model_.get(), &engine_options, &engine), PITH_OK) << pith_error();
    std::vector<int64_t> ids(prompts.size());
    std::vector<int32_t> shown;
    for (size_t i = 0; i < prompts.size(); ++i) {
        pith_request request;
        pith_request_init(&request, sizeof request);
        request.tokens = prompts[i].data();
        request.n_tokens = prompts[i].size();
        request.options = &options;
        request.max_tokens = 8;
        request.stop_at_end = false;
        request.user = &shown;
        if (i == 0) {
            request.on_token = [](int32_t token, void * user) {
                static_cast<std::vector<int32_t> *>(user)->push_back(token);
                return true;
            };
        }
        ASSERT_EQ(pith_engine_submit(engine, &request, &ids[i]), PITH_OK) << pith_error();
    }
    ASSERT_EQ(pith_engine_run(engine, nullptr, nullptr), PITH_OK) << pith_error();
    for (size_t i = 0; i < prompts.size(); ++i) {
        ASSERT_EQ(pith_engine_status(engine, ids[i]), PITH_OK) << pith_error();
        size_t n = 0;
        const int32_t * said = pith_engine_answer(engine, ids[i], &n);
        EXPECT_EQ(std::vector<int32_t>(said, said + n), alone[i]) << i;
    }
    EXPECT_EQ(shown, alone[0]);
    pith_engine_ledger all{};
    all.size = sizeof all;
    ASSERT_EQ(pith_engine_get_ledger(engine, &all), PITH_OK);
    EXPECT_EQ(all.n_prompt, kContext + 90 + 120);
    EXPECT_EQ(all.kv_allocated_bytes, 0U);
    EXPECT_DOUBLE_EQ(all.prefill_s + all.decode_s, all.step_s);
    pith_engine_free(engine);
}

// What a callback, and another thread, are told while a call is in the handle.
struct Meanwhile {
    pith_session * session = nullptr;
    pith_engine * engine = nullptr;
    bool looked = false;
    std::vector<pith_code> codes;
    std::vector<std::string> lines;

    void say(pith_code code) {
        codes.push_back(code);
        lines.emplace_back(pith_error());
    }
    static bool in_session(int64_t /*n_done*/, int64_t /*n_total*/, void * user) {
        auto & all = *static_cast<Meanwhile *>(user);
        if (!all.codes.empty()) { return true; }
        pith_ledger ledger{};
        ledger.size = sizeof ledger;
        all.looked = pith_get_ledger(all.session, &ledger) == PITH_OK;
        all.say(pith_append(all.session, 1));
        all.say(pith_session_free(all.session));
        const int32_t asked[] = {1, 2, 3};
        all.say(pith_repair(all.session, asked, 3, true));
        all.say(pith_session_save(all.session, "unread.pith"));
        std::thread other([&all, &ledger, &asked] {
            int32_t token = 0;
            all.say(pith_repair(all.session, asked, 3, true));
            all.say(pith_decode(all.session, &token));
            all.say(pith_get_ledger(all.session, &ledger));
            all.say(pith_session_free(all.session));
        });
        other.join();
        return true;
    }
    static bool in_engine(int32_t /*token*/, void * user) {
        auto & all = *static_cast<Meanwhile *>(user);
        bool more = false;
        all.say(pith_engine_step(all.engine, &more));
        all.say(pith_engine_free(all.engine));
        std::thread other([&all, &more] { all.say(pith_engine_step(all.engine, &more)); });
        other.join();
        return false;
    }
    void expect_refused(size_t n_of_callback, size_t n_of_other) const {
        ASSERT_EQ(codes.size(), n_of_callback + n_of_other);
        for (size_t i = 0; i < codes.size(); ++i) {
            EXPECT_EQ(codes[i], PITH_INVALID_ARGUMENT) << i;
            const char * why = i < n_of_callback ? "a callback of its call" : "another thread";
            EXPECT_NE(lines[i].find(why), std::string::npos) << i << ": " << lines[i];
        }
    }
};

TEST_F(CInterface, ASessionThatACallIsInRefusesAnother) {
    const SessionHandle session = open(options_of("snapkv:window=8", "24", "chunked"));
    Meanwhile all{.session = session.get()};
    pith_run_options run;
    pith_run_options_init(&run, sizeof run);
    run.progress = Meanwhile::in_session;
    run.user = &all;
    ASSERT_EQ(pith_prefill(session.get(), context_.data(), context_.size(), &run), PITH_OK) << pith_error();
    EXPECT_TRUE(all.looked);
    all.expect_refused(4, 4);
    EXPECT_EQ(pith_n_tokens(session.get()), kContext);
    EXPECT_EQ(pith_append(session.get(), 1), PITH_OK) << "the call has ended";
}

TEST_F(CInterface, AnEngineThatACallIsInRefusesAnother) {
    Meanwhile all;
    ASSERT_EQ(pith_engine_new(model_.get(), nullptr, &all.engine), PITH_OK) << pith_error();
    pith_request request;
    pith_request_init(&request, sizeof request);
    request.tokens = context_.data();
    request.n_tokens = context_.size();
    request.on_token = Meanwhile::in_engine;
    request.user = &all;
    int64_t id = 0;
    ASSERT_EQ(pith_engine_submit(all.engine, &request, &id), PITH_OK) << pith_error();
    ASSERT_EQ(pith_engine_run(all.engine, nullptr, nullptr), PITH_OK) << pith_error();
    all.expect_refused(2, 1);
    EXPECT_EQ(pith_engine_state(all.engine, id), PITH_REQUEST_DONE);
    EXPECT_EQ(pith_engine_free(all.engine), PITH_OK);
}

// What a hook throws does not leave the library; and a request of an older caller is taken as far as it goes.
TEST_F(CInterface, ARequestWhoseHookThrowsFailsAlone) {
    pith_engine * engine = nullptr;
    ASSERT_EQ(pith_engine_new(model_.get(), nullptr, &engine), PITH_OK) << pith_error();
    const auto submit = [&](bool throws, size_t size) {
        pith_request request;
        pith_request_init(&request, sizeof request);
        request.tokens = context_.data();
        request.n_tokens = context_.size();
        request.max_tokens = 3;
        request.size = size;
        if (throws) {
            request.on_token = [](int32_t, void *) -> bool { throw std::runtime_error("not today"); };
        }
        int64_t id = 0;
        EXPECT_EQ(pith_engine_submit(engine, &request, &id), PITH_OK) << pith_error();
        return id;
    };
    const int64_t bad = submit(true, sizeof(pith_request));
    const int64_t good = submit(false, sizeof(pith_request));
    const int64_t old = submit(true, offsetof(pith_request, on_token));  // it knows of no such hook
    ASSERT_EQ(pith_engine_run(engine, nullptr, nullptr), PITH_OK) << pith_error();
    EXPECT_EQ(pith_engine_state(engine, bad), PITH_REQUEST_FAILED);
    EXPECT_EQ(pith_engine_status(engine, bad), PITH_INTERNAL);
    EXPECT_STREQ(pith_error(), "not today");
    EXPECT_EQ(pith_engine_state(engine, good), PITH_REQUEST_DONE);
    EXPECT_EQ(pith_engine_state(engine, old), PITH_REQUEST_DONE);
    pith_engine_free(engine);
}

// What is declared is what Python declares, and what the leak check's program calls.
TEST(CInterfaceNames, ArePythonsAndTheLeakChecks) {
    const auto text_of = [](const char * path) {
        std::ifstream file(std::string(PITH_SOURCE_DIR) + path);
        std::stringstream text;
        text << file.rdbuf();
        return text.str();
    };
    const std::string header = text_of("/include/pith/pith.h");
    const std::string python = text_of("/python/pith.py");
    const std::string program = text_of("/tests/c/every_call.c");
    std::set<std::string> names;
    const std::regex declared("PITH_API[^;]*?(pith_[a-z_]+)\\(");
    for (std::sregex_iterator at(header.begin(), header.end(), declared), end; at != end; ++at) {
        names.insert((*at)[1].str());
    }
    ASSERT_GT(names.size(), 30U);
    for (const std::string & name : names) {
        EXPECT_NE(program.find(name + "("), std::string::npos) << name;
        const bool has_no_use = name == "pith_set_log" || name == "pith_code_name";
        if (!has_no_use) { EXPECT_NE(python.find("\"" + name + "\""), std::string::npos) << name; }
    }
}

}  // namespace
}  // namespace pith::c_interface_test
