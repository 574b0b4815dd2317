// sample_file.cpp - finds out what a file is, and reads it. Stage: eval.
#include "eval/sample_file.h"

#include <algorithm>
#include <utility>

#include "benchmarks/files/documents.h"
#include "benchmarks/files/records.h"
#include "eval/sample_length.h"
#include "eval/score_predictions.h"

namespace pith {
namespace {

using benchmarks::Record;
using benchmarks::Sample;
using benchmarks::Task;
using benchmarks::Turn;

enum class Form { kOwn, kDocuments, kOther };

Result<Form> form_of(const SampleFileRequest & request) {
    Form form = Form::kOther;
    PITH_RETURN_IF_ERROR(benchmarks::for_each_record(request.text, request.name, 1, [&](const Record & record) -> Status {
        form = record.has("turns") && record.has("context")  ? Form::kOwn
               : record.has("chapter") || record.has("text") ? Form::kDocuments
                                                             : Form::kOther;
        return {};
    }));
    return form;
}

Result<Turn> read_turn(const Record & record) {
    Turn turn;
    PITH_ASSIGN_OR_RETURN(turn.question, record.text("question"));
    PITH_ASSIGN_OR_RETURN(turn.answer_prefix, record.text("answer_prefix"));
    PITH_ASSIGN_OR_RETURN(turn.references, record.texts("references"));
    PITH_ASSIGN_OR_RETURN(const int64_t n_new, record.integer("max_new_tokens"));
    turn.max_new_tokens = static_cast<int>(n_new);
    if (record.has("choices")) { PITH_ASSIGN_OR_RETURN(turn.choices, record.texts("choices")); }
    if (record.has("follow_up")) { PITH_ASSIGN_OR_RETURN(turn.follow_up, record.text("follow_up")); }
    return turn;
}

Result<std::vector<FileSample>> read_own(const SampleFileRequest & request) {
    if (!request.task.empty()) {
        return {ErrorCode::kInvalidArgument,
                "the lines of '" + request.name + "' name their task themselves: leave out --task"};
    }
    std::vector<FileSample> samples;
    const auto use = [&](const Record & record) -> Status {
        FileSample one;
        PITH_ASSIGN_OR_RETURN(one.family, record.text("family"));
        PITH_ASSIGN_OR_RETURN(one.name, record.text("task"));
        one.task = benchmarks::find_task(one.family, one.name);
        if (record.has("length")) {
            PITH_ASSIGN_OR_RETURN(const int64_t length, record.integer("length"));
            one.length = static_cast<int>(length);
        }
        PITH_ASSIGN_OR_RETURN(one.sample.id, record.scalar("id"));
        PITH_ASSIGN_OR_RETURN(one.sample.context, record.text("context"));
        PITH_ASSIGN_OR_RETURN(const std::vector<Record> turns, record.objects("turns"));
        for (const Record & turn : turns) {
            PITH_ASSIGN_OR_RETURN(Turn read, read_turn(turn));
            one.sample.turns.push_back(std::move(read));
        }
        if (record.has("groups")) { PITH_ASSIGN_OR_RETURN(one.sample.groups, record.members("groups")); }
        if (record.has("fields")) { PITH_ASSIGN_OR_RETURN(one.sample.fields, record.members("fields")); }
        if (one.sample.turns.empty()) { return record.bad("turns", "is an empty list: nothing is asked"); }
        samples.push_back(std::move(one));
        return {};
    };
    PITH_RETURN_IF_ERROR(benchmarks::for_each_record(request.text, request.name, request.n_samples, use));
    return samples;
}

Result<std::vector<FileSample>> read_texts(const SampleFileRequest & request) {
    PITH_ASSIGN_OR_RETURN(std::vector<std::string> texts, benchmarks::read_documents(request.text, request.name));
    if (request.n_samples > 0 && texts.size() > static_cast<size_t>(request.n_samples)) {
        texts.resize(static_cast<size_t>(request.n_samples));
    }
    std::vector<FileSample> samples;
    for (std::string & text : texts) {
        FileSample one;
        one.sample.id = "text " + std::to_string(samples.size() + 1);
        one.sample.context = std::move(text);
        one.sample.turns.emplace_back();
        samples.push_back(std::move(one));
    }
    return samples;
}

// The path ends with this file: with its folder too, where it has one.
bool is_named(std::string_view path, std::string_view file) {
    if (file.empty() || !path.ends_with(file)) { return false; }
    return path.size() == file.size() || path[path.size() - file.size() - 1] == '/';
}

Result<const Task *> task_of_file(const SampleFileRequest & request) {
    if (!request.task.empty()) { return task_by_name(request.task); }
    std::vector<const Task *> found;
    for (const auto & task : benchmarks::all_tasks()) {
        if (is_named(request.name, task->rules().file) || is_named(request.name, task->rules().ready)) {
            found.push_back(task.get());
        }
    }
    if (found.size() == 1) { return found.front(); }
    if (found.empty()) {
        return {ErrorCode::kInvalidArgument, "'" + request.name +
                                                 "' is not named as a benchmark's file: say with --task FAMILY/NAME which "
                                                 "task it is of (`pith eval --list` shows them)"};
    }
    std::string list;
    for (const Task * task : found) { list += (list.empty() ? "" : ", ") + full_name(task->rules()); }
    return {ErrorCode::kInvalidArgument, "several tasks read '" + request.name + "': give --task and one of " + list};
}

Result<std::vector<FileSample>> read_task(const SampleFileRequest & request, const Task & task) {
    const benchmarks::TaskRules & rules = task.rules();
    const bool has_file = !request.name.empty();
    if (!has_file && !rules.file.empty()) {
        return {ErrorCode::kInvalidArgument,
                "the samples of " + full_name(rules) + " are read from a file: give --data FILE ('" + rules.file + "')"};
    }
    if (has_file && rules.file.empty() && rules.ready.empty()) {
        return {ErrorCode::kInvalidArgument, "the samples of " + full_name(rules) + " are generated: leave out --data"};
    }
    benchmarks::SampleRequest wanted;
    wanted.n_samples = request.n_samples > 0 || has_file ? request.n_samples : 1;
    wanted.seed = request.seed;
    wanted.count = request.count;
    const bool ready = has_file && !rules.ready.empty() && (rules.file.empty() || is_named(request.name, rules.ready));
    (ready ? wanted.ready : wanted.file) = request.text;
    wanted.path = request.name;
    const bool makes_length = !ready && makes_its_length(rules);
    if (makes_length && request.n_tokens <= 0) {
        return {ErrorCode::kInvalidArgument, "the samples of " + full_name(rules) +
                                                 " are made to a length: write them with `pith eval " + rules.family +
                                                 " --write-samples`, and read those"};
    }
    if (makes_length) {
        wanted.n_tokens = request.n_tokens;
        wanted.n_overhead = request.n_overhead;
    }
    PITH_ASSIGN_OR_RETURN(std::vector<Sample> made, task.samples(wanted));
    if (wanted.n_samples > 0 && made.size() > static_cast<size_t>(wanted.n_samples)) {
        made.resize(static_cast<size_t>(wanted.n_samples));
    }
    std::vector<FileSample> samples;
    for (Sample & sample : made) {
        samples.emplace_back().sample = std::move(sample);
        samples.back().task = &task;
    }
    return samples;
}

}  // namespace

Result<std::vector<FileSample>> read_samples(const SampleFileRequest & request) {
    if (!request.name.empty()) {
        PITH_ASSIGN_OR_RETURN(const Form form, form_of(request));
        if (form == Form::kOwn) { return read_own(request); }
        if (form == Form::kDocuments && request.task.empty()) { return read_texts(request); }
    }
    PITH_ASSIGN_OR_RETURN(const Task * task, task_of_file(request));
    return read_task(request, *task);
}

}  // namespace pith
