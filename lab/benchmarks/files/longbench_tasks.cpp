// longbench_tasks.cpp - the 21 tasks of LongBench: 14 English ones, 5 Chinese ones, 2 of code. Stage: benchmarks.
// Pure C++.
//
// File:     <task>.jsonl as LongBench publishes it: input, context, answers[], length, dataset, language, all_classes[] or
//           null, _id.
// Prompt:   the benchmark's template cut in three: context (with the instruction before it), question (with the instruction
//           after it), and what the answer begins with; joined they are its prompt, spelling included, all of it in the
//           user's part of a chat template (pred.py: build_chat() of the whole prompt).
// Rules:    a longer prompt keeps its first and last half of the limit; no chat template for trec, triviaqa, samsum, lsht,
//           lcc, repobench-p; samsum stops at a line break; trec, triviaqa, samsum and lsht score the first line. The best
//           score over the answers counts.
// Groups:   length in words as LongBench-E groups it: 0-4k, 4-8k, 8k+.
// Differs:  a sample without answers, or with empty ones only, is refused (the original counts 0, or what its metric says of
//           an empty text). The Chinese F1 and Rouge-L are over characters instead of jieba's words (metrics/chinese.h).
//           The Chinese tasks are asked by name only: papers average over the other 16.
// Source:   LongBench, config/dataset2prompt.json, config/dataset2maxlen.json, pred.py, eval.py.
#include <algorithm>
#include <iterator>

#include "benchmarks/families.h"
#include "benchmarks/files/file_task.h"
#include "benchmarks/metrics/answer_f1.h"
#include "benchmarks/metrics/chinese.h"
#include "benchmarks/metrics/edit_similarity.h"
#include "benchmarks/metrics/longbench_scores.h"
#include "benchmarks/metrics/rouge.h"
#include "core/text.h"

namespace pith::benchmarks {
namespace {

enum class Metric {
    kF1,
    kFirstLineF1,
    kRougeL,
    kFirstLineRougeL,
    kClass,
    kCount,
    kParagraph,
    kCode,
    kChineseF1,
    kChineseRougeL,
    kChineseParagraph
};

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
    {"multifieldqa_zh", 64, true, Metric::kChineseF1, "阅读以下文字并用中文简短回答：\n\n{context}\n\n",
     "现在请基于上面的文章回答下面的问题，只告诉我答案，不要输出任何其他字词。\n\n问题：{input}\n", "回答："},
    {"dureader", 128, true, Metric::kChineseRougeL, "请基于给定的文章回答下述问题。\n\n文章：{context}\n\n",
     "请基于上述文章回答下面的问题。\n\n问题：{input}\n", "回答："},
    {"vcsum", 512, true, Metric::kChineseRougeL,
     "下面有一段会议记录，请你阅读后，写一段总结，总结会议的内容。\n会议记录：\n{context}\n\n", "", "会议总结："},
    {"lsht", 64, false, Metric::kClass, "请判断给定新闻的类别，下面是一些例子。\n\n{context}\n", "{input}", ""},
    {"passage_retrieval_zh", 32, true, Metric::kChineseParagraph,
     "以下是若干段落文字，以及其中一个段落的摘要。请确定给定的摘要出自哪一段。\n\n{context}\n\n",
     "下面是一个摘要\n\n{input}\n\n请输入摘要所属段落的编号。答案格式必须是\"段落1\"，\"段落2\"等格式\n\n", "答案是："},
};

constexpr std::string_view kChinese[] = {"multifieldqa_zh", "dureader", "vcsum", "lsht", "passage_retrieval_zh"};
constexpr std::u32string_view kChineseParagraphWord = U"段落";

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
        case Metric::kChineseParagraph:
            return "retrieval";
        case Metric::kCode:
            return "edit similarity";
        case Metric::kChineseF1:
            return "F1 of characters";
        case Metric::kChineseRougeL:
            return "Rouge-L of characters";
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
        case Metric::kChineseF1:
            return character_token_f1(prediction, reference);
        case Metric::kChineseRougeL:
            return character_rouge_l(prediction, reference);
        case Metric::kChineseParagraph:
            return number_share(prediction, paragraph_number(reference, kChineseParagraphWord).value_or(""));
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

Status check_references(const Row & row, const std::vector<std::string> & references) {
    for (const std::string & answer : references) {
        if (row.metric == Metric::kParagraph && !paragraph_number(answer)) {
            return refuse_reference(answer, "\"Paragraph 12\"");
        }
        if (row.metric == Metric::kChineseParagraph && !paragraph_number(answer, kChineseParagraphWord)) {
            return refuse_reference(answer, "\"段落12\"");
        }
    }
    return {};
}

bool counts_characters(Metric metric) {
    return metric == Metric::kChineseF1 || metric == Metric::kChineseRougeL;
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
    if (const Status fits = check_references(row, turn.references); !fits.ok()) {
        return record.bad("answers", fits.message());
    }
    if (row.metric == Metric::kClass) {
        PITH_ASSIGN_OR_RETURN(const std::vector<std::string> classes, record.texts("all_classes"));
        sample.fields["all_classes"] = join(classes, std::string(1, kClassSeparator));
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
        task.rules.help =
            "LongBench's " + task.rules.file + ": context, input, answers[], length, all_classes, _id" +
            (counts_characters(row.metric) ? "; over characters, LongBench's own score is over jieba's words" : "");
        task.rules.aside = std::ranges::find(kChinese, row.name) != std::end(kChinese);
        task.rules.chat = row.chat;
        task.rules.prefix_asked = true;
        task.rules.stop_at_newline = row.name == "samsum";
        task.rules.too_long = TooLong::kMiddle;
        task.rules.metric = name_of(row.metric);
        task.rules.group_by = {"length"};
        if (row.metric == Metric::kClass) { task.rules.fields = {"all_classes"}; }
        task.id_field = "_id";
        task.sample = [&row](const Record & record) { return make_sample(row, record); };
        task.score = [&row](const Sample & sample, const Turn & turn, std::string_view prediction) {
            double best = 0;
            for (const std::string & reference : turn.references) {
                best = std::max(best, score_one(row.metric, sample, prediction, reference));
            }
            return best;
        };
        task.check_references = [&row](const std::vector<std::string> & references) {
            return check_references(row, references);
        };
        tasks.push_back(make_file_task(std::move(task)));
    }
    return tasks;
}

}  // namespace pith::benchmarks
