// saved_session_test.cpp - a session that was saved and opened is the one that never was: its state to the bit, and every logit
// of what it reads and says afterwards, evictions included.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <thread>

#include "cache/cache_file.h"
#include "engine/gated_model.h"
#include "engine/pass/live_session.h"
#include "engine/registry_policies.h"
#include "engine/rest/saved_and_opened.h"
#include "engine/session_state.h"
#include "engine/tiny_model.h"
#include "every_case.h"
#include "file/failing_files.h"
#include "model/architectures.h"
#include "model/gguf_edit.h"
#include "model/random_lora.h"
#include "pith/cache_file.h"

namespace pith::saved_session_test {
namespace {

using testing::a_file;
using testing::add_logits;
using testing::expect_same_from_here;
using testing::expect_saving_changes_nothing;
using testing::feed_further;
using testing::further_tokens;
using testing::gated_model;
using testing::kFurther;
using testing::random_tokens;
using testing::scratch_file;
using testing::SessionState;
using testing::state_of;
using testing::tiny_spec;

constexpr int kPrompt = 90;
constexpr int kAnswer = 20;
constexpr KvType kKvTypes[] = {KvType::kF16, KvType::kF32, KvType::kBF16, KvType::kQ8_0, KvType::kQ4_0};

// Importances for policies that divide by head.
std::shared_ptr<const HeadImportance> some_heads(const Model & model) {
    const auto n = static_cast<size_t>(model.info().n_layers) * static_cast<size_t>(model.info().n_heads);
    auto heads = std::make_shared<HeadImportance>();
    for (size_t i = 0; i < n; ++i) {
        heads->copy.push_back(0.1 * static_cast<double>(i % 7));
        heads->reason.push_back(0.2 * static_cast<double>(i % 3));
    }
    return heads;
}

struct Schedule {
    const char * name;
    PrefillSchedule prefill;
    int grid = 0;
};
constexpr Schedule kSchedules[] = {{"one-shot", PrefillSchedule::kOneShot},
                                   {"in chunks", PrefillSchedule::kChunked},
                                   {"on a grid", PrefillSchedule::kChunked, 16}};

SessionOptions options_of(const Model & model, const std::string & policy, const Schedule & schedule, KvType type) {
    SessionOptions options;
    options.policy = policy;
    options.budget = policy == "full" ? Budget() : Budget(48);
    options.type_k = options.type_v = type;
    options.prefill = schedule.prefill;
    options.grid = schedule.grid;
    options.chunk = 32;
    options.evict_every = 8;
    options.n_threads = 1;
    options.pinned = {{2, 5}};
    options.heads = some_heads(model);
    return options;
}

// A prompt and some of the answer, so that evictions in decode lie behind and before.
Session read_some(const Model & model, const SessionOptions & options) {
    auto session = model.session(options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    const auto tokens = random_tokens(kPrompt + kAnswer, model.info().n_vocab);
    const Status read = session->prefill(std::span(tokens).first(kPrompt));
    EXPECT_TRUE(read.ok()) << read.message();
    for (size_t i = kPrompt; i < tokens.size(); ++i) { EXPECT_TRUE(session->append(tokens[i]).ok()); }
    return std::move(*session);
}

const Model & tiny() {
    static const Model model = testing::tiny_model(tiny_spec()).value();
    return model;
}

const Model & causal_gates() {
    GateConfig gate = testing::even_gate();
    gate.causal = true;
    static const Model model = gated_model(tiny_spec(), gate).value();
    return model;
}

class SavedPolicy : public ::testing::TestWithParam<std::string> {};

// Every policy under a schedule and with a K/V type, both in turns; or under every schedule with each type.
TEST_P(SavedPolicy, GoesOnAsIfItHadNeverBeenSaved) {
    const Model & model = GetParam().starts_with("gate") ? causal_gates() : tiny();
    const size_t row = std::hash<std::string>()(GetParam());
    for (size_t i = 0; i < std::size(kSchedules); ++i) {
        if (!testing::in_turn(row / std::size(kKvTypes), i, std::size(kSchedules))) { continue; }
        const Schedule & schedule = kSchedules[i];
        for (size_t n = 0; n < std::size(kKvTypes); ++n) {
            if (!testing::in_turn(row, n, std::size(kKvTypes))) { continue; }
            const KvType type = kKvTypes[n];
            SCOPED_TRACE(std::string(schedule.name) + ", " + std::string(to_string(type)));
            Session session = read_some(model, options_of(model, GetParam(), schedule, type));
            expect_saving_changes_nothing(model, session, true);
            if (HasFatalFailure()) { return; }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Registry, SavedPolicy, ::testing::ValuesIn(testing::policies_of_the_registry()),
                         testing::policy_test_name);

TEST(SavedSession, OfPolicyFullGoesOnToo) {
    for (const KvType type : kKvTypes) {
        Session session = read_some(tiny(), options_of(tiny(), "full", kSchedules[0], type));
        expect_saving_changes_nothing(tiny(), session, false);
    }
}

TEST(SavedSession, WhoseKeysAndValuesAreOfUnlikeTypesGoesOn) {
    for (const auto & [type_k, type_v] : {std::pair(KvType::kQ8_0, KvType::kF16), std::pair(KvType::kF32, KvType::kQ4_0)}) {
        for (const Schedule & schedule : kSchedules) {
            SessionOptions options = options_of(tiny(), "snapkv:window=8", schedule, type_k);
            options.type_v = type_v;
            Session session = read_some(tiny(), options);
            expect_saving_changes_nothing(tiny(), session, true);
        }
    }
}

TEST(SavedSession, OfPolicyAutoGoesOnUnderTheChosenOne) {
    for (const bool with_heads : {true, false}) {
        SessionOptions options = options_of(tiny(), "auto", kSchedules[1], KvType::kF16);
        if (!with_heads) { options.heads = nullptr; }
        Session session = read_some(tiny(), options);
        expect_saving_changes_nothing(tiny(), session, true);
    }
}

TEST(SavedSession, WithGatesOfAnyKindGoesOn) {
    size_t i = 0;
    for (const GateKind kind : {GateKind::kAttention, GateKind::kLinear}) {
        for (const bool causal : {true, false}) {
            for (const int n_recent : {1, 6}) {
                GateConfig gate = testing::even_gate();
                gate.kind = kind;
                gate.causal = causal;
                gate.n_recent = n_recent;
                const auto model = gated_model(tiny_spec(), gate);
                ASSERT_TRUE(model.ok()) << model.status().message();
                for (const char * policy : {"gated", "gated+snapkv:window=8", "gate", "gated+h2o:recent=6"}) {
                    for (const Schedule & schedule : kSchedules) {
                        if (!gate.works_in_chunks() && schedule.prefill != PrefillSchedule::kOneShot) { continue; }
                        const KvType type = kKvTypes[i % std::size(kKvTypes)];
                        if (!testing::in_turn(size_t{0}, i++, 5)) { continue; }
                        SCOPED_TRACE(std::string(policy) + ", " + schedule.name);
                        SessionOptions options = options_of(*model, policy, schedule, type);
                        if (std::string(policy) == "gated") { options.budget = Budget(); }
                        Session session = read_some(*model, options);
                        expect_saving_changes_nothing(*model, session, false);
                    }
                }
            }
        }
    }
}

TEST(SavedSession, OfEveryShapeOfModelGoesOn) {
    size_t i = 0;
    for (const testing::ArchitectureCase & one : testing::architecture_cases()) {
        SCOPED_TRACE(one.name);
        const auto model = testing::tiny_model(one.spec);
        ASSERT_TRUE(model.ok()) << model.status().message();
        for (const char * policy : {"h2o:recent=6", "laprox", "expected"}) {
            const Schedule & schedule = kSchedules[i % std::size(kSchedules)];
            SessionOptions options = options_of(*model, policy, schedule, kKvTypes[i % std::size(kKvTypes)]);
            if (!testing::in_turn(size_t{0}, i++, 2)) { continue; }
            if (!model->session(options).ok()) { options.type_k = options.type_v = KvType::kF16; }  // no whole blocks in a head
            SCOPED_TRACE(std::string(policy) + ", " + schedule.name + ", " + std::string(to_string(options.type_k)));
            Session session = read_some(*model, options);
            expect_saving_changes_nothing(*model, session, true);
        }
    }
}

TEST(SavedSession, WithAnAdapterGoesOnAndIsRefusedWithoutIt) {
    const std::string path = scratch_file("adapted.gguf");
    ASSERT_TRUE(write_random_model(tiny_spec(), path).ok());
    const auto plain = Model::load(path);
    ASSERT_TRUE(plain.ok());
    ModelOptions options;
    options.lora_file = scratch_file("adapted.lora");
    ASSERT_TRUE(testing::write_random_lora(file_of(*plain), options.lora_file).ok());
    const auto model = Model::load(path, options);
    ASSERT_TRUE(model.ok()) << model.status().message();
    Session session = read_some(*model, options_of(*model, "laprox", kSchedules[1], KvType::kF16));
    expect_saving_changes_nothing(*model, session, true);
    const auto refused = plain->open_session(a_file());
    EXPECT_EQ(refused.status().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.status().message().find("LoRA adapter"), std::string::npos) << refused.status().message();
    const auto info = read_cache_info(a_file());
    ASSERT_TRUE(info.ok());
    EXPECT_EQ(info->lora_file, options.lora_file);
}

// One prefill for many policies: what was evicted as another policy, and what was not evicted yet.
TEST(SavedSession, ThatIsEvictedLaterOrWasEvictedAsAnotherPolicyGoesOn) {
    SessionOptions options = options_of(tiny(), "full", kSchedules[0], KvType::kF16);
    options.observe = {"snapkv:window=8", "h2o:recent=6", "score"};
    for (const int evict_every : {8, 0}) {
        options.evict_every = evict_every;
        for (const PolicyChoice & policy : options.observe) {
            Session session = read_some(tiny(), options);
            ASSERT_TRUE(session.save(a_file()).ok());
            auto opened = tiny().open_session(a_file(), 1);
            ASSERT_TRUE(opened.ok()) << opened.status().message();
            for (Session * each : {&session, &*opened}) { ASSERT_TRUE(each->evict(policy, 40).ok()); }
            EXPECT_TRUE(testing::contents_of(session) == testing::contents_of(*opened));
            expect_saving_changes_nothing(tiny(), session, evict_every > 0);
        }
    }
}

// The first prompt in the sight of questions, or of one.
TEST(SavedSession, OfAPromptThatWasReadForQuestionsGoesOn) {
    for (const Schedule & schedule : {kSchedules[0], kSchedules[1]}) {
        for (const char * policy : {"snapkv:window=8", "tova", "h2o:recent=6", "auto"}) {
            auto session = tiny().session(options_of(tiny(), policy, schedule, KvType::kF16));
            ASSERT_TRUE(session.ok());
            const auto tokens = random_tokens(kPrompt, tiny().info().n_vocab);
            ASSERT_TRUE(session->prefill_for_questions(tokens, random_tokens(12, tiny().info().n_vocab, 3)).ok());
            expect_saving_changes_nothing(tiny(), *session, true);
        }
    }
}

TEST(SavedSession, CanBeSavedAfterAnyNumberOfTokensAndAfterComingBackToASnapshot) {
    Session session = read_some(tiny(), options_of(tiny(), "h2o:recent=6", kSchedules[1], KvType::kF16));
    const auto snapshot = session.snapshot();
    ASSERT_TRUE(snapshot.ok());
    const std::vector<int32_t> before = session.tokens();
    const auto further = random_tokens(1500, tiny().info().n_vocab, 4);
    ASSERT_TRUE(session.prefill(further).ok());
    EXPECT_EQ(session.tokens().size(), before.size() + further.size());
    ASSERT_TRUE(session.restore(*snapshot).ok());
    EXPECT_EQ(session.tokens(), before);
    ASSERT_TRUE(session.append(7).ok());  // where the other tokens were
    EXPECT_EQ(session.tokens().back(), 7);
    expect_saving_changes_nothing(tiny(), session, true);
}

TEST(SavedSession, OfAFileThatIsOpenServesManyAndStaysWhatItWas) {
    Session session = read_some(tiny(), options_of(tiny(), "h2o:recent=6", kSchedules[1], KvType::kF16));
    ASSERT_TRUE(session.save(a_file(), {{"which", "first"}}).ok());
    const auto file = SessionFile::open(a_file());
    ASSERT_TRUE(file.ok()) << file.status().message();
    auto first = file->session(tiny(), 1);
    ASSERT_TRUE(first.ok()) << first.status().message();
    EXPECT_TRUE(state_of(*first) == state_of(session));
    const SessionState saved = state_of(session);
    expect_same_from_here(*first, session, random_tokens(kFurther, tiny().info().n_vocab, 9));
    ASSERT_TRUE(first->save(a_file(), {{"which", "second"}}).ok());
    EXPECT_EQ(file->info().notes.front().second, "first");
    auto second = file->session(tiny(), 1);
    ASSERT_TRUE(second.ok()) << second.status().message();
    EXPECT_TRUE(state_of(*second) == saved);
    EXPECT_EQ(file->session(tiny(), -1).status().code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(file->session(causal_gates()).status().code(), ErrorCode::kInvalidArgument);
}

// Pages that a process maps several times count once (Linux's proportional set size).
size_t memory_bytes() {
    std::ifstream all("/proc/self/smaps_rollup");
    std::string word;
    while (all >> word) {
        size_t kib = 0;
        if (word == "Pss:" && all >> kib) { return kib * 1024; }
    }
    return 0;
}

TEST(SavedSession, EightOfAFileHoldItsEntriesOnce) {
    constexpr int kSessions = 8;
    SessionOptions options = options_of(tiny(), "full", kSchedules[0], KvType::kF32);
    options.observe = {"h2o:recent=6"};  // so that there is evidence to come back
    options.chunk = 512;
    auto read = tiny().session(options);
    ASSERT_TRUE(read.ok());
    ASSERT_TRUE(read->prefill(random_tokens(4000, tiny().info().n_vocab)).ok());
    ASSERT_TRUE(read->save(a_file()).ok());
    const size_t all = read->ledger().kv_needed_bytes;
    const auto file = SessionFile::open(a_file());
    ASSERT_TRUE(file.ok());
    std::vector<Session> sessions;
    const size_t before = memory_bytes();
    for (int i = 0; i < kSessions; ++i) {
        auto opened = file->session(tiny(), 1);
        ASSERT_TRUE(opened.ok()) << opened.status().message();
        EXPECT_TRUE(state_of(*opened) == state_of(*read)) << i;
        EXPECT_EQ(opened->ledger().kv_allocated_bytes, 0U) << i;
        EXPECT_EQ(opened->ledger().peak_lane_entries, 4000);
        sessions.push_back(std::move(*opened));
    }
    EXPECT_LT(memory_bytes() - before, 3 * all);  // what else a session has included; alone they would hold it eight times

    // Each goes on as one that is opened alone, whatever the others do: tails first, then an eviction in every other.
    for (int i = 0; i < kSessions; ++i) {
        Session & shared = sessions[static_cast<size_t>(i)];
        auto alone = tiny().open_session(a_file(), 1);
        ASSERT_TRUE(alone.ok());
        EXPECT_GE(alone->ledger().kv_allocated_bytes, all);
        if (i % 2 == 1) {
            for (Session * each : {&shared, &*alone}) { ASSERT_TRUE(each->evict("h2o:recent=6", 100 + i).ok()); }
        }
        expect_same_from_here(shared, *alone, random_tokens(kFurther, tiny().info().n_vocab, 20U + static_cast<unsigned>(i)));
        EXPECT_LT(shared.ledger().kv_allocated_bytes, all / 5) << i;
    }
    auto later = file->session(tiny(), 1);
    ASSERT_TRUE(later.ok());
    EXPECT_TRUE(state_of(*later) == state_of(*read));
}

TEST(SavedSession, OfAFileMayRunOnThreadsOfTheirOwn) {
    Session read = read_some(tiny(), options_of(tiny(), "h2o:recent=6", kSchedules[1], KvType::kF16));
    ASSERT_TRUE(read.save(a_file()).ok());
    const auto file = SessionFile::open(a_file());
    ASSERT_TRUE(file.ok());
    const auto tokens = further_tokens(tiny());
    std::vector<uint64_t> hashes(4);
    std::vector<std::thread> threads;
    for (uint64_t & of_thread : hashes) {
        threads.emplace_back([&] {
            Hash64 hash;
            auto session = file->session(tiny(), 1);
            const bool fed = session.ok() && feed_further(*session, tokens, [&] {
                                 add_logits(*session, hash);
                                 return true;
                             });
            of_thread = fed ? hash.value() : 0;
        });
    }
    for (std::thread & thread : threads) { thread.join(); }
    Hash64 expected;
    ASSERT_TRUE(feed_further(read, tokens, [&] {
        add_logits(read, expected);
        return true;
    }));
    for (const uint64_t hash : hashes) { EXPECT_EQ(hash, expected.value()); }
}

// Of another loaded model, of one that is gone, and where the file goes first.
TEST(SavedSession, OfAFileOutlivesItAndTheModelThatItWasFirstAskedFor) {
    Session read = read_some(tiny(), options_of(tiny(), "h2o:recent=6", kSchedules[1], KvType::kF16));
    ASSERT_TRUE(read.save(a_file()).ok());
    auto file = SessionFile::open(a_file());
    ASSERT_TRUE(file.ok());
    std::optional<Session> first;
    std::optional<Session> second;
    {
        const auto model = Model::load(tiny().info().path);
        ASSERT_TRUE(model.ok());
        first = file->session(*model, 1).value();
        second = file->session(tiny(), 1).value();  // has entries of its own
        EXPECT_GT(second->ledger().kv_allocated_bytes, 0U);
        EXPECT_EQ(first->ledger().kv_allocated_bytes, 0U);
    }
    const SessionState saved = state_of(*second);
    EXPECT_TRUE(state_of(*first) == saved);
    first.reset();
    auto third = file->session(tiny(), 1);
    ASSERT_TRUE(third.ok());
    EXPECT_EQ(third->ledger().kv_allocated_bytes, 0U);
    file = Status(ErrorCode::kIo, "gone");
    EXPECT_TRUE(state_of(*third) == saved);
    expect_same_from_here(*third, *second, further_tokens(tiny()));
}

TEST(SavedSession, WithoutTokensIsRefused) {
    const auto session = tiny().session();
    ASSERT_TRUE(session.ok());
    EXPECT_EQ(session->save(a_file()).code(), ErrorCode::kInvalidArgument);
    EXPECT_FALSE(std::filesystem::exists(a_file() + ".tmp"));
}

// Where memory says how many tokens there may be, and there is much of it.
TEST(SavedSession, ThatMayHoldMoreThanABillionTokensIsOpened) {
    Session session = read_some(tiny(), options_of(tiny(), "full", kSchedules[1], KvType::kF16));
    live_session(session).seq.plan->capacity = int64_t{1} << 34U;
    ASSERT_TRUE(session.save(a_file()).ok());
    auto opened = tiny().open_session(a_file(), 1);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(live_session(*opened).seq.plan->capacity, int64_t{1} << 34U);
}

// Before they no longer fit into 32 bits, and a file of them could not be opened.
TEST(SavedSession, TokensEndWherePositionsDo) {
    Session session = read_some(tiny(), options_of(tiny(), "snapkv:window=8", kSchedules[1], KvType::kF16));
    Sequence & seq = live_session(session).seq;
    const int64_t n_tokens = std::exchange(seq.n_tokens, kMostSequenceTokens - 1);
    const Status refused = session.prefill(std::vector<int32_t>{1, 2});
    EXPECT_EQ(refused.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.message().find("at most 1,073,741,824 tokens"), std::string::npos) << refused.message();
    seq.n_tokens = n_tokens;
    ASSERT_TRUE(session.append(1).ok());
    expect_saving_changes_nothing(tiny(), session, true);
}

// The session's own settings, and what differs by name.
TEST(SavedSession, IsLoadedUnderTheSameSettingsAloneAndADifferenceIsNamed) {
    const SessionOptions options = options_of(tiny(), "snapkv:window=8", kSchedules[1], KvType::kF16);
    Session session = read_some(tiny(), options);
    ASSERT_TRUE(session.save(a_file()).ok());
    auto same = tiny().session(options);
    ASSERT_TRUE(same.ok());
    const auto snapshot = same->snapshot();
    ASSERT_TRUE(same->load(a_file()).ok());
    EXPECT_TRUE(state_of(*same) == state_of(session));
    EXPECT_EQ(same->restore(*snapshot).code(), ErrorCode::kInvalidArgument);  // of what it was
    expect_same_from_here(*same, session, random_tokens(kFurther, tiny().info().n_vocab, 9));

    const std::pair<const char *, std::function<void(SessionOptions &)>> changes[] = {
        {"policy", [](SessionOptions & o) { o.policy = "snapkv:window=9"; }},
        {"budget", [](SessionOptions & o) { o.budget = 49; }},
        {"K type", [](SessionOptions & o) { o.type_k = KvType::kF32; }},
        {"V type", [](SessionOptions & o) { o.type_v = KvType::kF32; }},
        {"prefill schedule", [](SessionOptions & o) { o.prefill = PrefillSchedule::kOneShot; }},
        {"chunk", [](SessionOptions & o) { o.chunk = 33; }},
        {"tokens between evictions", [](SessionOptions & o) { o.evict_every = 9; }},
        {"grid", [](SessionOptions & o) { o.grid = 32; }},
        {"pinned positions", [](SessionOptions & o) { o.pinned = {}; }},
        {"observed policies", [](SessionOptions & o) { o.observe = {"tova"}; }},
        {"head importances", [](SessionOptions & o) { o.heads = nullptr; }},
    };
    for (const auto & [name, change] : changes) {
        SessionOptions others = options;
        change(others);
        auto other = tiny().session(others);
        ASSERT_TRUE(other.ok());
        const Status refused = other->load(a_file());
        EXPECT_EQ(refused.code(), ErrorCode::kInvalidArgument);
        EXPECT_NE(refused.message().find(std::string("another ") + name + ": "), std::string::npos) << refused.message();
        EXPECT_EQ(other->n_tokens(), 0);
    }
}

TEST(SavedSession, OfAnotherModelIsRefusedByWhatDiffers) {
    Session session = read_some(tiny(), options_of(tiny(), "snapkv:window=8", kSchedules[1], KvType::kF16));
    ASSERT_TRUE(session.save(a_file()).ok());
    const auto item_of = [](const RandomModelSpec & spec) {
        const Model other = testing::tiny_model(spec).value();
        const auto opened = other.open_session(a_file());
        EXPECT_EQ(opened.status().code(), ErrorCode::kInvalidArgument);
        return opened.status().message();
    };
    RandomModelSpec spec = tiny_spec();
    spec.seed += 1;
    EXPECT_NE(item_of(spec).find("another model: weights"), std::string::npos) << item_of(spec);
    spec = tiny_spec();
    spec.weight_type = "q8_0";
    EXPECT_NE(item_of(spec).find("another model: tensor table"), std::string::npos);
    spec = tiny_spec();
    spec.arch = "qwen2";
    EXPECT_NE(item_of(spec).find("another model: architecture"), std::string::npos);
    const auto gated = causal_gates().open_session(a_file());
    EXPECT_NE(gated.status().message().find("other gates"), std::string::npos) << gated.status().message();
}

TEST(SavedSession, OfRotatedRowsIsNotLoadedAmongUnrotatedOnesNorTheOtherWayRound) {
    for (const bool rotated : {true, false}) {
        SessionOptions options = options_of(tiny(), "snapkv:window=8", kSchedules[1], KvType::kQ4_0);
        options.rotate_kv = rotated;
        Session session = read_some(tiny(), options);
        ASSERT_TRUE(session.save(a_file()).ok());
        const auto info = read_cache_info(a_file());
        ASSERT_TRUE(info.ok());
        EXPECT_EQ(info->options.rotate_kv, rotated);
        options.rotate_kv = !rotated;
        auto other = tiny().session(options);
        ASSERT_TRUE(other.ok());
        const Status refused = other->load(a_file());
        EXPECT_EQ(refused.code(), ErrorCode::kInvalidArgument);
        EXPECT_NE(refused.message().find("another K type: "), std::string::npos) << refused.message();
        auto opened = tiny().open_session(a_file(), 1);
        ASSERT_TRUE(opened.ok());
        expect_same_from_here(*opened, session, random_tokens(kFurther, tiny().info().n_vocab, 9));
    }
}

TEST(SavedSession, OfTypesThatAreNotRoundedIsTheSameWithAndWithoutRotation) {
    SessionOptions options = options_of(tiny(), "snapkv:window=8", kSchedules[1], KvType::kF16);
    Session session = read_some(tiny(), options);
    ASSERT_TRUE(session.save(a_file()).ok());
    options.rotate_kv = false;
    auto other = tiny().session(options);
    ASSERT_TRUE(other.ok());
    ASSERT_TRUE(other->load(a_file()).ok());
    EXPECT_TRUE(state_of(*other) == state_of(session));
}

TEST(SavedSession, TellsOfItselfWithoutItsModel) {
    SessionOptions options = options_of(tiny(), "snapkv:window=8", kSchedules[1], KvType::kQ8_0);
    Session session = read_some(tiny(), options);
    ASSERT_TRUE(session.save(a_file(), {{"title", "a book"}}).ok());
    const auto info = read_cache_info(a_file());
    ASSERT_TRUE(info.ok()) << info.status().message();
    EXPECT_EQ(info->n_tokens, kPrompt + kAnswer);
    EXPECT_EQ(info->n_entries, session.ledger().kept_entries);
    EXPECT_EQ(info->n_lanes, session.ledger().n_lanes);
    EXPECT_EQ(info->kv_bytes, session.ledger().kv_needed_bytes);
    EXPECT_EQ(info->kv_full_bytes, session.ledger().kv_full_bytes);
    EXPECT_EQ(info->policy, "snapkv:window=8");
    EXPECT_EQ(info->budget_entries, 48);
    EXPECT_EQ(info->model_path, tiny().info().path);
    EXPECT_EQ(info->options.type_k, KvType::kQ8_0);
    EXPECT_EQ(info->notes, (CacheNotes{{"title", "a book"}}));
    EXPECT_EQ(info->model.size(), 6U);
    EXPECT_EQ(info->file_bytes, std::filesystem::file_size(a_file()));
    struct stat file {};
    ASSERT_EQ(stat(a_file().c_str(), &file), 0);
    EXPECT_EQ(file.st_mode & 0777, 0600U);
    EXPECT_EQ(read_cache_info(tiny().info().path).status().code(), ErrorCode::kBadFile);
    EXPECT_EQ(read_cache_info("no such file").status().code(), ErrorCode::kNotFound);
}

// The k-th write fails, or the disk is full from then on: the old file is whole, and nothing lies beside it.
TEST(SavedSession, AFailedWriteLeavesTheFileThatWasThere) {
    Session session = read_some(tiny(), options_of(tiny(), "h2o:recent=6", kSchedules[1], KvType::kF16));
    const std::filesystem::path folder = scratch_file("writes");
    std::filesystem::create_directories(folder);
    const std::string path = folder / "a.pith";
    for (const bool old_file : {true, false}) {
        for (const bool stays_full : {false, true}) {
            std::filesystem::remove(path);
            if (old_file) { ASSERT_TRUE(session.save(path, {{"which", "old"}}).ok()); }
            const auto before = old_file ? testing::read_file(path) : std::vector<char>();
            int n_failed = 0;
            for (int k = 1;; ++k) {
                testing::fail_files_at(k, stays_full);
                const Status status = session.save(path, {{"which", "new"}});
                const bool failed = testing::stop_failing_files();
                if (status.ok()) { break; }
                ASSERT_TRUE(failed) << status.message();
                ++n_failed;
                EXPECT_EQ(status.code(), ErrorCode::kIo);
                EXPECT_EQ(status.message(), "'" + path + "' cannot be written: No space left on device");
                EXPECT_EQ(std::filesystem::exists(path), old_file);
                if (old_file) { ASSERT_EQ(testing::read_file(path), before) << k; }
                EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
            }
            EXPECT_GT(n_failed, 3);
            EXPECT_EQ(read_cache_info(path)->notes.front().second, "new");
        }
    }
}

// A process that is killed while it saves: the file is the old one or the new one, and the next save needs no clearing up.
TEST(SavedSession, AKilledProcessLeavesAWholeFile) {
    Session session = read_some(tiny(), options_of(tiny(), "h2o:recent=6", kSchedules[1], KvType::kF16));
    const std::string path = scratch_file("killed.pith");
    ASSERT_TRUE(session.save(path).ok());
    std::mt19937 random(5);
    for (int i = 0; i < (testing::every_case() ? 300 : 30); ++i) {
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            while (session.save(path).ok()) {}
            _exit(1);
        }
        usleep(random() % 20000);
        kill(child, SIGKILL);
        int state = 0;
        ASSERT_EQ(waitpid(child, &state, 0), child);
        ASSERT_TRUE(WIFSIGNALED(state)) << "a save failed";
        const auto info = read_cache_info(path);
        ASSERT_TRUE(info.ok()) << info.status().message();
    }
    ASSERT_TRUE(session.save(path).ok());
    EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
    EXPECT_TRUE(tiny().open_session(path, 1).ok());
}

// Two that write the same path at a time: one of them is told so, or both have written; what is there is whole.
TEST(SavedSession, TwoProcessesThatSaveToOnePathLeaveAWholeFile) {
    Session session = read_some(tiny(), options_of(tiny(), "h2o:recent=6", kSchedules[1], KvType::kF16));
    const std::string path = scratch_file("both.pith");
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    int n_saved = 0;
    for (int i = 0; i < 20000 && n_saved >= 0 && n_saved < 20; ++i) {
        const Status status = session.save(path);
        if (!status.ok()) { usleep(200); }
        n_saved += status.ok() ? 1 : 0;
        if (!status.ok() && status.message() != "'" + path + "' cannot be written: another process is writing it") {
            std::printf("%s\n", status.message().c_str());
            n_saved = -1000;
        }
        if (status.ok() && !read_cache_info(path).ok()) { n_saved = -1000; }
    }
    if (child == 0) { _exit(n_saved > 0 ? 0 : 1); }
    EXPECT_GT(n_saved, 0);
    int state = 0;
    ASSERT_EQ(waitpid(child, &state, 0), child);
    EXPECT_EQ(state, 0);
    EXPECT_TRUE(read_cache_info(path).ok());
}

}  // namespace
}  // namespace pith::saved_session_test
