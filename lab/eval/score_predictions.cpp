// score_predictions.cpp - a line into a sample and what was said, samples into means. Stage: eval.
#include "eval/score_predictions.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "benchmarks/files/file_task.h"
#include "benchmarks/files/records.h"
#include "core/text.h"

namespace pith {
namespace {

using benchmarks::Record;
using benchmarks::Sample;
using benchmarks::Task;
using benchmarks::TaskRules;

// By what each benchmark calls it, the first that a line has. `response` before `pred`: LongBench v2 has the letter in the
// latter.
constexpr std::array<std::string_view, 4> kPrediction = {"response", "prediction", "pred", "output"};
constexpr std::array<std::string_view, 7> kReferences = {"ground_truth", "label",  "references", "answers",
                                                         "outputs",      "answer", "target"};
constexpr std::array<std::string_view, 4> kId = {"sample", "id", "_id", "index"};
constexpr std::array<std::string_view, 2> kTurn = {"turn", "turn_idx"};
constexpr std::array<std::string_view, 4> kFilePrefixes = {"preds_", "pred_", "predictions_", "prediction_"};

std::vector<const Task *> tasks_named(std::string_view name, std::string_view family) {
    std::vector<const Task *> found;
    for (const auto & task : benchmarks::all_tasks()) {
        const bool fits = task->rules().name == name || full_name(task->rules()) == name;
        if (fits && (family.empty() || task->rules().family == family)) { found.push_back(task.get()); }
    }
    return found;
}

// The longest name that is part of `word`, else the one spelt most like it; empty: none is near.
std::string nearest_task(std::string_view word) {
    const Task * best = nullptr;
    std::vector<std::string_view> names;
    for (const auto & task : benchmarks::all_tasks()) {
        const std::string & name = task->rules().name;
        names.push_back(name);
        if (word.find(name) == std::string_view::npos) { continue; }
        if (best == nullptr || name.size() > best->rules().name.size()) { best = task.get(); }
    }
    if (best != nullptr) { return full_name(best->rules()); }
    const auto found = tasks_named(nearest(word, names), "");
    return found.empty() ? "" : full_name(found.front()->rules());
}

std::string did_you_mean(std::string_view word) {
    const std::string near = nearest_task(word);
    return near.empty() ? "; `pith eval --list` shows them" : "; did you mean " + near + "?";
}

Status several(std::string_view name, const std::vector<const Task *> & found) {
    std::string list;
    for (const Task * task : found) { list += (list.empty() ? "" : ", ") + full_name(task->rules()); }
    return {ErrorCode::kInvalidArgument, "several tasks are named '" + std::string(name) + "': give --task and one of " + list};
}

// "results/gpt4/preds_kv_retrieval.jsonl" → "kv_retrieval".
std::string_view stem_of(std::string_view path) {
    path.remove_prefix(path.rfind('/') + 1);  // npos + 1: 0
    path = path.substr(0, path.rfind('.'));
    for (const std::string_view prefix : kFilePrefixes) {
        if (path.starts_with(prefix)) { return path.substr(prefix.size()); }
    }
    return path;
}

template <size_t n>
std::string_view field_of(const Record & record, const std::array<std::string_view, n> & names) {
    const auto * const at = std::find_if(names.begin(), names.end(), [&](std::string_view name) { return record.has(name); });
    return at == names.end() ? std::string_view() : *at;
}

template <size_t n>
std::string listed(const std::array<std::string_view, n> & names) {
    return join(names, ", ");
}

// Also where Pith's own answers keep what a metric reads.
bool has_metric_field(const Record & record, const std::string & name) {
    if (record.has(name)) { return true; }
    if (!record.holds_object("fields")) { return false; }
    const auto fields = record.object("fields");
    return fields.ok() && fields->has(name);
}

Result<std::string> metric_field(const Record & record, const std::string & name) {
    if (!record.has(name)) {
        PITH_ASSIGN_OR_RETURN(const Record fields, record.object("fields"));
        return fields.text(name);
    }
    PITH_ASSIGN_OR_RETURN(const std::vector<std::string> texts, record.texts(name));
    return join(texts, "\n");
}

// A line that a run of Pith wrote.
bool is_own(const Record & record) {
    return record.has("sample") && record.has("turn") && record.has("policy");
}

class Scorer {
public:
    Scorer(const PredictionFile & file, const ReadDataFile & data) : file_(file), data_(data) {}

