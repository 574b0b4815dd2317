// state_store_test.cpp - folders of states: what is found, what goes first, and what processes that share one, or are killed,
// leave of it.
#include "cache/state_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <random>

#include "cache/cache_file.h"
#include "cache/spill_memory.h"
#include "file/new_file.h"
#include "file/write_file.h"
#include "model/gguf_edit.h"

namespace pith::state_store_test {
namespace {

using testing::TempFolder;

constexpr uint64_t kScope = 0x1234;
constexpr uint64_t kNoLimit = uint64_t{1} << 40U;

bool takes_long() {
    return std::getenv("PITH_STORE_LONG") != nullptr;
}

std::vector<int32_t> some_tokens(int n, unsigned seed = 1) {
    std::mt19937 random(seed);
    std::vector<int32_t> tokens(static_cast<size_t>(n));
    for (int32_t & token : tokens) { token = static_cast<int32_t>(random() % 1000); }
    return tokens;
}

// A file whose contents say which state it is.
Status put(StateStore & store, uint64_t scope, std::span<const int32_t> tokens, size_t size = 2000, int64_t n_before = 0) {
    const std::string path = store.path_of(scope, tokens, n_before);
    PITH_ASSIGN_OR_RETURN(CacheFileWriter file, CacheFileWriter::create(path));
    PITH_RETURN_IF_ERROR(
        file.add("tokens", {reinterpret_cast<const uint8_t *>(tokens.data()), tokens.size() * sizeof(int32_t)}));
    PITH_RETURN_IF_ERROR(file.add("rows", std::vector<uint8_t>(size, static_cast<uint8_t>(scope))));
    PITH_RETURN_IF_ERROR(file.publish());
    store.add(path);
    return {};
}

// Whether it is whole, and what its name says.
bool is_sound(const std::string & path) {
    const auto name = StateName::parse(std::filesystem::path(path).filename().string());
    const auto file = CacheFile::open(path);
    if (!name || !file.ok()) { return false; }
    const auto bytes = file->view().section("tokens");
    const auto rows = file->view().section("rows");
    if (!bytes.ok() || !rows.ok()) { return false; }
    std::vector<int32_t> tokens(bytes->size() / sizeof(int32_t));
    std::memcpy(tokens.data(), bytes->data(), bytes->size());
    const bool of_scope = std::ranges::all_of(*rows, [&](uint8_t byte) { return byte == static_cast<uint8_t>(name->scope); });
    return StateName::of(name->scope, tokens).file_name() == name->file_name() && of_scope;
}

std::vector<std::string> names_of(const std::string & folder) {
    std::vector<std::string> names;
    for (const auto & entry : std::filesystem::directory_iterator(folder)) { names.push_back(entry.path().filename()); }
    std::ranges::sort(names);
    return names;
}

int64_t n_unfinished(const std::string & folder) {
    return std::ranges::count_if(names_of(folder), [](const std::string & name) { return name.ends_with(".tmp"); });
}

TEST(StateStore, NamesComeBackAndOthersAreNone) {
    const auto tokens = some_tokens(77);
    const StateName name = StateName::of(kScope, tokens);
    EXPECT_EQ(name.file_name().substr(0, 20), "0000000000001234-77-");
    const auto parsed = StateName::parse(name.file_name());
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(parsed->scope, kScope);
    EXPECT_EQ(parsed->n_tokens, 77);
    EXPECT_EQ(parsed->hash, name.hash);
    EXPECT_EQ(parsed->n_before, 0);
    const auto part = StateName::parse(StateName::of(kScope, tokens, 64).file_name());
    ASSERT_TRUE(part.has_value());
    EXPECT_EQ(part->n_before, 64);
    EXPECT_EQ(part->n_tokens, 77);
    EXPECT_EQ(part->hash, name.hash);
    std::string upper = name.file_name();
    std::ranges::transform(upper, upper.begin(), [](char c) { return static_cast<char>(std::toupper(c)); });
    for (const std::string & other :
         {std::string("book.pith"), std::string(), std::string(".pith"), name.file_name() + ".tmp", "x" + name.file_name(),
          std::string("0000000000001234-077-0000000000001234.pith"), std::string("0000000000001234--7-0000000000001234.pith"),
          std::string("0000000000001234-0-0000000000001234.pith"), std::string("0000000000001234-7+0000000000001234.pith"),
          std::string("0000000000001234-99999999999999999999-0000000000001234.pith"), upper,
          std::string("0000000000001234-7-7-0000000000001234.pith"), std::string("0000000000001234-0-7-0000000000001234.pith"),
          std::string("0000000000001234-07-9-0000000000001234.pith"),
          std::string("0000000000001234-1-7-9-0000000000001234.pith"),
          std::string("0000000000001234--7-0000000000001234.pith")}) {
        EXPECT_FALSE(StateName::parse(other).has_value()) << other;
    }
}

TEST(StateStore, FindsTheLongestStateThatTokensBeginWith) {
    const TempFolder folder;
    auto store = StateStore::open(folder.file("made/here"), kNoLimit);
    ASSERT_TRUE(store.ok()) << store.status().message();
    const auto tokens = some_tokens(100);
    EXPECT_FALSE(store->find(kScope, tokens).has_value());
    for (const size_t n : {10U, 40U, 70U}) { ASSERT_TRUE(put(*store, kScope, std::span(tokens).first(n)).ok()); }
    auto others = tokens;
    others[50] += 1;
    ASSERT_TRUE(put(*store, kScope, others).ok());

    const auto n_found = [&](uint64_t scope, std::span<const int32_t> wanted) {
        const auto found = store->find(scope, wanted);
        return found ? found->n_tokens : 0;
    };
    EXPECT_EQ(n_found(kScope, tokens), 70);
    EXPECT_EQ(n_found(kScope, std::span(tokens).first(70)), 70);  // all of them
    EXPECT_EQ(n_found(kScope, std::span(tokens).first(69)), 40);
    EXPECT_EQ(n_found(kScope, std::span(tokens).first(9)), 0);
    EXPECT_EQ(n_found(kScope, std::span(others).first(99)), 40);
    EXPECT_EQ(n_found(kScope, others), 100);
    EXPECT_EQ(n_found(kScope + 1, tokens), 0);  // whatever must be equal is another
    EXPECT_EQ(store->find(kScope, tokens)->paths, std::vector{store->path_of(kScope, std::span(tokens).first(70))});

    store->pass_over(store->path_of(kScope, std::span(tokens).first(70)));
    EXPECT_EQ(n_found(kScope, tokens), 40);
    EXPECT_FALSE(store->holds(store->path_of(kScope, std::span(tokens).first(70))));
    store = StateStore::open(folder.file("made/here"), kNoLimit);  // as another process does
    ASSERT_TRUE(store.ok());
    EXPECT_EQ(n_found(kScope, tokens), 70);
}

TEST(StateStore, WhatWasNotUsedForLongestGoesFirst) {
    const TempFolder folder;
    auto store = StateStore::open(folder.file("s"), kNoLimit);
    ASSERT_TRUE(store.ok());
    std::vector<std::string> paths;
    uint64_t bytes = 0;
    for (unsigned i = 0; i < 5; ++i) {
        const auto tokens = some_tokens(20, i);
        ASSERT_TRUE(put(*store, kScope, tokens).ok());
        paths.push_back(store->path_of(kScope, tokens));
        bytes = std::filesystem::file_size(paths.back());
    }
    store->touch({{paths[0]}, 20});
    store->touch({{paths[2]}, 20});  // so it is 1, 3, 4, 0, 2
    const auto left = [&] {
        std::string text;
        for (const std::string & path : paths) { text += store->holds(path) ? '1' : '0'; }
        return text;
    };
    const auto with_limit = [&](uint64_t most_bytes) {
        store = StateStore::open(folder.file("s"), most_bytes);
        ASSERT_TRUE(store.ok());
    };
    with_limit(4 * bytes);
    EXPECT_EQ(left(), "10111");
    with_limit(4 * bytes - 1);
    EXPECT_EQ(left(), "10101");
    with_limit(2 * bytes);
    EXPECT_EQ(left(), "10100");
    EXPECT_EQ(store->prune().n_states, 2);
    EXPECT_EQ(store->prune().bytes, 2 * bytes);
    with_limit(0);
    EXPECT_EQ(left(), "00000");
}

// The disk is full long before the limit: what nobody used for longest makes room, where that is enough.
TEST(StateStore, AFullDiskLosesWhatWasNotUsedForLongest) {
    const TempFolder folder;
    auto store = StateStore::open(folder.file("s"), kNoLimit);
    ASSERT_TRUE(store.ok());
    std::vector<std::string> paths;
    for (unsigned i = 0; i < 3; ++i) {
        const auto tokens = some_tokens(20, i);
        ASSERT_TRUE(put(*store, kScope, tokens).ok());
        paths.push_back(store->path_of(kScope, tokens));
    }
    const uint64_t bytes = std::filesystem::file_size(paths[0]);
    store->touch({{paths[0]}, 20});
    const auto n_there = [&] { return std::ranges::count_if(paths, [&](const auto & path) { return store->holds(path); }); };
    store->make_room(5 * bytes, 5 * bytes);
    EXPECT_EQ(n_there(), 3);
    store->make_room(5 * bytes, bytes);  // would not be enough
    EXPECT_EQ(n_there(), 3);
    store->make_room(bytes);  // the disk that this runs on has so much
    EXPECT_EQ(n_there(), 3);
    store->make_room(5 * bytes, 4 * bytes);
    EXPECT_EQ(n_there(), 2);
    EXPECT_FALSE(store->holds(paths[1]));
}

// Parts of a state are found together, or not at all; two states share the files that they begin with.
TEST(StateStore, FindsStatesInSeveralFiles) {
    const TempFolder folder;
    auto store = StateStore::open(folder.file("s"), kNoLimit).value();
    const auto tokens = some_tokens(100);
    const auto first = [&](size_t n) { return std::span(tokens).first(n); };
    auto other = tokens;
    other[50] = 1001;
    ASSERT_TRUE(put(store, kScope, first(70), 2000, 40).ok());
    EXPECT_FALSE(store.find(kScope, tokens).has_value());  // what it goes on from is not there
    ASSERT_TRUE(put(store, kScope, first(40), 2000, 10).ok());
    EXPECT_FALSE(store.find(kScope, tokens).has_value());
    ASSERT_TRUE(put(store, kScope, first(10)).ok());
    ASSERT_TRUE(put(store, kScope, std::span(other).first(60), 2000, 40).ok());
    const auto found = store.find(kScope, tokens);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->n_tokens, 70);
    EXPECT_EQ(found->paths, (std::vector<std::string>{store.path_of(kScope, first(10)), store.path_of(kScope, first(40), 10),
                                                      store.path_of(kScope, first(70), 40)}));
    EXPECT_EQ(store.find(kScope, other)->n_tokens, 60);
    EXPECT_EQ(store.find(kScope, other)->paths.size(), 3U);
    EXPECT_FALSE(store.find_whole(kScope, first(70)).has_value());
    EXPECT_FALSE(store.find(kScope + 1, tokens).has_value());
    // Of two ways to the same tokens the one of fewer files.
    ASSERT_TRUE(put(store, kScope, first(40)).ok());
    EXPECT_EQ(store.find(kScope, tokens)->paths.size(), 2U);
    store.pass_over(store.path_of(kScope, first(40)));
    EXPECT_EQ(store.find(kScope, tokens)->paths.size(), 3U);
    store.pass_over(store.path_of(kScope, first(40), 10));
    EXPECT_EQ(store.find(kScope, tokens)->n_tokens, 10);
}

// What others go on from goes behind them, however long ago it was written.
TEST(StateStore, TheFirstFileOfAStateGoesLast) {
    const TempFolder folder;
    auto store = StateStore::open(folder.file("s"), kNoLimit).value();
    const auto tokens = some_tokens(100);
    FoundState before;
    for (const int64_t n : {20, 40, 60, 80}) {
        const auto read = std::span(tokens).first(static_cast<size_t>(n));
        ASSERT_TRUE(put(store, kScope, read, 2000, before.n_tokens).ok());
        store.add(store.path_of(kScope, read, before.n_tokens), before);
        before = store.find(kScope, read).value();
        ASSERT_EQ(before.n_tokens, n);
    }
    ASSERT_TRUE(put(store, kScope, some_tokens(20, 9)).ok());
    store.touch(before);
    const uint64_t all = store.prune().bytes;
    uint64_t at_most = all;
    std::vector<int64_t> longest;
    for (int64_t n_left = 4; n_left >= 0; --n_left) {
        at_most = store.prune(at_most - 1).bytes;
        const auto found = store.find(kScope, tokens);
        longest.push_back(found ? found->n_tokens : 0);
        if (at_most == 0) { break; }
    }
    EXPECT_EQ(longest, (std::vector<int64_t>{80, 60, 40, 20, 0}));
}

TEST(StateStore, LeavesFilesOfOtherNamesAlone) {
    const TempFolder folder;
    ASSERT_TRUE(write_file(folder.file("book.pith"), std::string(5000, 'x')).ok());
    ASSERT_TRUE(write_file(folder.file("book.pith.tmp"), "x").ok());
    ASSERT_TRUE(write_file(folder.file("notes.txt"), "x").ok());
    const std::string named = folder.file(StateName::of(kScope, some_tokens(5)).file_name());
    ASSERT_TRUE(std::filesystem::create_directory(named));
    const auto before = names_of(folder.file("."));
    const auto store = StateStore::open(folder.file("."), 0);
    ASSERT_TRUE(store.ok());
    EXPECT_EQ(store->prune().n_states, 0);
    EXPECT_EQ(names_of(folder.file(".")), before);
}

TEST(StateStore, RemovesWhatNobodyWritesAnyMore) {
    const TempFolder folder;
    auto store = StateStore::open(folder.file("s"), kNoLimit);
    ASSERT_TRUE(store.ok());
    const std::string abandoned = store->path_of(kScope, some_tokens(5, 1));
    const std::string written = store->path_of(kScope, some_tokens(5, 2));
    ASSERT_TRUE(write_file(abandoned + ".tmp", "half of a").ok());
    auto writer = NewFile::create_private(written, {"PITHKV", 64});
    ASSERT_TRUE(writer.ok() && writer->write("all", 3).ok());
    EXPECT_EQ(n_unfinished(folder.file("s")), 2);
    store = StateStore::open(folder.file("s"), kNoLimit);
    EXPECT_EQ(names_of(folder.file("s")),
              std::vector<std::string>{std::filesystem::path(written + ".tmp").filename().string()});
    ASSERT_TRUE(writer->publish().ok());
    EXPECT_TRUE(store->holds(written));
}

// On a file system that knows no files without names, a process may be killed before it has taken the name away.
TEST(StateStore, RemovesWhatWasPutAsideByAKilledProcess) {
    const TempFolder folder;
    const std::string left = folder.file(name_put_aside("aB3xY9"));
    const std::string in_use = folder.file(name_put_aside("123456"));
    for (const std::string & path : {left, in_use, folder.file(name_put_aside("1234567")), folder.file("pith-letter")}) {
        ASSERT_TRUE(write_file(path, "entries").ok());
    }
    ASSERT_EQ(mkfifo(folder.file(name_put_aside("a-pipe")).c_str(), 0600), 0);
    const int locked = ::open(in_use.c_str(), O_RDWR);
    ASSERT_GE(locked, 0);
    ASSERT_EQ(flock(locked, LOCK_EX | LOCK_NB), 0);
    ASSERT_TRUE(StateStore::open(folder.file(""), kNoLimit).ok());
    EXPECT_FALSE(std::filesystem::exists(left));
    EXPECT_EQ(names_of(folder.file("")).size(), 4U);
    ::close(locked);
    ASSERT_TRUE(StateStore::open(folder.file(""), kNoLimit).ok());
    EXPECT_EQ(names_of(folder.file("")).size(), 3U);
    EXPECT_FALSE(std::filesystem::exists(in_use));
}

TEST(StateStore, AFolderThatCannotBeIsSaidSo) {
    const TempFolder folder;
    ASSERT_TRUE(write_file(folder.file("taken"), "x").ok());
    const auto store = StateStore::open(folder.file("taken"), kNoLimit);
    ASSERT_FALSE(store.ok());
    EXPECT_EQ(store.status().code(), ErrorCode::kIo);
    EXPECT_TRUE(
        store.status().message().starts_with("the folder of cached states '" + folder.file("taken") + "' cannot be used: "))
        << store.status().message();
}

// What a process that shares the folder does, over and over: false: it saw something that is not whole.
bool use_for_a_while(const std::string & folder, uint64_t most_bytes, unsigned seed, double seconds) {
    std::mt19937 random(seed);
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    int n_found = 0;
    while (std::chrono::steady_clock::now() < end) {
        auto store = StateStore::open(folder, most_bytes);
        if (!store.ok()) { return false; }
        for (int i = 0; i < 20; ++i) {
            const uint64_t scope = random() % 3;
            const auto tokens = some_tokens(30, static_cast<unsigned>(random() % 40));
            const auto found = store->find(scope, tokens);
            if (!found) {
                const size_t n = 10 + random() % 20;
                const Status status = put(*store, scope, std::span(tokens).first(n), 500 + random() % 20000);
                const bool taken = status.message().ends_with("another process is writing it");
                if (!status.ok() && !taken) { return false; }
                continue;
            }
            // The other may remove it, and write it anew.
            const std::string & path = found->paths.front();
            const bool sound = is_sound(path) || !store->holds(path) || is_sound(path);
            if (!sound) { return false; }
            store->touch(*found);
            ++n_found;
        }
    }
    return n_found > 0;
}

TEST(StateStore, TwoProcessesShareAFolder) {
    const TempFolder folder;
    constexpr uint64_t kMost = 400'000;
    const int seconds = takes_long() ? 300 : 1;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    const bool sound = use_for_a_while(folder.file("s"), kMost, child == 0 ? 1 : 2, seconds);
    if (child == 0) { _exit(sound ? 0 : 1); }
    EXPECT_TRUE(sound);
    int state = 0;
    ASSERT_EQ(waitpid(child, &state, 0), child);
    EXPECT_EQ(state, 0);
    const auto store = StateStore::open(folder.file("s"), kMost);
    ASSERT_TRUE(store.ok());
    EXPECT_GT(store->prune().n_states, 0);
    EXPECT_LE(store->prune().bytes, kMost);
    for (const std::string & name : names_of(folder.file("s"))) { EXPECT_TRUE(is_sound(folder.file("s/" + name))) << name; }
}

// Killed while it writes and prunes: what it said was done is there and whole, and the next start leaves nothing unfinished.
TEST(StateStore, AKilledProcessLeavesWholeStates) {
    const TempFolder folder;
    constexpr uint64_t kMost = 1'000'000;
    constexpr int kSurelyThere = 10;  // the newest so many fit
    auto * n_done = static_cast<std::atomic<int> *>(
        mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(static_cast<void *>(n_done), MAP_FAILED);
    new (n_done) std::atomic<int>(0);
    std::mt19937 random(5);
    for (int i = 0; i < (takes_long() ? 300 : 30); ++i) {
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            auto store = StateStore::open(folder.file("s"), kMost);
            for (int n = *n_done + 1; store.ok(); ++n) {
                const auto tokens = some_tokens(40, static_cast<unsigned>(n));
                if (!put(*store, kScope, tokens, 1000 + static_cast<size_t>(n) % 5 * 15000).ok()) { break; }
                *n_done = n;
            }
            _exit(1);
        }
        usleep(random() % 30000);
        kill(child, SIGKILL);
        int state = 0;
        ASSERT_EQ(waitpid(child, &state, 0), child);
        ASSERT_TRUE(WIFSIGNALED(state)) << "a state could not be kept";
        const auto store = StateStore::open(folder.file("s"), kMost);
        ASSERT_TRUE(store.ok());
        EXPECT_EQ(n_unfinished(folder.file("s")), 0);
        EXPECT_LE(store->prune().bytes, kMost);
        for (const std::string & name : names_of(folder.file("s"))) { ASSERT_TRUE(is_sound(folder.file("s/" + name))) << name; }
        for (int n = std::max(1, *n_done - kSurelyThere + 1); n <= *n_done; ++n) {
            ASSERT_TRUE(store->find(kScope, some_tokens(40, static_cast<unsigned>(n))).has_value()) << n << " of " << *n_done;
        }
    }
    EXPECT_GT(*n_done, 5);
    munmap(n_done, sizeof(std::atomic<int>));
}

}  // namespace
}  // namespace pith::state_store_test
