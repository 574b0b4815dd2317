// file_task.h - a task whose samples come from a benchmark's data file: what all of them share. Stage: benchmarks.
// Pure C++.
//
// samples() reads the first n_samples records in the file's order, makes a sample of each, gives it its id and checks that no
// id comes twice. A task that must not cut (TooLong::kRefuse) refuses a sample longer than the limit, by name; others are cut
// by whoever runs them.
// Errors:   those of records.h; kBadFile: an id used twice; kInvalidArgument: a sample too long for n_tokens.
// Threads:  const-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "benchmarks/benchmark.h"
#include "benchmarks/files/records.h"

namespace pith::benchmarks {

struct FileTask {
    TaskRules rules;
    std::string id_field;                                  // empty: the record's number in the file
    std::function<Result<Sample>(const Record &)> sample;  // without its id
    std::function<double(const Sample &, const Turn &, std::string_view prediction)> score;
    std::function<Status(const std::vector<std::string> & references)> check_references;  // empty: all will do
};

std::unique_ptr<Task> make_file_task(FileTask task);

// "Question: {input}\n" with each {name} that has a value replaced by it; what a value holds is not looked at again.
std::string fill(std::string_view tmpl, const std::vector<std::pair<std::string_view, std::string_view>> & values);

// For Task::check_references: kBadFile, "holds 'x' where `wanted` belongs".
Status refuse_reference(const std::string & reference, std::string_view wanted);
// The text of the right option and its letter, A … D.
Status check_choice_label(const std::vector<std::string> & references);

// An error for a list of answers that is empty or holds nothing but empty texts: no model can be right about it, or all are.
Status refuse_no_answers(const Record & record, std::string_view field, const std::vector<std::string> & answers);

}  // namespace pith::benchmarks
