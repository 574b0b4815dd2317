// scbench_tasks.cpp - SCBench's multi-turn tasks: several questions, one after another, on one context. Stage: benchmarks.
// Pure C++.
//
// File:     scbench_<task>.jsonl as SCBench publishes it: id, context (or input), multi_turns[] of input, answer, options[].
// Prompt:   turn 1 is context + question + answer_prefix; a later turn is the turn before's follow_up (its gold answer),
//           question and prefix. A question begins with the blank line that parts it from what is before, so that each turn
//           follows the context alone, too (SCBench's same context, different query).
// Rules:    what the model generated leaves the cache before the gold answer goes in. The first prompt, longer than the limit,
//           keeps its first and last half. Scores are reported for each turn.
// Differs:  a sample without answers, or with empty ones only, is refused. In chat mode the original puts the last turn's
//           "What is …?" before every later question of mf; here each has its own. The follow-up of choice_eng is the one of
//           its chat mode (its plain mode words later turns otherwise).
// Source:   SCBench (MInference), scbench/eval_utils.py, scbench/compute_scores.py.
#include "benchmarks/families.h"
#include "benchmarks/files/choice_label.h"
#include "benchmarks/files/file_task.h"
#include "benchmarks/metrics/infinitebench_scores.h"
#include "benchmarks/metrics/unicode.h"

namespace pith::benchmarks {
namespace {

using Score = double (*)(const Turn &, std::string_view);

double contains_answer(const Turn & turn, std::string_view said) {
    return said.find(turn.references[0]) != std::string_view::npos ? 1 : 0;
}

struct Row {
    std::string_view name;
    int max_new_tokens;
    std::string_view metric;
    Score score;
    std::string_view context, question, answer_prefix;
};

constexpr std::string_view kNumbers = "scbench_mf";
constexpr std::string_view kChoice = "scbench_choice_eng";

constexpr Row kRows[] = {
    {"scbench_kv", 150, "contains the value", contains_answer,
     "Extract the value corresponding to the specified key in the JSON object below.\n\n{context}", "\n\n{input}", ""},
    {"scbench_prefix_suffix", 150, "contains the value", contains_answer, "{context}", "\n\n{input}", ""},
    {kNumbers, 5, "first number",
     [](const Turn & turn, std::string_view said) {
         return double(first_number_is(said, turn.references[0], NumberRule::kTruncated));
     },
     "What is {target}?\n\n{context}", "\n\n{input}", ""},
    {"scbench_qa_eng", 40, "contains the answer",
     [](const Turn & turn, std::string_view said) { return double(contains_any_case(said, turn.references)); },
     "Read the book and answer the question. Be very concise in your answer.\n\n{context}", "\n\nQuestion: {input}\n",
     "Answer:"},
    {kChoice, 40, "accuracy", [](const Turn & turn, std::string_view said) { return double(chooses(said, turn.references)); },
     "Read the book and answer the question.\n\n{context}", "\n\nQuestion: {input}\nA. {A}\nB. {B}\nC. {C}\nD. {D}\n\n",
     "The the correct answer is"},
};

// "The largest number of the list is:" → "the largest number of the list": from the first "The " to its line's last " is".
Result<std::string> find_target(const Record & turn, const std::string & input) {
    for (size_t at = input.find("The "); at != std::string::npos; at = input.find("The ", at + 1)) {
        const std::string_view line = std::string_view(input).substr(at, input.find('\n', at) - at);
        const size_t end = line.rfind(" is");
        if (end != std::string_view::npos && end > 4) { return lower(line.substr(0, end)); }
    }
    return turn.bad("input", "does not say what to find (\"The … of the list is\")");
}

// The turn, and what the first turn's context wants to know of it.
Status read_turn(const Row & row, const Record & record, Turn & turn, std::string & target) {
    PITH_ASSIGN_OR_RETURN(const std::string input, record.text("input"));
    Choice choice{{"", "", "", ""}, {}};
    if (row.name == kChoice) {
        PITH_ASSIGN_OR_RETURN(choice, read_choice(record));
    } else {
        PITH_ASSIGN_OR_RETURN(choice.label, record.scalars("answer"));
        PITH_RETURN_IF_ERROR(refuse_no_answers(record, "answer", choice.label));
    }
    if (row.name == kNumbers) { PITH_ASSIGN_OR_RETURN(target, find_target(record, input)); }
    turn.question = fill(row.question, {{"input", input},
                                        {"A", choice.options[0]},
                                        {"B", choice.options[1]},
                                        {"C", choice.options[2]},
                                        {"D", choice.options[3]}});
    turn.answer_prefix = row.answer_prefix;
    turn.references = choice.label;
    turn.max_new_tokens = row.max_new_tokens;
    turn.follow_up = choice.label[0];
    return {};
}

Result<Sample> make_sample(const Row & row, const Record & record) {
    Sample sample;
    PITH_ASSIGN_OR_RETURN(const std::string context,
                          record.text(!record.has("context") && record.has("input") ? "input" : "context"));
    PITH_ASSIGN_OR_RETURN(const std::vector<Record> turns, record.objects("multi_turns"));
    for (const Record & part : turns) {
        Turn turn;
        std::string target;
        PITH_RETURN_IF_ERROR(read_turn(row, part, turn, target));
        if (sample.turns.empty()) {
            sample.context = fill(row.context, {{"context", context}, {"target", target}});
        } else if (row.name == kNumbers) {
            turn.question = "\n\nWhat is " + target + "?" + turn.question;
        }
        sample.turns.push_back(std::move(turn));
    }
    return sample;
}

}  // namespace

Tasks scbench_tasks() {
    Tasks tasks;
    for (const Row & row : kRows) {
        FileTask task;
        task.rules.name = row.name;
        task.rules.family = "scbench";
        task.rules.file = task.rules.name + ".jsonl";
        task.rules.help = "SCBench's " + task.rules.file + ": id, context, multi_turns[] of input, answer" +
                          (row.name == kChoice ? ", options[]" : "");
        task.rules.too_long = TooLong::kMiddle;
        task.rules.metric = row.metric;
        task.rules.group_by = {"turn"};
        task.id_field = "id";
        task.sample = [&row](const Record & record) { return make_sample(row, record); };
        task.score = [&row](const Sample & /*sample*/, const Turn & turn, std::string_view said) {
            return row.score(turn, said);
        };
        if (row.name == kChoice) { task.check_references = check_choice_label; }
        tasks.push_back(make_file_task(std::move(task)));
    }
    return tasks;
}

}  // namespace pith::benchmarks
