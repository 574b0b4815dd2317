// infinitebench_tasks.cpp - the twelve tasks of InfiniteBench. Stage: benchmarks.
// Pure C++.
//
// File:     <task>.jsonl as InfiniteBench publishes it: id, context (or content), input, answer (a text, a number, or a list),
//           options[].
// Prompt:   the templates for open models ("yarn-mistral" in the benchmark's prompt.py), which end in the beginning of the
//           answer; open models get them without a chat template.
// Rules:    a longer prompt keeps its first and last half of the limit (the benchmark's is 128 × 1024 tokens).
// Differs:  a sample without answers, or with empty ones only, is refused; a number with a fraction where math_find wants a
//           whole one is wrong (stops the original); math_calc is scored by the rule for every model but GPT-4.
// Source:   InfiniteBench, src/prompt.py, src/eval_utils.py, src/compute_scores.py.
#include <algorithm>
#include <charconv>
#include <regex>

#include "benchmarks/families.h"
#include "benchmarks/files/choice_label.h"
#include "benchmarks/files/file_task.h"
#include "benchmarks/metrics/answer_f1.h"
#include "benchmarks/metrics/infinitebench_scores.h"
#include "benchmarks/metrics/rouge.h"
#include "benchmarks/metrics/unicode.h"

namespace pith::benchmarks {
namespace {

using Score = double (*)(const Turn &, std::string_view);

double best_rouge_lsum(std::string_view prediction, const std::vector<std::string> & references) {
    double best = 0;
    for (const std::string & reference : references) { best = std::max(best, rouge_lsum(prediction, reference)); }
    return best;
}

struct Row {
    std::string_view name;
    int max_new_tokens;
    bool has_options;
    std::string_view metric;
    Score score;
    std::string_view context, question, answer_prefix;
};

constexpr Row kRows[] = {
    {"passkey", 6, false, "first number",
     [](const Turn & turn, std::string_view said) { return double(first_digits_are(said, turn.references[0])); },
     "There is an important info hidden inside a lot of irrelevant text. Find it and memorize it. I will quiz you about the "
     "important "
     "information.\n\n{context}\n\n",
     "{input}\n\n", "The pass key is"},
    {"number_string", 12, false, "first number",
     [](const Turn & turn, std::string_view said) { return double(first_digits_are(said, turn.references[0])); },
     "There is an important info hidden inside a lot of irrelevant text. Find it. I will quiz you about the important "
     "information "
     "there.\n\n{context}\n\n",
     "{input}\n\n", "The sequence of digits is"},
    {"kv_retrieval", 50, false, "value is a word",
     [](const Turn & turn, std::string_view said) { return double(says_word(said, turn.references[0])); },
     "Extract the value corresponding to the specified key in the JSON object below.\n\n{context}\n\n", "{input}", ""},
    {"longbook_sum_eng", 1200, false, "Rouge-Lsum",
     [](const Turn & turn, std::string_view said) { return best_rouge_lsum(said, turn.references); },
     "Summarize the book below.\n\n{context}\n\n", "", "Summary:"},
    {"longbook_choice_eng", 40, true, "accuracy",
     [](const Turn & turn, std::string_view said) { return double(chooses(said, turn.references)); },
     "Read the book and answer the question.\n\n{context}\n\n", "Question: {input}\nA. {A}\nB. {B}\nC. {C}\nD. {D}\n\n",
     "The letter of the correct answer is"},
    {"longbook_qa_eng", 40, false, "F1",
     [](const Turn & turn, std::string_view said) { return best_answer_f1(said, turn.references); },
     "Read the book and answer the question. Be very concise in your answer.\n\n{context}\n\n", "Question: {input}\n",
     "Answer:"},
    {"longbook_qa_chn", 40, false, "F1 of characters",
     [](const Turn & turn, std::string_view said) { return best_character_f1(said, turn.references); },
     "阅读以下书籍然后回答问题。\n\n{context}\n\n", "问题：{input}\n", "答案："},
    {"longdialogue_qa_eng", 40, false, "name is a word",
     [](const Turn & turn, std::string_view said) { return double(says_name(said, turn.references[0])); },
     "Below is a dialogue script where one random occurrence of a character name is replaced with \"$$MASK$$\", and you should "
     "try to guess "
     "who that character is.\n\n{context}\n\n",
     "", "The name that has been replaced with $$MASK$$ is likely"},
    {"math_find", 3, false, "first number",
     [](const Turn & turn, std::string_view said) {
         return double(first_number_is(said, turn.references[0], NumberRule::kWhole));
     },
     "What is {target} in the following list?\n\n{context}\n\n", "{input}", ""},
    {"code_debug", 5, true, "accuracy",
     [](const Turn & turn, std::string_view said) { return double(names_function(said, turn.references)); },
     "Following is a Python code where exactly one of the functions/methods has a deliberate error that makes it "
     "crash.\n\n{context}\n\n",
     "Options:\nA. {A}\nB. {B}\nC. {C}\nD. {D}\n\n", "The correct option is:"},
    {"code_run", 5, false, "last word",
     [](const Turn & turn, std::string_view said) { return double(last_word_is_number(said, turn.references[0])); },
     "There is a function called {func} in the following Python code.\n\n{context}\n\n",
     "Please compute the exact value of {func_call}. ", "The value of {func_call} is"},
    {"math_calc", 30000, false, "share of leading numbers",
     [](const Turn & turn, std::string_view said) { return leading_numbers_share(said, turn.references); },
     "Let us calculate the intermediate values of an expression.\n\nExpression: 1 + 3 + 4\nValues: [1, 4, 8]\n\nExpression: "
     "8 - 3 + 2 - 4\nValues: [8, 5, 7, 3]\n\nExpression: {context}\n",
     "", "Values:"},
};

// "… The largest number of the list is" → "the largest number": from the first "The " to its line's last " of".
Result<std::string> find_target(const Record & record, const std::string & input) {
    for (size_t at = input.find("The "); at != std::string::npos; at = input.find("The ", at + 1)) {
        const std::string_view line = std::string_view(input).substr(at, input.find('\n', at) - at);
        const size_t end = line.rfind(" of");
        if (end != std::string_view::npos && end > 4) { return lower(line.substr(0, end)); }
    }
    return record.bad("input", "does not say what to find (\"The … of the list\")");
}

// The first "func_12(-3)" in what code_run asks.
Result<std::string> find_call(const Record & record, const std::string & input) {
    static const std::regex kCall("func_[0-9]+\\(-?[0-9]+\\)");
    std::smatch match;
    if (std::regex_search(input, match, kCall)) { return match.str(); }
    return record.bad("input", "does not say what to call (\"func_12(3)\")");
}

Status check_references(const Row & row, const std::vector<std::string> & references) {
    if (row.has_options) { return check_choice_label(references); }
    if (row.name != "math_find" && row.name != "math_calc" && row.name != "code_run") { return {}; }
    for (const std::string & reference : references) {
        double value = 0;
        const char * const end = reference.data() + reference.size();
        if (std::from_chars(reference.data(), end, value).ptr != end || reference.empty()) {
            return refuse_reference(reference, "a number");
        }
    }
    return {};
}

Result<Sample> make_sample(const Row & row, const Record & record) {
    Sample sample;
    PITH_ASSIGN_OR_RETURN(const std::string context, record.text(record.has("content") ? "content" : "context"));
    std::string input;
    const bool calls = row.name == "code_run";
    const bool asks = calls || row.question.find("{input}") != std::string_view::npos;
    if (asks) { PITH_ASSIGN_OR_RETURN(input, record.text("input")); }
    Choice choice{{"", "", "", ""}, {}};
    if (row.has_options) {
        PITH_ASSIGN_OR_RETURN(choice, read_choice(record));
    } else {
        PITH_ASSIGN_OR_RETURN(choice.label, record.flat_scalars("answer"));
    }
    PITH_RETURN_IF_ERROR(refuse_no_answers(record, "answer", choice.label));
    std::string target;
    if (row.name == "math_find") { PITH_ASSIGN_OR_RETURN(target, find_target(record, input)); }
    std::string call;
    if (calls) { PITH_ASSIGN_OR_RETURN(call, find_call(record, input)); }
    const std::string function = call.substr(0, call.find('('));
    sample.context = fill(row.context, {{"context", context}, {"target", target}, {"func", function}});
    Turn turn;
    turn.question = fill(row.question, {{"input", input},
                                        {"func_call", call},
                                        {"A", choice.options[0]},
                                        {"B", choice.options[1]},
                                        {"C", choice.options[2]},
                                        {"D", choice.options[3]}});
    turn.answer_prefix = fill(row.answer_prefix, {{"func_call", call}});
    turn.references = choice.label;
    turn.max_new_tokens = row.max_new_tokens;
    sample.turns.push_back(std::move(turn));
    return sample;
}

}  // namespace

Tasks infinitebench_tasks() {
    Tasks tasks;
    for (const Row & row : kRows) {
        FileTask task;
        task.rules.name = row.name;
        task.rules.family = "infinitebench";
        task.rules.file = task.rules.name + ".jsonl";
        task.rules.help =
            "InfiniteBench's " + task.rules.file + ": id, context, input, answer" + (row.has_options ? ", options[]" : "");
        task.rules.chat = false;
        task.rules.too_long = TooLong::kMiddle;
        task.rules.metric = row.metric;
        task.rules.aside = row.name == "math_calc";  // 30,000 new tokens a sample
        task.id_field = "id";
        task.sample = [&row](const Record & record) { return make_sample(row, record); };
        task.score = [&row](const Sample & /*sample*/, const Turn & turn, std::string_view said) {
            return row.score(turn, said);
        };
        task.check_references = [&row](const std::vector<std::string> & references) {
            return check_references(row, references);
        };
        tasks.push_back(make_file_task(std::move(task)));
    }
    return tasks;
}

}  // namespace pith::benchmarks
