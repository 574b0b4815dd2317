// auto_policy_test.cpp - a session of `auto` is, bit for bit, one of the policy that it says it chose.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/gated_model.h"
#include "engine/parts/model_parts.h"
#include "engine/tiny_session.h"
#include "model/head_importance_file.h"
#include "pith/session.h"

namespace pith::auto_policy_test {
namespace {

// What `auto` is, by what is known.
constexpr const char * kInSight = "vmax:pool=avg45:pool_over=before+entropy";
constexpr const char * kLater = "keydiff+ada:alpha=0";
constexpr const char * kLaterWithHeads = "expected:eps=0.02+head:by=both";

using testing::Lanes;
using testing::lanes_below;
using testing::random_tokens;
using testing::scratch_file;
using testing::tiny_options;
using testing::tiny_spec;

constexpr int kChunk = 48;
constexpr int kPrompt = 3 * kChunk + 20;
constexpr int kQuestion = 15;
constexpr int kBudget = 40;

// A model of its own file each, so that importances may lie beside it.
Model make_model(const std::string & name, const std::string & heads = "") {
    const std::string path = scratch_file(name + ".gguf");
    EXPECT_TRUE(write_random_model(tiny_spec(), path).ok());
    auto model = Model::load(path);
    EXPECT_TRUE(model.ok()) << model.status().message();
    if (!heads.empty()) { std::filesystem::copy_file(heads, default_heads_path(path)); }
    return std::move(*model);
}

std::string write_heads(const Model & model, const std::string & name) {
    HeadImportance heads;
    for (int i = 0; i < 12; ++i) {  // 3 layers of 4 heads
        heads.copy.push_back(0.1 * (i % 5));
        heads.reason.push_back(0.05 * (i % 7));
    }
    const std::string path = scratch_file(name);
    EXPECT_TRUE(save_head_importance(path, heads, {.count = 5, .lengths = {256}, .seed = 7}, file_of(model)).ok());
    return path;
}

// What a session holds after the prompt and after each token that follows, and its logits.
struct Trace {
    std::vector<Lanes> lanes;
    std::vector<float> logits;
    bool operator==(const Trace &) const = default;
};

class AutoSession : public ::testing::Test {
protected:
    static Session open(const Model & model, const SessionOptions & options) {
        auto session = model.session(options);
        EXPECT_TRUE(session.ok()) << session.status().message();
        return std::move(*session);
    }
    static SessionOptions options_of(const std::string & policy, PrefillSchedule schedule) {
        SessionOptions options = tiny_options(policy, kBudget, schedule, kChunk);
        options.evict_every = 4;
        return options;
    }
    Trace trace_of(Session & session, int n_question) const {
        RunHooks hooks;
        hooks.n_question = n_question;
        const Status status = session.prefill(prompt_, hooks);
        EXPECT_TRUE(status.ok()) << status.message();
        Trace trace;
        const auto add = [&] {
            trace.lanes.push_back(lanes_below(session, 1 << 20));
            trace.logits.insert(trace.logits.end(), session.logits().begin(), session.logits().end());
        };
        add();
        for (int i = 0; i < 10; ++i) {
            EXPECT_TRUE(session.decode().ok());
            add();
        }
        return trace;
    }
    // The session says that it is `chosen`, for this reason, and is.
    void expect_choice(const Model & model, const SessionOptions & options, int n_question, const std::string & chosen,
                       const std::string & reason) const {
        Session session = open(model, options);
        EXPECT_EQ(session.ledger().policy, "auto") << "nothing is known yet";
        const Trace trace = trace_of(session, n_question);
        EXPECT_EQ(session.ledger().policy, chosen);
        EXPECT_EQ(session.ledger().policy_reason, reason);
        SessionOptions named = options;
        named.policy = chosen;
        Session other = open(model, named);
        EXPECT_EQ(other.ledger().policy, chosen);
        EXPECT_TRUE(trace == trace_of(other, n_question)) << chosen;
        EXPECT_EQ(other.ledger().policy_reason, "");
        EXPECT_EQ(session.ledger().schedule, other.ledger().schedule);
        EXPECT_EQ(session.ledger().evicted_entries, other.ledger().evicted_entries);
        if (options.budget.kind != BudgetKind::kNone) { EXPECT_GT(session.ledger().evicted_entries, 0); }
    }

