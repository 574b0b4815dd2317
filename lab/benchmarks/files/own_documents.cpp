// own_documents.cpp - the user's own documents, and questions about them whose right answers are short. Stage: benchmarks.
// Pure C++.
//
// File:     questions.jsonl: document (its name), text, question, answers (a list: any of them is right).
// Prompt:   the text, a blank line, "Question: …" and how to answer. Questions with the same text share its prefill.
// Rules:    32 new tokens. Right: the answer contains one of `answers` in any case, not inside of a longer word or number
//           ("low" is not in "follow", "15" not in "150"). Longer texts than the limit keep their first and last half.
#include <algorithm>

#include "benchmarks/families.h"
#include "benchmarks/files/file_task.h"
#include "benchmarks/metrics/unicode.h"

namespace pith::benchmarks {
namespace {

// Both in one case.   A reference that begins or ends with a sign ("-1") may touch a word there.
bool says(std::u32string_view text, std::u32string_view reference) {
    if (reference.empty()) { return false; }
    for (size_t at = text.find(reference); at != std::u32string_view::npos; at = text.find(reference, at + 1)) {
        const size_t end = at + reference.size();
        const bool begins = at == 0 || !is_word(reference.front()) || !is_word(text[at - 1]);
        const bool ends = end == text.size() || !is_word(reference.back()) || !is_word(text[end]);
        if (begins && ends) { return true; }
    }
    return false;
}

double contains_an_answer(const Turn & turn, std::string_view said) {
    const std::u32string text = upper(code_points(said));
    return std::any_of(turn.references.begin(), turn.references.end(),
                       [&](const std::string & reference) { return says(text, upper(code_points(reference))); });
}

Result<Sample> make_sample(const Record & record) {
    Sample sample;
    PITH_ASSIGN_OR_RETURN(const std::string document, record.text("document"));
    PITH_ASSIGN_OR_RETURN(const std::string text, record.text("text"));
    PITH_ASSIGN_OR_RETURN(const std::string question, record.text("question"));
    Turn turn;
    PITH_ASSIGN_OR_RETURN(turn.references, record.scalars("answers"));
    PITH_RETURN_IF_ERROR(refuse_no_answers(record, "answers", turn.references));
    sample.context = text;
    sample.groups["document"] = document;
    turn.question = "\n\nQuestion: " + question + "\nAnswer in a few words, from the text above.\n";
    turn.answer_prefix = "Answer:";
    turn.max_new_tokens = 32;
    sample.turns.push_back(std::move(turn));
    return sample;
}

}  // namespace

Tasks document_tasks() {
    FileTask task;
    task.rules.name = "questions";
    task.rules.family = "documents";
    task.rules.file = "questions.jsonl";
    task.rules.help = "your own documents, as questions.jsonl: document, text, question, answers[]";
    task.rules.too_long = TooLong::kMiddle;
    task.rules.metric = "answer contained";
    task.rules.group_by = {"document"};
    task.sample = make_sample;
    task.score = [](const Sample & /*sample*/, const Turn & turn, std::string_view said) {
        return contains_an_answer(turn, said);
    };
    Tasks tasks;
    tasks.push_back(make_file_task(std::move(task)));
    return tasks;
}

}  // namespace pith::benchmarks