    Result<std::vector<ScoredPredictions>> run() {
        PITH_RETURN_IF_ERROR(
            benchmarks::for_each_record(file_.text, file_.name, 0, [this](const Record & record) { return add(record); }));
        if (rows_.empty()) {
            return {ErrorCode::kBadFile, "'" + file_.name + "' holds no prediction" +
                                             (file_.task == nullptr ? "" : " of " + full_name(file_.task->rules()))};
        }
        std::vector<ScoredPredictions> out;
        for (auto & [key, row] : rows_) { out.push_back(finished(row)); }
        return out;
    }

private:
    using RowKey = std::tuple<std::string, int, bool, std::string, std::string>;
    struct Row {
        ScoredPredictions out;
        std::map<std::string, std::vector<double>> scores;  // sample → of its turns
        std::set<std::string> refused;
        std::map<std::pair<std::string, int64_t>, std::string> seen;  // sample, turn → where
    };
    using SamplesById = std::map<std::string, Sample>;

    Status add(const Record & record) {
        const bool own = is_own(record);
        int64_t turn = 0;
        if (const auto field = field_of(record, kTurn); !field.empty()) { PITH_ASSIGN_OR_RETURN(turn, record.integer(field)); }
        if (own && turn < 0) { return {}; }  // a sample that was left out
        PITH_ASSIGN_OR_RETURN(const Task * task, task_of(record, own));
        if (task == nullptr) { return {}; }
        std::string id = std::to_string(record.number());
        const std::string_view id_field = field_of(record, kId);
        if (!id_field.empty()) { PITH_ASSIGN_OR_RETURN(id, record.scalar(id_field)); }
        PITH_ASSIGN_OR_RETURN(Row * row, row_of(record, *task, own));
        const auto [first, is_new] = row->seen.emplace(std::pair{id, turn}, record.where());
        if (!is_new) {
            return record.bad(
                id_field, "is '" + id + "', as in " + first->second + ": a sample would count twice; delete one of the lines");
        }
        if (own && record.has("refused")) {
            row->refused.insert(id);
            return {};
        }
        const std::string_view field = field_of(record, kPrediction);
        if (field.empty()) {
            return {ErrorCode::kBadFile,
                    record.where() + ": holds no prediction: one of the fields " + listed(kPrediction) + " belongs there"};
        }
        PITH_ASSIGN_OR_RETURN(const std::string said, record.scalar(field));
        PITH_ASSIGN_OR_RETURN(const double score, score_of(record, *task, id, turn, said));
        row->scores[id].push_back(score);
        row->out.answers.push_back({id, turn, score});
        return {};
    }

    // nullptr: a line of another task than the one asked for.
    Result<const Task *> task_of(const Record & record, bool own) {
        std::vector<std::string> names;
        if (own) { PITH_ASSIGN_OR_RETURN(names.emplace_back(), record.text("task")); }
        for (const char * field : {"task", "dataset"}) {
            if (!own && record.has(field)) { PITH_ASSIGN_OR_RETURN(names.emplace_back(), record.scalar(field)); }
        }
        if (file_.task != nullptr) { return own && names.front() != file_.task->rules().name ? nullptr : file_.task; }
        const std::string stem(stem_of(file_.name));
        if (!own) { names.push_back(stem); }
        for (const std::string & name : names) {
            const auto found = tasks_named(name, file_.family);
            if (found.size() > 1) { return several(name, found); }
            if (!found.empty()) { return found.front(); }
        }
        const std::string & name = own ? names.front() : stem;
        return {ErrorCode::kInvalidArgument, "'" + file_.name + "' is of which task? None is named '" + name +
                                                 "': give --task FAMILY/NAME" + did_you_mean(name)};
    }

    Result<Row *> row_of(const Record & record, const Task & task, bool own) {
        ScoredPredictions out;
        out.file = file_.name;
        out.task = &task;
        if (own) {
            PITH_ASSIGN_OR_RETURN(const int64_t length, record.integer("length"));
            out.length = static_cast<int>(length);
            PITH_ASSIGN_OR_RETURN(out.policy, record.text("policy"));
            PITH_ASSIGN_OR_RETURN(out.budget, record.text("budget"));
        }
        const RowKey key{task.rules().name, out.length, out.policy != "full", out.policy, out.budget};
        const auto [at, is_new] = rows_.try_emplace(key);
        if (is_new) { at->second.out = std::move(out); }
        return &at->second;
    }

