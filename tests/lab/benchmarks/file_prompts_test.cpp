// The prompts of the tasks that read data files, whole, and where they are cut: context | question | what the answer begins
// with.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "benchmarks/benchmark.h"
#include "file_fixtures.h"

namespace pith::benchmarks::file_prompts_test {
namespace {

// The pieces of a task's fixture with " | " between them; later turns follow their gold answer, in angle brackets.
std::string pieces(std::string_view name) {
    const auto & all = fixtures();
    const Fixture & fixture =
        *std::find_if(all.begin(), all.end(), [&](const Fixture & candidate) { return candidate.task == name; });
    const auto samples = find_task(fixture.family, fixture.task)->samples({.file = nlohmann::json::parse(fixture.line).dump()});
    if (!samples.ok()) { return samples.status().message(); }
    std::string text = samples->front().context;
    for (const Turn & turn : samples->front().turns) {
        text += " | " + turn.question + " | " + turn.answer_prefix;
        if (!turn.follow_up.empty()) { text += "<" + turn.follow_up + ">"; }
    }
    return text;
}

Sample sample_of(std::string_view family, std::string_view name) {
    const auto & all = fixtures();
    const Fixture & fixture =
        *std::find_if(all.begin(), all.end(), [&](const Fixture & candidate) { return candidate.task == name; });
    return find_task(family, name)->samples({.file = nlohmann::json::parse(fixture.line).dump()})->front();
}

TEST(LongBenchPrompts, AreTheBenchmarksOwn) {
    EXPECT_EQ(pieces("narrativeqa"),
              "You are given a story, which can be either a novel or a movie script, and a question. Answer the question "
              "asconcisely as you "
              "can, using a single phrase if possible. Do not provide any explanation.\n\nStory: Ann sails.\n\n | Now, answer "
              "the question "
              "based on the story asconcisely as you can, using a single phrase if possible. Do not provide any "
              "explanation.\n\nQuestion: "
              "Who sails?\n\n | Answer:");
    EXPECT_EQ(pieces("hotpotqa"),
              "Answer the question based on the given passages. Only give me the answer and do not output any other "
              "words.\n\nThe following "
              "are given passages.\nPassage 1:\nBo.\n\n | Answer the question based on the given passages. Only give me the "
              "answer and do not "
              "output any other words.\n\nQuestion: Who?\n | Answer:");
    EXPECT_EQ(pieces("trec"),
              "Please determine the type of the question below. Here are some examples of questions.\n\nQuestion: Who?\nType: "
              "Person\n | "
              "Question: How far?\nType: | ");
    EXPECT_EQ(pieces("passage_retrieval_en"),
              "Here are 30 paragraphs from Wikipedia, along with an abstract. Please determine which paragraph the abstract is "
              "from.\n\n"
              "Paragraph 1: x\n\n | The following is an abstract.\n\nAn abstract.\n\nPlease enter the number of the paragraph "
              "that the "
              "abstract is from. The answer format must be like \"Paragraph 1\", \"Paragraph 2\", etc.\n\n | The answer is: ");
    EXPECT_EQ(pieces("lcc"), "Please complete the code given below. \nint f() {\n |  | Next line of code:\n");
    EXPECT_EQ(pieces("repobench-p"), "Please complete the code given below. \n# a.py\n | def f():\n | Next line of code:\n");
}

TEST(LongBenchPrompts, AreTheBenchmarksOwnInChinese) {
    EXPECT_EQ(pieces("multifieldqa_zh"),
              "阅读以下文字并用中文简短回答：\n\n安在航行。\n\n | "
              "现在请基于上面的文章回答下面的问题，只告诉我答案，不要输出任何其他字词。\n\n问题：谁？\n | 回答：");
    EXPECT_EQ(pieces("dureader"),
              "请基于给定的文章回答下述问题。\n\n文章：文章1\n安。\n\n | "
              "请基于上述文章回答下面的问题。\n\n问题：谁？\n | 回答：");
    EXPECT_EQ(pieces("vcsum"),
              "下面有一段会议记录，请你阅读后，写一段总结，总结会议的内容。\n会议记录：\n安：你好\n\n |  | 会议总结：");
    EXPECT_EQ(pieces("lsht"), "请判断给定新闻的类别，下面是一些例子。\n\n新闻内容：y\n类别：体育\n | 新闻内容：x\n类别： | ");
    EXPECT_EQ(pieces("passage_retrieval_zh"),
              "以下是若干段落文字，以及其中一个段落的摘要。请确定给定的摘要出自哪一段。\n\n段落1：x\n\n | "
              "下面是一个摘要\n\n摘要。\n\n请输入摘要所属段落的编号。答案格式必须是\"段落1\"，\"段落2\"等格式\n\n | 答案是：");
    const int limits[] = {64, 128, 512, 64, 32};
    const char * const names[] = {"multifieldqa_zh", "dureader", "vcsum", "lsht", "passage_retrieval_zh"};
    for (size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(sample_of("longbench", names[i]).turns[0].max_new_tokens, limits[i]) << names[i];
        EXPECT_TRUE(find_task("longbench", names[i])->rules().aside) << "papers average over the other 16";
    }
}

TEST(LongBenchPrompts, FollowTheBenchmarksRulesForChatAndLength) {
    int n_plain = 0;
    for (const auto & task : all_tasks()) {
        const TaskRules & rules = task->rules();
        if (rules.family != "longbench") { continue; }
        n_plain += rules.chat ? 0 : 1;
        EXPECT_EQ(rules.too_long, TooLong::kMiddle);
        EXPECT_EQ(rules.stop_at_newline, rules.name == "samsum");
        EXPECT_EQ(rules.file, rules.name + ".jsonl");
    }
    EXPECT_EQ(n_plain, 6);  // trec, triviaqa, samsum, lsht, lcc, repobench-p
    EXPECT_EQ(sample_of("longbench", "gov_report").turns[0].max_new_tokens, 512);
    EXPECT_EQ(sample_of("longbench", "gov_report").groups.at("length"), "4-8k");  // 4,200 words
    EXPECT_EQ(sample_of("longbench", "gov_report").id, "f1");
}

TEST(LongBenchV2Prompt, IsTheZeroShotTemplateWithStrippedParts) {
    EXPECT_EQ(pieces("longbench_v2"),
              "Please read the following text and answer the question below.\n\n<text>\nA text.\n</text>\n\n | What is the "
              "correct answer to "
              "this question: Which?\nChoices:\n(A) one\n(B) two\n(C) three\n(D) four\n\nFormat your response as follows: "
              "\"The correct answer "
              "is (insert answer here)\". | ");
    const Sample sample = sample_of("longbench-v2", "longbench_v2");
    EXPECT_EQ(sample.groups.at("difficulty"), "hard");
    EXPECT_EQ(sample.groups.at("length"), "short");
    EXPECT_EQ(sample.groups.at("domain"), "Single-Document QA");
}

TEST(InfiniteBenchPrompts, EndInTheBeginningOfTheAnswer) {
    EXPECT_EQ(pieces("passkey"),
              "There is an important info hidden inside a lot of irrelevant text. Find it and memorize it. I will quiz you "
              "about the important "
              "information.\n\nGrass. The pass key is 71432.\n\n | What is the pass key?\n\n | The pass key is");
    EXPECT_EQ(pieces("math_find"),
              "What is the largest number in the following list?\n\n[3, 88]\n\n | You should answer with only one number. The "
              "largest number of "
              "the list is: | ");
    EXPECT_EQ(pieces("longbook_choice_eng"),
              "Read the book and answer the question.\n\nA book.\n\n | Question: Who?\nA. Ann\nB. Bo\nC. Cy\nD. Di\n\n | The "
              "letter of the "
              "correct answer is");
    EXPECT_EQ(pieces("longbook_qa_chn"), "阅读以下书籍然后回答问题。\n\n一本书。\n\n | 问题：谁？\n | 答案：");
    EXPECT_EQ(pieces("code_debug"),
              "Following is a Python code where exactly one of the functions/methods has a deliberate error that makes it "
              "crash.\n\ndef f(): "
              "pass\n\n | Options:\nA. f\nB. g\nC. h\nD. i\n\n | The correct option is:");
    EXPECT_EQ(pieces("longdialogue_qa_eng"),
              "Below is a dialogue script where one random occurrence of a character name is replaced with \"$$MASK$$\", and "
              "you should try to "
              "guess who that character is.\n\n$$MASK$$: Hi.\n\n |  | The name that has been replaced with $$MASK$$ is likely");
}

TEST(InfiniteBenchPrompts, CodeAndExpressionsAreAskedAsOpenModelsAreAsked) {
    EXPECT_EQ(
        pieces("code_run"),
        "There is a function called func_7 in the following Python code.\n\ndef func_7(x):\n    return x + 1\n\n | Please "
        "compute the exact value of func_7(-3).  | The value of func_7(-3) is");
    EXPECT_EQ(pieces("math_calc"),
              "Let us calculate the intermediate values of an expression.\n\nExpression: 1 + 3 + 4\nValues: [1, 4, "
              "8]\n\nExpression: 8 - 3 + 2 - 4\nValues: [8, 5, 7, 3]\n\nExpression: 1 + 3 + 4\n |  | Values:");
    EXPECT_EQ(sample_of("infinitebench", "math_calc").turns[0].references, (std::vector<std::string>{"1", "4", "8"}));
    EXPECT_EQ(sample_of("infinitebench", "math_calc").turns[0].max_new_tokens, 30000);
}

TEST(BabiLongPrompts, PutInstructionAndExamplesBeforeTheContext) {
    EXPECT_EQ(pieces("qa1"),
              "I will give you context with the facts about positions of different persons hidden in some random text and a "
              "question. You need "
              "to answer the question based only on the information from the facts. If a person was in different locations, "
              "use the latest "
              "location to answer the question.\n\n<example>\nCharlie went to the hallway. Judith come back to the kitchen. "
              "Charlie travelled to "
              "balcony. Where is Charlie?\nAnswer: The most recent location of Charlie is "
              "balcony.\n</example>\n\n<example>\nAlan moved to the "
              "garage. Charlie went to the beach. Alan went to the shop. Rouse travelled to balcony. Where is Alan?\nAnswer: "
              "The most recent "
              "location of Alan is shop.\n</example>\n\nAlways return your answer in the following format: The most recent "
              "location of ’person’ "
              "is ’location’. Do not write anything else after that.\n\n<context>\nMary went to the office.\n</context>\n\n | "
              "Question: Where is "
              "Mary? | ");
}

TEST(ScBenchPrompts, FollowTheGoldAnswer) {
    EXPECT_EQ(pieces("scbench_kv"),
              "Extract the value corresponding to the specified key in the JSON object below.\n\n{\"a\": \"1x\", \"b\": "
              "\"2y\"} | \n\nKey: \"a\" | <1x> | \n\nKey: \"b\" | <2y>");
    EXPECT_EQ(pieces("scbench_mf"),
              "What is the largest number of the list?\n\n[3, 88] | \n\nThe largest number of the list is: | <88> | \n\nWhat "
              "is the smallest "
              "number of the list?\n\nThe smallest number of the list is: | <3>");
    EXPECT_EQ(pieces("scbench_qa_eng"),
              "Read the book and answer the question. Be very concise in your answer.\n\nA book. | \n\nQuestion: Who?\n | "
              "Answer:<Bo> | \n\nQuestion: Where?\n | Answer:<Rome>");
    EXPECT_EQ(pieces("scbench_choice_eng"),
              "Read the book and answer the question.\n\nA book. | \n\nQuestion: Who?\nA. Ann\nB. Bo\nC. Cy\nD. Di\n\n | The "
              "the correct answer "
              "is<Bo> | \n\nQuestion: Where?\nA. Rome\nB. Oslo\nC. Bern\nD. Lima\n\n | The the correct answer is<Rome>");
}

TEST(MultipleChoicePrompts, AreTheHarnesssOwn) {
    EXPECT_EQ(pieces("piqa"), " | Question: Cool soup\n | Answer:");
    EXPECT_EQ(pieces("arc_easy"), " | Question: What is wet?\n | Answer:");
    EXPECT_EQ(pieces("arc_challenge"), pieces("arc_easy"));  // AI2's own form of the same question
    EXPECT_EQ(pieces("openbookqa"), " | The sun is | ");
    EXPECT_EQ(pieces("boolq"), "Ice floats.\n | Question: does ice float?\n | Answer:");
    EXPECT_EQ(pieces("rte"), "Bo runs.\n | Question: Bo moves. True or False?\n | Answer:");
    EXPECT_EQ(pieces("copa"), "The glass fell therefore |  | ");
    // Brackets go, two spaces become one; the second part begins large and goes on small.
    EXPECT_EQ(pieces("hellaswag"), "Baking: She mixes eggs well. Then mary |  | ");
}

TEST(MultipleChoice, OffersASpaceAndEachChoice) {
    EXPECT_EQ(sample_of("multiple-choice", "hellaswag").turns[0].choices,
              (std::vector<std::string>{" bakes.. Eat", " flies away."}));
    EXPECT_EQ(sample_of("multiple-choice", "rte").turns[0].choices, (std::vector<std::string>{" True", " False"}));
    EXPECT_EQ(sample_of("multiple-choice", "openbookqa").turns[0].references, std::vector<std::string>{" hot"});
}

TEST(MultipleChoice, TakesTheFirstOfTwoEqualTexts) {
    const Task & task = *find_task("multiple-choice", "piqa");
    const auto samples = task.samples({.file = R"({"goal": "g", "sol1": "same", "sol2": "same", "label": 1})"});
    ASSERT_TRUE(samples.ok());
    EXPECT_EQ(task.score(samples->front(), samples->front().turns[0], " same"),
              0);  // the first maximum is not the second choice
}

}  // namespace
}  // namespace pith::benchmarks::file_prompts_test
