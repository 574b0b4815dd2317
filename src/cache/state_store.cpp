// state_store.cpp - names, times and sizes of a folder's files.
#include "cache/state_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <limits>
#include <map>
#include <system_error>
#include <utility>

#include "cache/spill_memory.h"
#include "core/byte_stream.h"
#include "core/hash64.h"
#include "core/parse_integer.h"
#include "file/left_file.h"
#include "file/new_file.h"
#include "pith/log.h"

namespace pith {
namespace {

constexpr std::string_view kStateSuffix = ".pith";
constexpr std::string_view kUnfinishedSuffix = ".pith.tmp";
constexpr size_t kHashDigits = 16;

std::vector<std::string> names_in(const std::string & folder, std::error_code & error) {
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
        names.push_back(at->path().filename().string());
    }
    return names;
}

struct StateFile {
    std::string path;
    uint64_t bytes = 0;
    timespec used{};
};

bool was_used_before(const StateFile & a, const StateFile & b) {
    if (a.used.tv_sec != b.used.tv_sec) { return a.used.tv_sec < b.used.tv_sec; }
    if (a.used.tv_nsec != b.used.tv_nsec) { return a.used.tv_nsec < b.used.tv_nsec; }
    return a.path < b.path;
}

void touch_file(const std::string & path) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);  // finer than the time that the kernel would take
    const timespec times[] = {{0, UTIME_OMIT}, now};
    static_cast<void>(utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW));
}

}  // namespace

uint64_t hash_of_tokens(std::span<const int32_t> tokens) {
    return hash64(raw_bytes(tokens));
}

StateName StateName::of(uint64_t scope, std::span<const int32_t> tokens, int64_t n_before) {
    return {scope, n_before, std::ssize(tokens), hash_of_tokens(tokens)};
}

std::optional<StateName> StateName::parse(std::string_view file_name) {
    if (!file_name.ends_with(kStateSuffix)) { return std::nullopt; }
    const std::string_view name = file_name.substr(0, file_name.size() - kStateSuffix.size());
    if (name.size() < 2 * kHashDigits + 3) { return std::nullopt; }
    const std::string_view counts = name.substr(kHashDigits + 1, name.size() - 2 * kHashDigits - 2);
    const size_t dash = counts.find('-');
    const bool has_before = dash != std::string_view::npos;
    StateName parsed;
    // Upper case, and zeros in front, are found by writing the name again.
    const bool reads = parse_integer(name.substr(0, kHashDigits), parsed.scope, 16) &&
                       (!has_before || parse_integer(counts.substr(0, dash), parsed.n_before)) &&
                       parse_integer(has_before ? counts.substr(dash + 1) : counts, parsed.n_tokens) &&
                       parse_integer(name.substr(name.size() - kHashDigits), parsed.hash, 16);
    const bool sensible = parsed.n_before >= 0 && parsed.n_tokens > parsed.n_before;
    if (!reads || !sensible || parsed.file_name() != file_name) { return std::nullopt; }
    return parsed;
}

std::string StateName::file_name() const {
    const std::string before = n_before == 0 ? std::string() : std::to_string(n_before) + "-";
    return hash_text(scope) + "-" + before + std::to_string(n_tokens) + "-" + hash_text(hash) + std::string(kStateSuffix);
}

Result<StateStore> StateStore::open(const std::string & folder, uint64_t most_bytes) {
    const auto failure = [&folder](const std::error_code & error) {
        return Status(ErrorCode::kIo, "the folder of cached states '" + folder + "' cannot be used: " + error.message());
    };
    std::error_code error;
    const bool was_there = std::filesystem::is_directory(folder, error);
    if (!was_there) {
        std::filesystem::create_directories(folder, error);
        if (error) { return failure(error); }
        std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);  // it holds what people wrote
    }
    static_cast<void>(names_in(folder, error));
    if (error) { return failure(error); }
    if (access(folder.c_str(), W_OK | X_OK) != 0) { return failure({errno, std::generic_category()}); }
    StateStore store(folder, most_bytes);
    store.remove_unfinished();
    const Contents contents = store.prune();
    if (contents.n_removed > 0) {
        log_line(LogLevel::kWarning, std::to_string(contents.n_removed) + " cached states in '" + folder + "' were removed, " +
                                         std::to_string(contents.removed_bytes) + " bytes: all of them may take " +
                                         std::to_string(most_bytes));
    }
    return store;
}

void StateStore::remove_unfinished() const {
    std::error_code error;
    for (const std::string & name : names_in(folder_, error)) {
        if (is_put_aside(name)) { remove_unless_locked(folder_ + "/" + name); }
        if (!name.ends_with(kUnfinishedSuffix)) { continue; }
        const std::string state = name.substr(0, name.size() - kUnfinishedSuffix.size()) + std::string(kStateSuffix);
        if (StateName::parse(state)) { NewFile::remove_abandoned(folder_ + "/" + state); }
    }
}