    Result<double> score_of(const Record & record, const Task & task, const std::string & id, int64_t turn,
                            std::string_view said) {
        const TaskRules & rules = task.rules();
        const std::string_view field = field_of(record, kReferences);
        const auto lacks = [&](const std::string & name) { return !has_metric_field(record, name); };
        const auto lacking = std::find_if(rules.fields.begin(), rules.fields.end(), lacks);
        if (rules.scores_choices || field.empty() || lacking != rules.fields.end()) {
            const std::string what = rules.scores_choices ? "the choices"
                                     : field.empty()      ? "references (" + listed(kReferences) + ")"
                                                          : "the field '" + *lacking + "'";
            PITH_ASSIGN_OR_RETURN(const Sample * sample, sample_of(record, task, id, what));
            const auto at = static_cast<size_t>(turn);
            if (turn < 0 || at >= sample->turns.size()) {
                return record.bad(field_of(record, kTurn), "is " + std::to_string(turn) + ", and the sample has " +
                                                               std::to_string(sample->turns.size()) + " turns, from 0");
            }
            return task.score(*sample, sample->turns[at], said);
        }
        Sample sample;
        sample.id = id;
        benchmarks::Turn asked;
        PITH_ASSIGN_OR_RETURN(asked.references, record.flat_scalars(field));
        PITH_RETURN_IF_ERROR(refuse_no_answers(record, field, asked.references));
        if (const Status fits = task.check_references(asked.references); !fits.ok()) {
            return record.bad(field, fits.message());
        }
        for (const std::string & name : rules.fields) {
            PITH_ASSIGN_OR_RETURN(sample.fields[name], metric_field(record, name));
        }
        sample.turns.push_back(std::move(asked));
        return task.score(sample, sample.turns[0], said);
    }

    // From the benchmark's own file.
    Result<const Sample *> sample_of(const Record & record, const Task & task, const std::string & id,
                                     const std::string & what) {
        const TaskRules & rules = task.rules();
        if (rules.file.empty()) {
            return {ErrorCode::kBadFile,
                    record.where() + ": lacks " + what + ", which " + full_name(task.rules()) +
                        "'s metric compares with, and its samples are generated: there is no data file to take them from"};
        }
        if (const auto known = samples_.find(&task); known == samples_.end()) {
            auto text = data_(rules.file);
            if (!text.ok()) {
                return {text.status().code(), record.where() + ": lacks " + what + ", which " + full_name(task.rules()) +
                                                  "'s metric needs: " + text.status().message()};
            }
            benchmarks::SampleRequest request;
            request.file = std::move(*text);
            PITH_ASSIGN_OR_RETURN(std::vector<Sample> samples, task.samples(request));
            SamplesById & by_id = samples_[&task];
            for (Sample & sample : samples) { by_id.emplace(sample.id, std::move(sample)); }
        }
        const SamplesById & by_id = samples_.at(&task);
        const auto at = by_id.find(id);
        if (at == by_id.end()) {
            return {ErrorCode::kBadFile, record.where() + ": '" + rules.file + "' has no sample '" + id +
                                             "': are the predictions of another version of the data?"};
        }
        return &at->second;
    }

    static ScoredPredictions finished(const Row & row) {
        ScoredPredictions out = row.out;
        std::vector<double> means;
        for (const auto & [id, scores] : row.scores) {
            double sum = 0;
            for (const double score : scores) { sum += score; }
            means.push_back(sum / static_cast<double>(scores.size()));
        }
        out.n_samples = static_cast<int>(means.size());
        out.n_refused = static_cast<int>(row.refused.size());
        if (means.empty()) { return out; }
        out.score.emplace();
        for (const double mean : means) { out.score->mean += mean / static_cast<double>(means.size()); }
        out.score->interval = score_interval(means);
        return out;
    }

    const PredictionFile & file_;
    const ReadDataFile & data_;
    std::map<RowKey, Row> rows_;
    std::map<const Task *, SamplesById> samples_;
};

}  // namespace

Result<const Task *> task_by_name(std::string_view name, std::string_view family) {
    const auto found = tasks_named(name, family);
    if (found.size() > 1) { return several(name, found); }
    if (!found.empty()) { return found.front(); }
    const std::string_view last = name.substr(name.rfind('/') + 1);
    return {ErrorCode::kInvalidArgument, "there is no task '" + std::string(name) + "'" + did_you_mean(last)};
}

Result<std::vector<ScoredPredictions>> score_predictions(const PredictionFile & file, const ReadDataFile & data) {
    return Scorer(file, data).run();
}

}  // namespace pith
