// run_folder.h - an evaluation's folder: what was asked (run.json) and every answer so far (answers.jsonl). Stage: eval.
//
//   open     new folder: run.json is written. One that is there: must be of the same settings; its answers come back.
//   append   whole lines, handed to the system at once: a killed process leaves at most one half line at the end, and the next
//            open() cuts it off; what a full disk leaves of one is cut off at once. An answer that is there already is not
//            counted again.
// Without a path nothing is written; answers are kept in memory.
// Errors: kInvalidArgument (another run's folder: says what differs; another process writes there), kBadFile (a line that is
//         no answer: names file and line), kIo (disk full …; what was written stays and open() goes on from it).
// Threads: append() and has() from any thread.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "eval/answer.h"
#include "file/appended_file.h"

namespace pith {

struct EvalTask {
    std::string name;
    std::string metric;                 // "share of references"
    std::vector<std::string> group_by;  // keys of Answer::groups
    bool is_perplexity = false;         // lower is better, and no share of anything
    bool operator==(const EvalTask &) const = default;
};

struct EvalCase {
    std::string policy;
    std::string budget;  // empty: no limit
    bool operator==(const EvalCase &) const = default;
};

// What a run is. The table is made of this and of the answers, of nothing else.
struct RunInfo {
    std::string family;
    std::vector<EvalTask> tasks;
    std::vector<int> lengths;
    std::vector<EvalCase> cases;  // the full cache first
    // Everything that an answer depends on, by the name a user knows it by ("--seed"): two runs with the same settings have the
    // same answers.
    std::vector<std::pair<std::string, std::string>> settings;
    std::vector<std::pair<std::string, std::string>> about;  // machine, model path …: not compared
    struct ShardSize {
        int n_answers = 0;
        int n_all = 0;  // of the whole run
    };
    std::optional<ShardSize> shard;  // of a part of a run that is divided (run_shards.h)
};

// What differs in what answers depend on, by the names of the settings; empty: nothing.
std::string setting_differences(const RunInfo & there, const RunInfo & asked);

class RunFolder {
public:
    // must_exist: there is something to go on with, or it is an error.
    static Result<std::unique_ptr<RunFolder>> open(const std::string & path, const RunInfo & info, bool must_exist = false);
    // Reads a folder; nothing can be appended.
    static Result<std::unique_ptr<RunFolder>> read(const std::string & path);

    bool has(const Answer & key) const;
    // Those not there yet, in one piece.
    Status append(const std::vector<Answer> & answers);
    // Until all of them are on the disk. Errors: kIo.
    Status sync();
    const RunInfo & info() const { return info_; }
    // REQUIRES: nobody appends.
    const std::vector<Answer> & answers() const { return answers_; }
    int n_before() const { return n_before_; }  // answers that were there when it was opened
    const std::string & path() const { return path_; }

    RunFolder(const RunFolder &) = delete;
    RunFolder & operator=(const RunFolder &) = delete;

private:
    explicit RunFolder(std::string path) : path_(std::move(path)) {}
    Status read_answers(bool cut_half_line);
    Status open_for_writing();

    std::string path_;
    RunInfo info_;
    std::optional<AppendedFile> file_;  // of a folder that is written
    int n_before_ = 0;
    mutable std::mutex mutex_;
    std::vector<Answer> answers_;
    std::unordered_set<std::string> keys_;
};

}  // namespace pith
