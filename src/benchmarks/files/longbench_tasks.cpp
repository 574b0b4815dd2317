// longbench_tasks.cpp - the 16 English and code tasks of LongBench. Stage: benchmarks.
// Pure C++.
//
// File:     <task>.jsonl as LongBench publishes it: input, context, answers[], length, dataset, language, all_classes[] or
//           null, _id.
// Prompt:   the benchmark's template cut in three: context (with the instruction before it), question (with the instruction
//           after it), and what the answer begins with; joined they are its prompt, spelling included.
// Rules:    a longer prompt keeps its first and last half of the limit; no chat template for trec, triviaqa, samsum, lcc,
//           repobench-p; samsum stops at a line break; trec, triviaqa and samsum score the first line. The best score over the
//           answers counts.
// Groups:   length in words as LongBench-E groups it: 0-4k, 4-8k, 8k+.
// Differs:  a sample without answers, or with empty ones only, is refused (the original counts 0, or what its metric says of
//           an empty text).
// Source:   LongBench, config/dataset2prompt.json, config/dataset2maxlen.json, pred.py, eval.py.
#include <algorithm>

#include "benchmarks/families.h"
#include "benchmarks/files/file_task.h"
#include "benchmarks/metrics/answer_f1.h"
#include "benchmarks/metrics/edit_similarity.h"
#include "benchmarks/metrics/longbench_scores.h"
#include "benchmarks/metrics/rouge.h"
#include "core/text.h"

