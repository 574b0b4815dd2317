// state_store.h - a folder of states: cache files that are found by the tokens they begin with. Stage: cache.
//
// A state of SCOPE-N-HASH.pith has read N tokens, whose hash is HASH (core/hash64.h); SCOPE stands for all else that must be
// equal before it may be used: the model, the settings, whose it is. SCOPE-B-N-HASH.pith is the end of such a state: it holds
// what the tokens from B on added, and the rest is in the files of the state of the first B tokens, which others may share. So
// a conversation's next turn writes what is new alone. The names are the whole index: whoever starts finds what is there,
// several processes may share a folder, and nothing has to be kept in step. A state is written beside its name, under a lock
// that ends with its process, and then renamed; it never changes afterwards. When a file was last used is when it was last
// modified: where all of them take more than they may, the one that nobody used for longest goes first. Files with other names
// are nobody's business here.   Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/status.h"

namespace pith {

uint64_t hash_of_tokens(std::span<const int32_t> tokens);

// What a state's file is called.
struct StateName {
    uint64_t scope = 0;
    int64_t n_before = 0;  // tokens whose entries are in other files
    int64_t n_tokens = 0;  // these included
    uint64_t hash = 0;     // of all n_tokens

    static StateName of(uint64_t scope, std::span<const int32_t> tokens, int64_t n_before = 0);
    static std::optional<StateName> parse(std::string_view file_name);
    std::string file_name() const;
};

struct FoundState {
    std::vector<std::string> paths;  // its files, in the order of the tokens
    int64_t n_tokens = 0;
    std::vector<int64_t> begins;  // [file]: the first of its tokens
};

class StateStore {
public:
    // Makes the folder where it is not there, removes what killed processes left unfinished, and what is too much, which is
    // logged. most_bytes: of all states together. Errors: kIo: the folder cannot be made or read; path and reason.
    static Result<StateStore> open(const std::string & folder, uint64_t most_bytes);

    const std::string & folder() const { return folder_; }
    uint64_t most_bytes() const { return most_bytes_; }

    // The longest state of the scope whose tokens are the first of these, or all of them, and all of whose files are there.
    // That its tokens are these is to be checked once more when it is opened: a hash is no proof.   Cost: reads the folder's
    // names, and the tokens once.
    std::optional<FoundState> find(uint64_t scope, std::span<const int32_t> tokens) const;
    // The state of these tokens, and no others, in one file.
    std::optional<FoundState> find_whole(uint64_t scope, std::span<const int32_t> tokens) const;
    // Where the state of these tokens lies, or is to be written, or what it adds to that of its first n_before.
    std::string path_of(uint64_t scope, std::span<const int32_t> tokens, int64_t n_before = 0) const;
    bool holds(const std::string & path) const;
    // It was used. Of its files the first is then the newest: without it the others are of no use, so it goes last.
    void touch(const FoundState & state) const;
    // It has just been written, and goes on from `before`: removes what is too much.
    void add(const std::string & path, const FoundState & before = {});
    // It is damaged, or not what its name says: neither found nor held any more, until it is written anew.
    void pass_over(const std::string & path) { passed_over_.insert(path); }

    // What is there, and what had to go.
    struct Contents {
        int64_t n_states = 0;  // files
        uint64_t bytes = 0;
        int64_t n_removed = 0;
        uint64_t removed_bytes = 0;
    };
    // Removes states until all take at most so many bytes: the least recently used first.
    Contents prune(uint64_t most_bytes) const;
    Contents prune() const { return prune(most_bytes_); }
    static uint64_t bytes_of(const FoundState & state);  // of its files
    // Whether the disk has so many bytes, as far as the system says.
    bool has_room(uint64_t bytes) const { return available() >= bytes; }
    // So many bytes are to be written. Where the disk has less, states go as above, if that helps.
    void make_room(uint64_t bytes) const { make_room(bytes, available()); }
    void make_room(uint64_t bytes, uint64_t available) const;  // of the disk

private:
    StateStore(std::string folder, uint64_t most_bytes) : folder_(std::move(folder)), most_bytes_(most_bytes) {}
    void remove_unfinished() const;
    uint64_t available() const;  // bytes of the disk

    std::string folder_;
    uint64_t most_bytes_ = 0;
    std::set<std::string> passed_over_;  // paths
};

}  // namespace pith
