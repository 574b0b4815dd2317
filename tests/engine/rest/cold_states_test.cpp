// cold_states_test.cpp - states in a folder whose evicted entries stay on disk: their rows are written once for all turns of a
// conversation, and answers are, to the bit, those of an engine without a folder, whatever becomes of the files.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include "cache/cache_file.h"
#include "cache/state_store.h"
#include "engine/rest/folder_of_states.h"
#include "file/failing_files.h"
#include "pith/cache_file.h"

namespace pith::cold_states_test {
namespace {

using testing::answer;
using testing::answer_of;
using testing::bytes_in;
using testing::engine_with;
using testing::Outcome;
using testing::random_tokens;
using testing::TempFolder;
using testing::tiny;
using testing::tiny_spec;

constexpr size_t kTokens = 1000;

// The first n tokens of a conversation.
Request turn_of(size_t n, bool looks_back = true) {
    Request request = testing::request_of("h2o:recent=8");
    request.tokens = random_tokens(kTokens, 384, 21);
    request.tokens.resize(n);
    request.options.evict_every = 16;
    request.options.cold = KvType::kQ8_0;
    request.options.look_back = looks_back;
    request.max_tokens = 4;
    return request;
}

// Where such a prompt looks at what was evicted, and its states end: the last place of the grid that leaves 64 tokens.
int64_t end_of(size_t n) {
    return (static_cast<int64_t>(n) - 64) / 32 * 32;
}

struct File {
    std::string path;
    StateName name;
    uint64_t bytes = 0;
};

// Files of evicted rows, or the states beside them.
std::vector<File> files_in(const std::string & folder, bool of_rows) {
    std::vector<File> files;
    for (const auto & entry : std::filesystem::directory_iterator(folder)) {
        const auto name = StateName::parse(entry.path().filename().string());
        EXPECT_TRUE(name.has_value()) << entry.path();
        const auto info = read_cache_info(entry.path());
        EXPECT_TRUE(info.ok()) << info.status().message();
        if (name && info.ok() && info->is_rows == of_rows) { files.push_back({entry.path(), *name, entry.file_size()}); }
    }
    std::ranges::sort(files, {}, [](const File & file) { return file.name.n_tokens; });
    return files;
}

uint64_t bytes_of(const std::vector<File> & files) {
    uint64_t n = 0;
    for (const File & file : files) { n += file.bytes; }
    return n;
}

using ColdStates = ::testing::TestWithParam<bool>;

TEST_P(ColdStates, WriteWhatATurnEvictsOnce) {
    const TempFolder folder;
    const std::string states = folder.file("s");
    int64_t n_before = 0;
    for (const size_t n : {150U, 260U, 300U, 700U}) {
        const Outcome turn = answer_of(engine_with(states), turn_of(n, GetParam()));
        EXPECT_EQ(turn.n_cached, n_before);
        turn.expect_same(answer_of(engine_with(""), turn_of(n, GetParam())));
        n_before = end_of(n);
    }
    const std::vector<File> rows = files_in(states, /*of_rows=*/true);
    ASSERT_GE(rows.size(), 4U);
    for (size_t i = 1; i < rows.size(); ++i) { EXPECT_EQ(rows[i].name.n_before, rows[i - 1].name.n_tokens); }
    const TempFolder whole;  // the last turn alone
    answer_of(engine_with(whole.file("s")), turn_of(700, GetParam()));
    constexpr uint64_t kBeside = 8192;  // a file's header, and what it says of all parts
    EXPECT_LT(bytes_of(rows), bytes_of(files_in(whole.file("s"), true)) + rows.size() * kBeside);
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutLookingBack, ColdStates, ::testing::Bool());

// Another conversation that begins alike goes on from the rows that both have, and writes its own behind them.
TEST(ColdStates, AreSharedByWhatBeginsAlike) {
    const TempFolder folder;
    answer_of(engine_with(folder.file("s")), turn_of(300));
    Request other = turn_of(600);
    const auto others = random_tokens(kTokens, 384, 8);
    std::copy(others.begin() + 295, others.begin() + 600, other.tokens.begin() + 295);
    const Outcome goes_on = answer_of(engine_with(folder.file("s")), other);
    EXPECT_EQ(goes_on.n_cached, end_of(300));
    goes_on.expect_same(answer_of(engine_with(""), other));
    const auto rows = files_in(folder.file("s"), /*of_rows=*/true);
    EXPECT_EQ(std::ranges::count(rows, end_of(300), [](const File & file) { return file.name.n_before; }), 1);
    EXPECT_EQ(answer_of(engine_with(folder.file("s")), turn_of(600)).n_cached, end_of(300));
    EXPECT_EQ(answer_of(engine_with(folder.file("s")), other).n_cached, end_of(600));
}

// What a conversation may keep on disk is its own: those that went on from the same beginning before it have taken none of it.
TEST(ColdStates, HaveTheirRoomOnDiskForThemselves) {
    const auto ledger_of = [](Engine & engine, unsigned seed, uint64_t room) {
        Request request = turn_of(seed == 0 ? 300 : 600);
        const auto others = random_tokens(kTokens, 384, seed);
        if (seed > 0) { std::copy(others.begin() + 295, others.begin() + 600, request.tokens.begin() + 295); }
        request.options.cold_bytes = room;
        const auto id = engine.submit(request);
        EXPECT_TRUE(id.ok()) << id.status().message();
        EXPECT_TRUE(engine.run().ok());
        EXPECT_EQ(engine.state(*id), RequestState::kDone) << engine.status(*id).message();
        EXPECT_EQ(engine.n_cached(*id) > 0, seed > 0) << "all but the first go on from its state";
        const Ledger ledger = engine.ledger(*id).value();
        EXPECT_TRUE(engine.forget(*id).ok());
        return ledger;
    };
    EngineOptions options = engine_with("");
    options.cache_memory_bytes = 64U << 20U;
    auto roomy = tiny().engine(options);
    auto engine = tiny().engine(options);
    ASSERT_TRUE(roomy.ok() && engine.ok());
    ledger_of(*roomy, 0, 1U << 30U);
    const auto room = static_cast<uint64_t>(ledger_of(*roomy, 1, 1U << 30U).cold_bytes);
    ASSERT_GT(room, 0U);
    ledger_of(*engine, 0, room + room / 8);
    for (unsigned seed = 1; seed < 9; ++seed) {
        const Ledger ledger = ledger_of(*engine, seed, room + room / 8);
        EXPECT_EQ(ledger.cold_lost_entries, 0) << "the " << seed << "th";
        EXPECT_GT(ledger.cold_entries, 0);
    }
}

TEST(ColdStates, OfManyTurnsLieInAFewFilesAtATime) {
    const TempFolder folder;
    const std::string states = folder.file("s");
    for (size_t n = 150; n < kTokens; n += 32) { answer_of(engine_with(states), turn_of(n)); }
    std::map<int64_t, int64_t> n_files_by_end;
    int64_t most = 0;
    int n_anew = 0;
    for (const File & file : files_in(states, /*of_rows=*/true)) {
        const int64_t n = file.name.n_before == 0 ? 1 : n_files_by_end.at(file.name.n_before) + 1;
        n_files_by_end[file.name.n_tokens] = n;
        most = std::max(most, n);
        n_anew += n == 1 ? 1 : 0;
    }
    EXPECT_EQ(most, 16);
    EXPECT_GT(n_anew, 1);
    const Outcome last = answer_of(engine_with(states), turn_of(kTokens));
    EXPECT_EQ(last.n_cached, end_of(982));
    last.expect_same(answer_of(engine_with(""), turn_of(kTokens)));
}

// Each of the files is gone or damaged once.
TEST(ColdStates, WhoseFilesAreNotWholeAreReadAnew) {
    const Outcome alone = answer_of(engine_with(""), turn_of(700));
    for (size_t i = 0;; ++i) {
        const TempFolder folder;
        const std::string states = folder.file("s");
        for (const size_t n : {150U, 260U, 700U}) { answer_of(engine_with(states), turn_of(n)); }
        std::vector<File> files = files_in(states, /*of_rows=*/true);
        const size_t n_rows = files.size();
        std::ranges::copy(files_in(states, /*of_rows=*/false), std::back_inserter(files));
        if (i / 2 == files.size()) { break; }
        const std::string & path = files[i / 2].path;
        const bool is_older_state = i / 2 >= n_rows && i / 2 + 1 < files.size();
        testing::spoil(path, /*is_gone=*/i % 2 == 0);
        auto engine = tiny().engine(engine_with(states));
        ASSERT_TRUE(engine.ok());
        const Outcome again = answer(*engine, turn_of(700));
        again.expect_same(alone);
        EXPECT_TRUE(again.n_cached < end_of(700) || is_older_state) << i;
        EXPECT_EQ(answer(*engine, turn_of(700)).n_cached, end_of(700)) << i;  // what is missing was written anew
        EXPECT_EQ(answer_of(engine_with(states), turn_of(700)).n_cached, end_of(700)) << i;
    }
}

// Rows of another conversation, under the name of this one's: also where both evicted the same positions.
TEST(ColdStates, DoNotTakeTheRowsOfOthers) {
    for (const char * policy : {"h2o:recent=8", "streaming"}) {
        const TempFolder mine;
        const TempFolder others;
        Request request = turn_of(300);
        request.options.policy = policy;
        Request other = request;
        other.tokens = random_tokens(300, 384, 77);
        answer_of(engine_with(mine.file("s")), request);
        answer_of(engine_with(others.file("s")), other);
        const auto rows = files_in(mine.file("s"), true);
        const auto foreign = files_in(others.file("s"), true);
        ASSERT_EQ(rows.size(), foreign.size());
        for (size_t i = 0; i < rows.size(); ++i) {
            std::filesystem::copy_file(foreign[i].path, rows[i].path, std::filesystem::copy_options::overwrite_existing);
        }
        const Outcome again = answer_of(engine_with(mine.file("s")), request);
        again.expect_same(answer_of(engine_with(""), request));
        EXPECT_EQ(again.n_cached, 0) << policy;
        EXPECT_EQ(answer_of(engine_with(mine.file("s")), request).n_cached, end_of(300));
    }
}

// Files whose bytes are those they were written with, and whose numbers make no sense: their hash of the rows before them, the
// number of lanes, and the first lane's lengths.
TEST(ColdStates, WhoseRowsAreMisdescribedAreReadAnew) {
    const Outcome alone = answer_of(engine_with(""), turn_of(300));
    for (const size_t at : {0U, 8U, 16U, 24U, 28U, 48U}) {
        for (const int32_t change : {1, -1, 1 << 30}) {
            const TempFolder folder;
            const std::string states = folder.file("s");
            answer_of(engine_with(states), turn_of(300));
            const std::string path = files_in(states, true).back().path;
            {
                const CacheFile file = CacheFile::open(path).value();
                CacheFileWriter changed = CacheFileWriter::create(path).value();
                for (const CacheSection & section : file.view().sections()) {
                    const auto bytes = file.view().section(section.name).value();
                    std::vector<uint8_t> copy(bytes.begin(), bytes.end());
                    if (section.name == "cold-parts") {
                        int32_t number = 0;
                        std::memcpy(&number, copy.data() + at, sizeof(number));
                        number += change;
                        std::memcpy(copy.data() + at, &number, sizeof(number));
                    }
                    ASSERT_TRUE(changed.add(section.name, copy).ok());
                }
                ASSERT_TRUE(changed.publish().ok());
            }
            const Outcome again = answer_of(engine_with(states), turn_of(300));
            again.expect_same(alone);
            EXPECT_LT(again.n_cached, end_of(300)) << at << ' ' << change;
            EXPECT_EQ(answer_of(engine_with(states), turn_of(300)).n_cached, end_of(300)) << at << ' ' << change;
        }
    }
}

// Where files must go, what a state needs goes after it; of states in parts, where nothing is evicted, the end goes first.
TEST(ColdStates, GoBeforeTheirRows) {
    for (const bool evicts : {true, false}) {
        const TempFolder folder;
        const std::string states = folder.file("s");
        const auto turn = [&](size_t n) {
            Request request = turn_of(n);
            if (!evicts) {
                request.options.policy = "full";
                request.options.budget = {};
                request.options.cold = {};
                request.options.look_back = false;
            }
            return request;
        };
        for (const size_t n : {200U, 300U, 400U}) { answer_of(engine_with(states), turn(n)); }
        for (int i = 0;; ++i) {
            const std::vector<File> left = files_in(states, /*of_rows=*/false);
            if (left.empty()) { break; }
            const std::string copy = folder.file("copy" + std::to_string(i));
            std::filesystem::copy(states, copy);
            EXPECT_EQ(answer_of(engine_with(copy), turn(400)).n_cached, left.back().name.n_tokens) << evicts << i;
            StateStore::open(states, UINT64_MAX)->prune(bytes_in(states) - 1);
        }
        EXPECT_EQ(files_in(states, /*of_rows=*/true).empty(), !evicts);
    }
}

// Rows of another form on disk are another's states.
TEST(ColdStates, AreFoundByTheSameFormAlone) {
    const TempFolder folder;
    const std::string states = folder.file("s");
    answer_of(engine_with(states), turn_of(300));
    for (const int i : {0, 1, 2, 3}) {
        Request other = turn_of(300, /*looks_back=*/i != 0);
        if (i == 1) { other.options.cold = KvType::kF16; }
        EngineOptions engine = engine_with(states);
        engine.rotate_kv = i != 2;
        if (i == 3) { other.options.cold_bytes /= 2; }
        EXPECT_EQ(answer_of(engine, other).n_cached, 0) << i;
    }
    EXPECT_EQ(answer_of(engine_with(states), turn_of(300)).n_cached, end_of(300));
}

TEST(ColdStates, SayWhatTheirFilesAre) {
    const TempFolder folder;
    answer_of(engine_with(folder.file("s")), turn_of(300));
    const std::string state = files_in(folder.file("s"), false).back().path;
    const auto info = read_cache_info(state);
    ASSERT_TRUE(info.ok()) << info.status().message();
    EXPECT_GT(info->n_cold_entries, 0);
    EXPECT_GT(info->cold_bytes, 0U);
    const Status alone = tiny().open_session(state).status();
    EXPECT_EQ(alone.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(alone.message().find("open the folder as a folder of states"), std::string::npos) << alone.message();
    EXPECT_TRUE(info->is_part);
    EXPECT_FALSE(info->is_rows);
    const std::string rows = files_in(folder.file("s"), true).back().path;
    EXPECT_GT(read_cache_info(rows)->cold_bytes, 0U);
    const Status no_session = tiny().open_session(rows).status();
    EXPECT_EQ(no_session.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(no_session.message().find("holds evicted entries"), std::string::npos) << no_session.message();
}

// The k-th write fails, or all from then on: the answer is the same, and what is there can be gone on from.
// A state in memory whose evicted rows are gone from under it: the turn that finds it out begins anew, and so do later ones.
TEST(ColdStates, ThatCanNoLongerBeReadAreReadAnew) {
    EngineOptions options = engine_with("");
    options.cache_memory_bytes = 64U << 20U;
    auto engine = tiny().engine(options);
    ASSERT_TRUE(engine.ok());
    const auto ask = [&](size_t n) { return answer(*engine, turn_of(n), tiny_spec().n_layers, /*keeps=*/false); };
    ask(300);
    EXPECT_EQ(ask(400).n_cached, end_of(300));
    int n_cut = 0;
    const std::string where = std::filesystem::temp_directory_path().string();
    for (const auto & entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        const std::string to = std::filesystem::read_symlink(entry.path(), gone).string();
        if (gone || !to.starts_with(where) || !to.ends_with(" (deleted)")) { continue; }
        n_cut += truncate(entry.path().c_str(), 0) == 0 ? 1 : 0;
    }
    ASSERT_GT(n_cut, 0) << "no file of evicted rows was found";
    const Outcome found_out = ask(600);
    EXPECT_EQ(found_out.n_cached, 0);
    EXPECT_EQ(found_out.logits, answer_of(engine_with(""), turn_of(600)).logits);
    EXPECT_EQ(ask(700).n_cached, end_of(600));
}

TEST(ColdStates, ThatCannotBeWrittenCostNothing) {
    const Outcome alone = answer_of(engine_with(""), turn_of(300), tiny());
    for (const bool stays_full : {false, true}) {
        for (int k = 1;; k += 7) {
            const TempFolder folder;
            const std::string states = folder.file("s");
            answer_of(engine_with(states), turn_of(200));
            auto engine = tiny().engine(engine_with(states));
            ASSERT_TRUE(engine.ok());
            Request request = turn_of(300);
            testing::fail_files_at(k, stays_full);
            const auto id = engine->submit(request);
            ASSERT_TRUE(id.ok() && engine->run().ok());
            const bool failed = testing::stop_failing_files();
            const bool done = engine->state(*id) == RequestState::kDone;
            EXPECT_TRUE(done || failed) << engine->status(*id).message();  // what is evicted has no other place
            for (int turn = 0; turn < 2; ++turn) {
                const Outcome again = answer_of(engine_with(states), turn_of(300));
                again.expect_same(alone);
                EXPECT_GE(again.n_cached, end_of(turn == 0 ? 200U : 300U)) << k;
            }
            if (!failed) { break; }
        }
    }
}

}  // namespace
}  // namespace pith::cold_states_test
