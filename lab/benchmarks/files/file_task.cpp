// file_task.cpp - see file_task.h.
#include "benchmarks/files/file_task.h"

#include <algorithm>
#include <map>

namespace pith::benchmarks {
namespace {

// Tokens of the longest turn's prompt and what is generated after it. The tasks that do not cut have one turn.
int longest(const Sample & sample, const CountTokens & count) {
    int most = 0;
    for (const Turn & turn : sample.turns) {
        int n_new = turn.max_new_tokens;
        for (const std::string & choice : turn.choices) { n_new = std::max(n_new, count(choice)); }
        most = std::max(most, count(sample.context + turn.question + turn.answer_prefix) + n_new);
    }
    return most;
}

class TaskFromFile final : public Task {
public:
    explicit TaskFromFile(FileTask task) : task_(std::move(task)) {}

    const TaskRules & rules() const override { return task_.rules; }

    Result<std::vector<Sample>> samples(const SampleRequest & request) const override {
        std::vector<Sample> samples;
        std::map<std::string, std::string> seen;  // id → where
        const auto use = [&](const Record & record) -> Status {
            PITH_ASSIGN_OR_RETURN(Sample sample, task_.sample(record));
            sample.id = std::to_string(record.number());
            if (!task_.id_field.empty()) { PITH_ASSIGN_OR_RETURN(sample.id, record.scalar(task_.id_field)); }
            const auto [first, is_new] = seen.emplace(sample.id, record.where());
            if (!is_new) {
                return record.bad(task_.id_field, "is '" + sample.id + "', as in " + first->second +
                                                      ": a sample would count twice; delete one");
            }
            PITH_RETURN_IF_ERROR(check_length(sample, record, request));
            samples.push_back(std::move(sample));
            return {};
        };
        PITH_RETURN_IF_ERROR(for_each_record(request.file, request.path_or(task_.rules.file), request.n_samples, use));
        return samples;
    }

    double score(const Sample & sample, const Turn & turn, std::string_view prediction) const override {
        return task_.score(sample, turn, prediction);
    }

    Status check_references(const std::vector<std::string> & references) const override {
        return task_.check_references ? task_.check_references(references) : Status();
    }

private:
    Status check_length(const Sample & sample, const Record & record, const SampleRequest & request) const {
        if (request.n_tokens == 0 || task_.rules.too_long != TooLong::kRefuse) { return {}; }
        const int n = longest(sample, request.count);
        if (n <= request.n_tokens) { return {}; }
        return {ErrorCode::kBudget, record.where() + ": " + task_.rules.name + " takes " + std::to_string(n) +
                                        " tokens with its answer, its protocol does not cut, and " +
                                        std::to_string(request.n_tokens) + " are left to it"};
    }

    FileTask task_;
};

}  // namespace

std::unique_ptr<Task> make_file_task(FileTask task) {
    return std::make_unique<TaskFromFile>(std::move(task));
}

std::string fill(std::string_view tmpl, const std::vector<std::pair<std::string_view, std::string_view>> & values) {
    std::string out;
    while (!tmpl.empty()) {
        const auto * const value = [&]() -> const std::pair<std::string_view, std::string_view> * {
            if (tmpl[0] != '{') { return nullptr; }
            for (const auto & candidate : values) {
                if (tmpl.substr(1).starts_with(std::string(candidate.first) + "}")) { return &candidate; }
            }
            return nullptr;
        }();
        if (value == nullptr) {
            out += tmpl[0];
            tmpl.remove_prefix(1);
            continue;
        }
        out += value->second;
        tmpl.remove_prefix(value->first.size() + 2);
    }
    return out;
}

Status refuse_reference(const std::string & reference, std::string_view wanted) {
    return {ErrorCode::kBadFile, "holds '" + reference + "' where " + std::string(wanted) + " belongs"};
}

Status check_choice_label(const std::vector<std::string> & references) {
    const std::string & letter = references.back();
    const bool fits = references.size() == 2 && letter.size() == 1 && letter[0] >= 'A' && letter[0] <= 'D';
    return fits ? Status() : refuse_reference(letter, "the right option's text, then its letter (A … D)");
}

Status refuse_no_answers(const Record & record, std::string_view field, const std::vector<std::string> & answers) {
    const auto says_something = [](const std::string & answer) { return !answer.empty(); };
    if (std::any_of(answers.begin(), answers.end(), says_something)) { return {}; }
    return record.bad(field, "holds no answer: such a sample cannot be scored; delete it");
}

}  // namespace pith::benchmarks