std::optional<FoundState> StateStore::find(uint64_t scope, std::span<const int32_t> tokens) const {
    std::error_code error;
    std::vector<StateName> known;
    for (const std::string & name : names_in(folder_, error)) {
        const auto state = StateName::parse(name);
        if (state && state->scope == scope && state->n_tokens <= std::ssize(tokens)) { known.push_back(*state); }
    }
    // By their ends, since what a file goes on from ends before it does; of one end that of the fewest files first.
    std::ranges::sort(known, {}, [](const StateName & one) { return std::pair(one.n_tokens, one.n_before); });
    std::map<int64_t, StateName> last_files;  // by how many tokens they have read: of states all of whose files are there
    Hash64 hash;
    int64_t n_hashed = 0;
    for (const StateName & one : known) {
        hash.add(raw_bytes(tokens.subspan(static_cast<size_t>(n_hashed), static_cast<size_t>(one.n_tokens - n_hashed))));
        n_hashed = one.n_tokens;
        const bool is_whole = one.n_before == 0 || last_files.contains(one.n_before);
        if (!is_whole || hash.value() != one.hash || passed_over_.contains(folder_ + "/" + one.file_name())) { continue; }
        last_files.emplace(one.n_tokens, one);
    }
    if (last_files.empty()) { return std::nullopt; }
    FoundState longest{{}, last_files.rbegin()->first};
    for (int64_t n = longest.n_tokens; n > 0; n = last_files.at(n).n_before) {
        longest.paths.push_back(folder_ + "/" + last_files.at(n).file_name());
        longest.begins.push_back(last_files.at(n).n_before);
    }
    std::ranges::reverse(longest.paths);
    std::ranges::reverse(longest.begins);
    return longest;
}

std::optional<FoundState> StateStore::find_whole(uint64_t scope, std::span<const int32_t> tokens) const {
    std::string path = path_of(scope, tokens);
    if (!holds(path)) { return std::nullopt; }
    return FoundState{{std::move(path)}, std::ssize(tokens), {0}};
}

std::string StateStore::path_of(uint64_t scope, std::span<const int32_t> tokens, int64_t n_before) const {
    return folder_ + "/" + StateName::of(scope, tokens, n_before).file_name();
}

bool StateStore::holds(const std::string & path) const {
    return !passed_over_.contains(path) && access(path.c_str(), F_OK) == 0;
}

void StateStore::add(const std::string & path, const FoundState & before) {
    passed_over_.erase(path);
    touch_file(path);
    touch(before);
    prune();
}

void StateStore::touch(const FoundState & state) const {
    std::for_each(state.paths.rbegin(), state.paths.rend(), touch_file);
}

// What another process removes meanwhile has gone the same way: both begin with the least recently used.
StateStore::Contents StateStore::prune(uint64_t most_bytes) const {
    std::error_code error;
    std::vector<StateFile> files;
    Contents contents;
    for (const std::string & name : names_in(folder_, error)) {
        if (!StateName::parse(name)) { continue; }
        StateFile file{folder_ + "/" + name};
        struct stat info {};
        if (lstat(file.path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) { continue; }
        file.bytes = static_cast<uint64_t>(info.st_size);
        file.used = info.st_mtim;
        contents.bytes += file.bytes;
        ++contents.n_states;
        files.push_back(std::move(file));
    }
    std::ranges::sort(files, was_used_before);
    for (const StateFile & file : files) {
        if (contents.bytes <= most_bytes) { break; }
        if (unlink(file.path.c_str()) != 0 && errno != ENOENT) { continue; }
        contents.bytes -= file.bytes;
        --contents.n_states;
        contents.removed_bytes += file.bytes;
        ++contents.n_removed;
    }
    return contents;
}

uint64_t StateStore::bytes_of(const FoundState & state) {
    uint64_t bytes = 0;
    for (const std::string & path : state.paths) {
        std::error_code error;
        const uintmax_t size = std::filesystem::file_size(path, error);
        bytes += error ? 0 : size;
    }
    return bytes;
}

uint64_t StateStore::available() const {
    std::error_code error;
    const std::filesystem::space_info disk = std::filesystem::space(folder_, error);
    return error ? std::numeric_limits<uint64_t>::max() : disk.available;
}

void StateStore::make_room(uint64_t bytes, uint64_t available) const {
    if (available >= bytes) { return; }
    const uint64_t there = prune().bytes;
    const uint64_t missing = bytes - available;
    if (missing <= there) { prune(there - missing); }
}

}  // namespace pith