    const std::vector<int32_t> prompt_ = random_tokens(kPrompt, tiny_spec().n_vocab, 3);
};

constexpr PrefillSchedule kSchedules[] = {PrefillSchedule::kOneShot, PrefillSchedule::kChunked};

TEST_F(AutoSession, WithoutHeadsIsChosenByTheQuestionInBothSchedules) {
    const Model model = make_model("auto-plain");
    for (const PrefillSchedule schedule : kSchedules) {
        const SessionOptions options = options_of("auto", schedule);
        expect_choice(model, options, kQuestion, kInSight, "the question is in sight");
        expect_choice(model, options, 0, kLater, "what will be asked is not known");
    }
    // One that no chunk can be judged by: chunks are read without it, one shot is not.
    expect_choice(model, options_of("auto", PrefillSchedule::kChunked), kChunk + 1, kLater,
                  "the question is longer than a chunk");
    expect_choice(model, options_of("auto", PrefillSchedule::kOneShot), kChunk + 1, kInSight, "the question is in sight");
}

TEST_F(AutoSession, WithHeadsIsChosenByTheQuestionFirstWhereverTheyAre) {
    const Model plain = make_model("auto-heads");
    const std::string heads = write_heads(plain, "auto-given.json");
    const Model beside = make_model("auto-beside", heads);
    for (const PrefillSchedule schedule : kSchedules) {
        SessionOptions options = options_of("auto", schedule);
        for (const int n_question : {0, kQuestion}) {
            const bool seen = n_question > 0;  // then nothing is gained by them
            const std::string chosen = seen ? kInSight : kLaterWithHeads;
            const std::string why = "the question is in sight";
            expect_choice(beside, options, n_question, chosen, seen ? why : "head importances beside the model");
            options.heads_file = heads;
            expect_choice(plain, options, n_question, chosen, seen ? why : "head importances given");
            options.heads_file.clear();
        }
    }
}

TEST_F(AutoSession, HeadsThatDoNotFitArePassedOverBesideTheModelAndRefusedWhereGiven) {
    RandomModelSpec spec = tiny_spec();
    spec.n_layers = 4;
    const std::string other_path = scratch_file("auto-other.gguf");
    ASSERT_TRUE(write_random_model(spec, other_path).ok());
    const auto other = Model::load(other_path);
    ASSERT_TRUE(other.ok());
    HeadImportance of_other;
    of_other.copy.assign(16, 0.5);
    of_other.reason.assign(16, 0.5);
    const std::string wrong = scratch_file("auto-wrong.json");
    ASSERT_TRUE(save_head_importance(wrong, of_other, {}, file_of(*other)).ok());
    const std::string damaged = scratch_file("auto-damaged.json");
    std::ofstream(damaged) << "{\"pith_heads\": 1, ";
    const char * names[] = {"auto-unfit-0", "auto-unfit-1"};
    for (const std::string & file : {wrong, damaged}) {
        const Model model = make_model(names[file == damaged ? 1 : 0], file);
        expect_choice(model, options_of("auto", PrefillSchedule::kOneShot), 0, kLater,
                      "what will be asked is not known; the head importances beside the model do not fit it");
        SessionOptions given = options_of("auto", PrefillSchedule::kOneShot);
        given.heads_file = file;
        EXPECT_FALSE(model.session(given).ok()) << "named by the user, and not used";
        EXPECT_FALSE(model.session(options_of("headkv", PrefillSchedule::kOneShot)).ok());
        given = {};
        EXPECT_TRUE(model.session(given).ok()) << "without a budget nobody needs it";
    }
}

TEST_F(AutoSession, IsFullWithoutABudgetAndGatedWithGates) {
    const Model model = make_model("auto-full");
    SessionOptions options;
    options.n_threads = 1;
    options.chunk = kChunk;
    EXPECT_TRUE(options.policy.is_auto()) << "the default";
    expect_choice(model, options, kQuestion, "full", "no budget");

    const auto gated = testing::gated_model(tiny_spec(), testing::even_gate());
    ASSERT_TRUE(gated.ok()) << gated.status().message();
    expect_choice(*gated, options_of("auto", PrefillSchedule::kOneShot), kQuestion, "gated+snapkv", "the model has gates");
    Session session = open(*gated, options);
    ASSERT_TRUE(session.prefill(prompt_).ok());
    EXPECT_EQ(session.ledger().policy, "gated");
    EXPECT_GT(session.ledger().gate_seen_entries, 0);
}

// Questions that are read behind the prompt and taken back are in sight, too; where they are not, the ledger says so.
TEST_F(AutoSession, QuestionsThatComeLaterCountAsInSightWhereTheyAre) {
    const Model model = make_model("auto-observed");
    const std::vector<int32_t> few = random_tokens(kQuestion, tiny_spec().n_vocab, 4);
    const std::vector<int32_t> many = random_tokens(kChunk + 1, tiny_spec().n_vocab, 4);
    struct Case {
        PrefillSchedule schedule;
        const std::vector<int32_t> & questions;
        const char * chosen;
    };
    for (const Case & one : {Case{PrefillSchedule::kOneShot, few, kInSight}, Case{PrefillSchedule::kChunked, few, kInSight},
                             Case{PrefillSchedule::kOneShot, many, kInSight}, Case{PrefillSchedule::kChunked, many, kLater}}) {
        Session session = open(model, options_of("auto", one.schedule));
        Session named = open(model, options_of(one.chosen, one.schedule));
        const auto seen = session.prefill_for_questions(prompt_, one.questions);
        const auto named_seen = named.prefill_for_questions(prompt_, one.questions);
        ASSERT_TRUE(seen.ok() && named_seen.ok()) << seen.status().message() << named_seen.status().message();
        EXPECT_EQ(*seen, std::string(one.chosen) == kInSight);
        EXPECT_EQ(*seen, *named_seen);
        EXPECT_EQ(session.ledger().policy, one.chosen);
        EXPECT_EQ(lanes_below(session, kPrompt), lanes_below(named, kPrompt));
        EXPECT_TRUE(std::ranges::equal(session.logits(), named.logits()));
    }
}

// A budget that holds all is no reason to keep all for ever: the answer goes past it.
TEST_F(AutoSession, EvictsWhenAnAnswerOutgrowsABudgetThatHeldThePrompt) {
    const Model model = make_model("auto-growing");
    SessionOptions options = options_of("auto", PrefillSchedule::kAuto);
    options.budget = Budget(kPrompt + 2);
    expect_choice(model, options, kQuestion, kInSight, "the question is in sight");
}

TEST_F(AutoSession, EachFirstPromptIsChosenForAnew) {
    const Model model = make_model("auto-again");
    Session session = open(model, options_of("auto", PrefillSchedule::kOneShot));
    const auto empty = session.snapshot();
    ASSERT_TRUE(empty.ok());
    RunHooks asks;
    asks.n_question = kQuestion;
    ASSERT_TRUE(session.prefill(prompt_, asks).ok());
    EXPECT_EQ(session.ledger().policy, kInSight);
    const auto compressed = session.snapshot();
    ASSERT_TRUE(session.prefill(random_tokens(60, tiny_spec().n_vocab, 5)).ok());
    EXPECT_EQ(session.ledger().policy, kInSight) << "what follows changes nothing";
    ASSERT_TRUE(session.restore(*empty).ok());
    EXPECT_EQ(session.ledger().policy, "auto");
    ASSERT_TRUE(session.prefill(prompt_).ok());
    EXPECT_EQ(session.ledger().policy, kLater);
    ASSERT_TRUE(session.restore(*compressed).ok());
    EXPECT_EQ(session.ledger().policy, kInSight);
    EXPECT_EQ(session.ledger().policy_reason, "the question is in sight");
}

// evict() by the same word: one prefill serves it along with others.
TEST_F(AutoSession, EvictChoosesAsASessionOfItsOwnWould) {
    const Model plain = make_model("auto-evict");
    const Model beside = make_model("auto-evict-heads", write_heads(plain, "auto-evict.json"));
    for (const Model * model : {&plain, &beside}) {
        for (const int n_question : {0, kQuestion}) {
            Session own = open(*model, options_of("auto", PrefillSchedule::kOneShot));
            const Trace expected = trace_of(own, n_question);

            SessionOptions full = options_of("full", PrefillSchedule::kOneShot);
            full.budget = Budget();
            full.observe = {"auto", "tova"};
            Session shared = open(*model, full);
            RunHooks hooks;
            hooks.n_question = n_question;
            ASSERT_TRUE(shared.prefill(prompt_, hooks).ok());
            const auto start = shared.snapshot();
            ASSERT_TRUE(shared.evict("tova", kBudget).ok());
            EXPECT_EQ(shared.ledger().policy, "tova");
            ASSERT_TRUE(shared.restore(*start).ok());
            EXPECT_EQ(shared.ledger().policy, "full");
            const Status status = shared.evict("auto", kBudget);
            ASSERT_TRUE(status.ok()) << status.message();
            EXPECT_EQ(shared.ledger().policy, own.ledger().policy);
            EXPECT_EQ(shared.ledger().policy_reason, own.ledger().policy_reason);
            EXPECT_EQ(lanes_below(shared, kPrompt), expected.lanes.front());
            // The question is no longer the newest: what it was is not known of what came since.
            ASSERT_TRUE(shared.restore(*start).ok());
            ASSERT_TRUE(shared.append(1).ok());
            ASSERT_TRUE(shared.evict("auto", kBudget).ok());
            EXPECT_EQ(shared.ledger().policy, model == &beside ? kLaterWithHeads : kLater);
        }
    }
}

// The session's own `auto` may be asked for, too, whatever it became and whatever it would be by now.
TEST_F(AutoSession, EvictMayAskForTheSessionsOwnAuto) {
    const Model model = make_model("auto-evict-own");
    for (const int n_question : {0, kQuestion}) {
        for (const bool later : {false, true}) {
            SessionOptions options = options_of("auto", PrefillSchedule::kOneShot);
            options.budget = Budget(2 * kPrompt);
            Session session = open(model, options);
            RunHooks hooks;
            hooks.n_question = n_question;
            ASSERT_TRUE(session.prefill(prompt_, hooks).ok());
            if (later) { ASSERT_TRUE(session.append(1).ok()); }
            const Status status = session.evict("auto", kBudget);
            EXPECT_TRUE(status.ok()) << n_question << later << ": " << status.message();
            EXPECT_GT(session.ledger().evicted_entries, 0);
        }
    }
}

}  // namespace
}  // namespace pith::auto_policy_test
