// multiple_choice_tasks.cpp - short multiple-choice tasks, answered by the likelier continuation. Stage: benchmarks.
// Pure C++.
//
// File:     <task>.jsonl, one question a line, with the fields of the data set's export (docs/evaluate-data.md lists them);
//           arc and openbookqa are also read in AI2's own form (question.stem, question.choices[]), boolq and rte with the
//           words that their own files have for labels.
// Prompt:   lm-evaluation-harness's, without examples. A choice's continuation is a space and its text.
// Score:    the prediction is the continuation of the choice taken (Turn::choices); 1 when it is the right one.
//           metrics/multiple_choice.h says which is taken, for acc and for acc_norm. Of two equal texts the first is taken, as
//           the first maximum is.
// Source:   lm-evaluation-harness, lm_eval/tasks/{piqa,arc,openbookqa,hellaswag,super_glue}.
#include <algorithm>

#include "benchmarks/families.h"
#include "benchmarks/files/file_task.h"
#include "benchmarks/metrics/unicode.h"

namespace pith::benchmarks {
namespace {

// A prompt with its choices, still without the space before each.
struct Question {
    std::string context, question, answer_prefix;
    std::vector<std::string> choices;
    int64_t right = 0;
};

using Read = Status (*)(const Record &, Question &);

// The label as a place in the choices: 0, "0", or one of `names` (true/false, "entailment").
Result<int64_t> read_label(const Record & record, std::string_view field, const std::vector<std::string> & names) {
    PITH_ASSIGN_OR_RETURN(const std::string text, record.scalar(field));
    const auto found = std::find(names.begin(), names.end(), text);
    if (found != names.end()) { return found - names.begin(); }
    return record.integer(field);
}

Status read_piqa(const Record & record, Question & out) {
    PITH_ASSIGN_OR_RETURN(const std::string goal, record.text("goal"));
    out.question = "Question: " + goal + "\n";
    out.answer_prefix = "Answer:";
    for (const char * field : {"sol1", "sol2"}) { PITH_ASSIGN_OR_RETURN(out.choices.emplace_back(), record.text(field)); }
    PITH_ASSIGN_OR_RETURN(out.right, record.integer("label"));
    return {};
}

// choices {text[], label[]} and answerKey, or question {stem, choices[] of {text, label}} and answerKey.
Status read_ai2(const Record & record, std::string_view stem_field, std::string & stem, Question & out) {
    std::vector<std::string> labels;
    if (record.holds_object("question")) {
        PITH_ASSIGN_OR_RETURN(const Record question, record.object("question"));
        PITH_ASSIGN_OR_RETURN(stem, question.text("stem"));
        PITH_ASSIGN_OR_RETURN(const std::vector<Record> choices, question.objects("choices"));
        for (const Record & choice : choices) {
            PITH_ASSIGN_OR_RETURN(out.choices.emplace_back(), choice.text("text"));
            PITH_ASSIGN_OR_RETURN(labels.emplace_back(), choice.text("label"));
        }
    } else {
        PITH_ASSIGN_OR_RETURN(stem, record.text(stem_field));
        PITH_ASSIGN_OR_RETURN(const Record choices, record.object("choices"));
        PITH_ASSIGN_OR_RETURN(out.choices, choices.texts("text"));
        PITH_ASSIGN_OR_RETURN(labels, choices.texts("label"));
        if (labels.size() != out.choices.size()) {
            return choices.bad("label", "has " + std::to_string(labels.size()) + " labels for " +
                                            std::to_string(out.choices.size()) + " texts");
        }
    }
    PITH_ASSIGN_OR_RETURN(const std::string key, record.text("answerKey"));
    const auto found = std::find(labels.begin(), labels.end(), strip(std::string_view(key)));
    if (found == labels.end()) { return record.bad("answerKey", "is '" + key + "', which labels no choice"); }
    out.right = found - labels.begin();
    return {};
}

Status read_arc(const Record & record, Question & out) {
    std::string stem;
    PITH_RETURN_IF_ERROR(read_ai2(record, "question", stem, out));
    out.question = "Question: " + stem + "\n";
    out.answer_prefix = "Answer:";
    return {};
}

Status read_openbookqa(const Record & record, Question & out) {
    return read_ai2(record, "question_stem", out.question, out);
}

// WikiHow's marks: " [title]" ends a sentence, what else is in brackets goes; then two spaces become one, once.
std::string without_brackets(std::string_view text) {
    std::u32string out = replace_all(strip(code_points(text)), U" [title]", U". ");
    for (size_t open = out.find(U'['); open != std::u32string::npos; open = out.find(U'[', open)) {
        const size_t close = out.find(U']', open);
        const size_t line_end = out.find(U'\n', open);
        if (close == std::u32string::npos) { break; }
        if (line_end < close) {
            ++open;
            continue;
        }
        out.erase(open, close + 1 - open);
    }
    return to_utf8(replace_all(out, U"  ", U" "));
}

// str.capitalize: the first letter large, all others small.
std::string capitalized(std::string_view text) {
    std::u32string out = lower(code_points(text));
    if (!out.empty()) { out[0] = to_upper(out[0]); }
    return to_utf8(out);
}

Status read_hellaswag(const Record & record, Question & out) {
    PITH_ASSIGN_OR_RETURN(const std::string activity, record.text("activity_label"));
    PITH_ASSIGN_OR_RETURN(const std::string a, record.text("ctx_a"));
    PITH_ASSIGN_OR_RETURN(const std::string b, record.text("ctx_b"));
    PITH_ASSIGN_OR_RETURN(const std::vector<std::string> endings, record.texts("endings"));
    out.context = without_brackets(activity + ": " + a + " " + capitalized(b));
    for (const std::string & ending : endings) { out.choices.push_back(without_brackets(ending)); }
    PITH_ASSIGN_OR_RETURN(out.right, record.integer("label"));
    return {};
}

Status read_boolq(const Record & record, Question & out) {
    PITH_ASSIGN_OR_RETURN(const std::string passage, record.text("passage"));
    PITH_ASSIGN_OR_RETURN(const std::string question, record.text("question"));
    out.context = passage + "\n";
    out.question = "Question: " + question + "?\n";
    out.answer_prefix = "Answer:";
    out.choices = {"no", "yes"};
    PITH_ASSIGN_OR_RETURN(
        out.right, read_label(record, !record.has("label") && record.has("answer") ? "answer" : "label", {"false", "true"}));
    return {};
}

Status read_rte(const Record & record, Question & out) {
    PITH_ASSIGN_OR_RETURN(const std::string premise, record.text("premise"));
    PITH_ASSIGN_OR_RETURN(const std::string hypothesis, record.text("hypothesis"));
    out.context = premise + "\n";
    out.question = "Question: " + hypothesis + " True or False?\n";
    out.answer_prefix = "Answer:";
    out.choices = {"True", "False"};
    PITH_ASSIGN_OR_RETURN(out.right, read_label(record, "label", {"entailment", "not_entailment"}));
    return {};
}

Status read_copa(const Record & record, Question & out) {
    PITH_ASSIGN_OR_RETURN(const std::string premise, record.text("premise"));
    PITH_ASSIGN_OR_RETURN(const std::string asked, record.text("question"));
    if (asked != "cause" && asked != "effect") {
        return record.bad("question", "is '" + asked + "' where cause or effect belongs");
    }
    std::string_view sentence = strip(std::string_view(premise));
    if (sentence.empty()) { return record.bad("premise", "is empty"); }
    sentence.remove_suffix(1);  // the full stop
    out.context = std::string(sentence) + (asked == "cause" ? " because" : " therefore");
    for (const char * field : {"choice1", "choice2"}) { PITH_ASSIGN_OR_RETURN(out.choices.emplace_back(), record.text(field)); }
    PITH_ASSIGN_OR_RETURN(out.right, record.integer("label"));
    return {};
}

struct Row {
    std::string_view name, id_field, metric, fields;
    Read read;
};

constexpr std::string_view kBoth = "acc, acc_norm";
constexpr Row kRows[] = {
    {"piqa", "", kBoth, "goal, sol1, sol2, label (0, 1)", read_piqa},
    {"arc_easy", "id", kBoth, "id, question, choices {text[], label[]}, answerKey", read_arc},
    {"arc_challenge", "id", kBoth, "id, question, choices {text[], label[]}, answerKey", read_arc},
    {"openbookqa", "id", kBoth, "id, question_stem, choices {text[], label[]}, answerKey", read_openbookqa},
    {"hellaswag", "", kBoth, "activity_label, ctx_a, ctx_b, endings[], label", read_hellaswag},
    {"boolq", "", "acc", "passage, question, label (0, 1, false, true)", read_boolq},
    {"rte", "", "acc", "premise, hypothesis, label (0, 1, entailment, not_entailment)", read_rte},
    {"copa", "", "acc", "premise, question (cause, effect), choice1, choice2, label (0, 1)", read_copa},
};

Result<Sample> make_sample(const Row & row, const Record & record) {
    Question question;
    PITH_RETURN_IF_ERROR(row.read(record, question));
    const auto n_choices = static_cast<int64_t>(question.choices.size());
    if (n_choices < 2) { return record.bad("choices", "holds fewer than two"); }
    if (question.right < 0 || question.right >= n_choices) {
        return record.bad("label", "is " + std::to_string(question.right) + " where 0 … " + std::to_string(n_choices - 1) +
                                       " belongs (a test set without labels cannot be scored)");
    }
    Sample sample;
    sample.context = std::move(question.context);
    sample.fields["right"] = std::to_string(question.right);
    Turn turn;
    turn.question = std::move(question.question);
    turn.answer_prefix = std::move(question.answer_prefix);
    for (const std::string & choice : question.choices) {
        if (choice.empty()) { return record.bad("choices", "holds an empty one"); }
        turn.choices.push_back(" " + choice);
    }
    turn.references = {turn.choices[static_cast<size_t>(question.right)]};
    sample.turns.push_back(std::move(turn));
    return sample;
}

double score(const Sample & sample, const Turn & turn, std::string_view taken) {
    const auto first = std::find(turn.choices.begin(), turn.choices.end(), taken);
    return std::to_string(first - turn.choices.begin()) == sample.fields.at("right") ? 1.0 : 0.0;
}

}  // namespace

Tasks multiple_choice_tasks() {
    Tasks tasks;
    for (const Row & row : kRows) {
        FileTask task;
        task.rules.name = row.name;
        task.rules.family = "multiple-choice";
        task.rules.file = task.rules.name + ".jsonl";
        task.rules.help = task.rules.file + ", one question a line: " + std::string(row.fields);
        task.rules.chat = false;
        task.rules.too_long = TooLong::kRefuse;
        task.rules.metric = row.metric;
        task.rules.fields = {"right"};
        task.rules.scores_choices = true;
        task.id_field = row.id_field;
        task.sample = [&row](const Record & record) { return make_sample(row, record); };
        task.score = score;
        tasks.push_back(make_file_task(std::move(task)));
    }
    return tasks;
}

}  // namespace pith::benchmarks
