// longbench_v2_tasks.cpp - LongBench v2: multiple choice over long documents, answered in words. Stage: benchmarks.
// Pure C++.
//
// File:     data.json as LongBench v2 publishes it (a list; JSON Lines are read too): _id, domain, sub_domain, difficulty,
//           length, question, choice_A … choice_D, answer, context.
// Prompt:   the zero-shot template without chain of thought; document, question and choices stripped of white space at both
//           ends.
// Rules:    a longer prompt keeps its first and last half of the limit; 128 new tokens. Right: the letter after "The correct
//           answer is".
// Groups:   difficulty, length, domain.
// Differs:  decoding is greedy (the original samples at temperature 0.1); an empty answer is wrong (the original leaves the
//           sample out).
// Source:   LongBench v2, pred.py, result.py, prompts/0shot.txt.
#include "benchmarks/families.h"
#include "benchmarks/files/file_task.h"
#include "benchmarks/metrics/longbench_scores.h"
#include "benchmarks/metrics/unicode.h"

namespace pith::benchmarks {
namespace {

constexpr std::string_view kContext =
    "Please read the following text and answer the question below.\n\n<text>\n{context}\n</text>\n\n";
constexpr std::string_view kQuestion =
    "What is the correct answer to this question: {question}\nChoices:\n(A) {A}\n(B) {B}\n(C) {C}\n(D) {D}\n\n"
    "Format your response as follows: \"The correct answer is (insert answer here)\".";

Status check_letter(const std::vector<std::string> & references) {
    const std::string & answer = references[0];
    const bool fits = answer.size() == 1 && answer[0] >= 'A' && answer[0] <= 'D';
    return fits ? Status() : refuse_reference(answer, "A, B, C or D");
}

Result<Sample> make_sample(const Record & record) {
    Sample sample;
    PITH_ASSIGN_OR_RETURN(const std::string context, record.text("context"));
    PITH_ASSIGN_OR_RETURN(const std::string question, record.text("question"));
    PITH_ASSIGN_OR_RETURN(const std::string a, record.text("choice_A"));
    PITH_ASSIGN_OR_RETURN(const std::string b, record.text("choice_B"));
    PITH_ASSIGN_OR_RETURN(const std::string c, record.text("choice_C"));
    PITH_ASSIGN_OR_RETURN(const std::string d, record.text("choice_D"));
    PITH_ASSIGN_OR_RETURN(const std::string answer, record.text("answer"));
    if (const Status fits = check_letter({answer}); !fits.ok()) { return record.bad("answer", fits.message()); }
    for (const char * group : {"difficulty", "length", "domain"}) {
        PITH_ASSIGN_OR_RETURN(sample.groups[group], record.text(group));
    }
    sample.context = fill(kContext, {{"context", strip(context)}});
    Turn turn;
    turn.question =
        fill(kQuestion, {{"question", strip(question)}, {"A", strip(a)}, {"B", strip(b)}, {"C", strip(c)}, {"D", strip(d)}});
    turn.references = {answer};
    turn.max_new_tokens = 128;
    sample.turns.push_back(std::move(turn));
    return sample;
}

}  // namespace

Tasks longbench_v2_tasks() {
    FileTask task;
    task.rules.name = "longbench_v2";
    task.rules.family = "longbench-v2";
    task.rules.file = "data.json";
    task.rules.help =
        "LongBench v2's data.json: context, question, choice_A … choice_D, answer, difficulty, length, domain, _id";
    task.rules.too_long = TooLong::kMiddle;
    task.rules.metric = "accuracy";
    task.rules.group_by = {"difficulty", "length", "domain"};
    task.id_field = "_id";
    task.sample = make_sample;
    task.score = [](const Sample & /*sample*/, const Turn & turn, std::string_view prediction) {
        return correct_letter(prediction) == turn.references[0][0] ? 1.0 : 0.0;
    };
    task.check_references = check_letter;
    Tasks tasks;
    tasks.push_back(make_file_task(std::move(task)));
    return tasks;
}

}  // namespace pith::benchmarks