namespace pith::benchmarks {
namespace {

enum class Metric { kF1, kFirstLineF1, kRougeL, kFirstLineRougeL, kClass, kCount, kParagraph, kCode };

struct Row {
    std::string_view name;
    int max_new_tokens;
    bool chat;
    Metric metric;
    std::string_view context, question, answer_prefix;
};

constexpr std::string_view kPassages =
    "Answer the question based on the given passages. Only give me the answer and do not output any other words.\n\n"
    "The following are given passages.\n{context}\n\n";
constexpr std::string_view kPassagesQuestion =
    "Answer the question based on the given passages. Only give me the answer and do not output any other words.\n\n"
    "Question: {input}\n";

constexpr Row kRows[] = {
    {"narrativeqa", 128, true, Metric::kF1,
     "You are given a story, which can be either a novel or a movie script, and a question. Answer the question asconcisely as "
     "you can, "
     "using a single phrase if possible. Do not provide any explanation.\n\nStory: {context}\n\n",
     "Now, answer the question based on the story asconcisely as you can, using a single phrase if possible. Do not provide "
     "any "
     "explanation.\n\nQuestion: {input}\n\n",
     "Answer:"},
    {"qasper", 128, true, Metric::kF1,
     "You are given a scientific article and a question. Answer the question as concisely as you can, using a single phrase or "
     "sentence if "
     "possible. If the question cannot be answered based on the information in the article, write \"unanswerable\". If the "
     "question is a "
     "yes/no question, answer \"yes\", \"no\", or \"unanswerable\". Do not provide any explanation.\n\nArticle: {context}\n\n",
     " Answer the question based on the above article as concisely as you can, using a single phrase or sentence if possible. "
     "If the "
     "question cannot be answered based on the information in the article, write \"unanswerable\". If the question is a yes/no "
     "question, "
     "answer \"yes\", \"no\", or \"unanswerable\". Do not provide any explanation.\n\nQuestion: {input}\n\n",
     "Answer:"},
    {"multifieldqa_en", 64, true, Metric::kF1, "Read the following text and answer briefly.\n\n{context}\n\n",
     "Now, answer the following question based on the above text, only give me the answer and do not output any other "
     "words.\n\n"
     "Question: {input}\n",
     "Answer:"},
    {"hotpotqa", 32, true, Metric::kF1, kPassages, kPassagesQuestion, "Answer:"},
    {"2wikimqa", 32, true, Metric::kF1, kPassages, kPassagesQuestion, "Answer:"},
    {"musique", 32, true, Metric::kF1, kPassages, kPassagesQuestion, "Answer:"},
    {"gov_report", 512, true, Metric::kRougeL,
     "You are given a report by a government agency. Write a one-page summary of the report.\n\nReport:\n{context}\n\n",
     "Now, write a one-page summary of the report.\n\n", "Summary:"},
    {"qmsum", 512, true, Metric::kRougeL,
     "You are given a meeting transcript and a query containing a question or instruction. Answer the query in one or more "
     "sentences.\n\n"
     "Transcript:\n{context}\n\n",
     "Now, answer the query based on the above meeting transcript in one or more sentences.\n\nQuery: {input}\n", "Answer:"},
    {"multi_news", 512, true, Metric::kRougeL,
     "You are given several news passages. Write a one-page summary of all news. \n\nNews:\n{context}\n\n",
     "Now, write a one-page summary of all the news.\n\n", "Summary:"},
    {"trec", 64, false, Metric::kClass,
     "Please determine the type of the question below. Here are some examples of questions.\n\n{context}\n", "{input}", ""},
    {"triviaqa", 32, false, Metric::kFirstLineF1,
     "Answer the question based on the given passage. Only give me the answer and do not output any other words. The following "
     "are some "
     "examples.\n\n{context}\n\n",
     "{input}", ""},
    {"samsum", 128, false, Metric::kFirstLineRougeL,
     "Summarize the dialogue into a few short sentences. The following are some examples.\n\n{context}\n\n", "{input}", ""},
    {"passage_count", 32, true, Metric::kCount,
     "There are some paragraphs below sourced from Wikipedia. Some of them may be duplicates. Please carefully read these "
     "paragraphs and "
     "determine how many unique paragraphs there are after removing duplicates. In other words, how many non-repeating "
     "paragraphs are "
     "there in total?\n\n{context}\n\n",
     "Please enter the final count of unique paragraphs after removing duplicates. The output format should only contain the "
     "number, such "
     "as 1, 2, 3, and so on.\n\n",
     "The final answer is: "},
    {"passage_retrieval_en", 32, true, Metric::kParagraph,
     "Here are 30 paragraphs from Wikipedia, along with an abstract. Please determine which paragraph the abstract is from.\n\n"
     "{context}\n\n",
     "The following is an abstract.\n\n{input}\n\nPlease enter the number of the paragraph that the abstract is from. The "
     "answer format "
     "must be like \"Paragraph 1\", \"Paragraph 2\", etc.\n\n",
     "The answer is: "},
    {"lcc", 64, false, Metric::kCode, "Please complete the code given below. \n{context}", "", "Next line of code:\n"},
    {"repobench-p", 64, false, Metric::kCode, "Please complete the code given below. \n{context}", "{input}",
     "Next line of code:\n"},
};

std::string_view name_of(Metric metric) {
    switch (metric) {
        case Metric::kF1:
            return "F1";
        case Metric::kFirstLineF1:
            return "F1 (first line)";
        case Metric::kRougeL:
            return "Rouge-L";
        case Metric::kFirstLineRougeL:
            return "Rouge-L (first line)";
        case Metric::kClass:
            return "class (first line)";
        case Metric::kCount:
            return "count";
        case Metric::kParagraph:
            return "retrieval";
        case Metric::kCode:
            return "edit similarity";
    }
    return "";
}

constexpr char kClassSeparator = '\n';

double score_one(Metric metric, const Sample & sample, std::string_view prediction, std::string_view reference) {
    switch (metric) {
        case Metric::kF1:
            return answer_f1(prediction, reference);
        case Metric::kFirstLineF1:
            return answer_f1(first_line(prediction), reference);
        case Metric::kRougeL:
            return rouge_l(prediction, reference);
        case Metric::kFirstLineRougeL:
            return rouge_l(first_line(prediction), reference);
        case Metric::kCount:
            return number_share(prediction, reference);
        case Metric::kParagraph:
            return number_share(prediction, paragraph_number(reference).value_or(""));
        case Metric::kCode:
            return code_similarity(prediction, reference);
        case Metric::kClass:
            break;
    }
    std::vector<std::string> classes;
    for (const std::string_view name : split(sample.fields.at("all_classes"), kClassSeparator)) { classes.emplace_back(name); }
    return class_score(first_line(prediction), reference, classes);
}

std::string length_group(int64_t n_words) {
    return n_words < 4000 ? "0-4k" : n_words < 8000 ? "4-8k" : "8k+";
}

Result<Sample> make_sample(const Row & row, const Record & record) {
    Sample sample;
    PITH_ASSIGN_OR_RETURN(const std::string context, record.text("context"));
    PITH_ASSIGN_OR_RETURN(const std::string input, record.text("input"));
    PITH_ASSIGN_OR_RETURN(const int64_t n_words, record.integer("length"));
    sample.context = fill(row.context, {{"context", context}});
    sample.groups["length"] = length_group(n_words);
    Turn turn;
    turn.question = fill(row.question, {{"input", input}});
    turn.answer_prefix = row.answer_prefix;
    turn.max_new_tokens = row.max_new_tokens;
    PITH_ASSIGN_OR_RETURN(turn.references, record.texts("answers"));
    PITH_RETURN_IF_ERROR(refuse_no_answers(record, "answers", turn.references));
    if (row.metric == Metric::kParagraph) {
        for (const std::string & answer : turn.references) {
            if (!paragraph_number(answer)) {
                return record.bad("answers", "holds '" + answer + "' where \"Paragraph 12\" belongs");
            }
        }
    }
    if (row.metric == Metric::kClass) {
        PITH_ASSIGN_OR_RETURN(const std::vector<std::string> classes, record.texts("all_classes"));
        const std::vector<std::string_view> names(classes.begin(), classes.end());
        sample.fields["all_classes"] = join(names, std::string(1, kClassSeparator));
    }
    sample.turns.push_back(std::move(turn));
    return sample;
}

}  // namespace

Tasks longbench_tasks() {
    Tasks tasks;
    for (const Row & row : kRows) {
        FileTask task;
        task.rules.name = row.name;
        task.rules.family = "longbench";
        task.rules.file = task.rules.name + ".jsonl";
        task.rules.help = "LongBench's " + task.rules.file + ": context, input, answers[], length, all_classes, _id";
        task.rules.chat = row.chat;
        task.rules.stop_at_newline = row.name == "samsum";
        task.rules.too_long = TooLong::kMiddle;
        task.rules.metric = name_of(row.metric);
        task.rules.group_by = {"length"};
        task.id_field = "_id";
        task.sample = [&row](const Record & record) { return make_sample(row, record); };
        task.score = [&row](const Sample & sample, const Turn & turn, std::string_view prediction) {
            double best = 0;
            for (const std::string & reference : turn.references) {
                best = std::max(best, score_one(row.metric, sample, prediction, reference));
            }
            return best;
        };
        tasks.push_back(make_file_task(std::move(task)));
    }
    return tasks;
}

}  // namespace pith::benchmarks
