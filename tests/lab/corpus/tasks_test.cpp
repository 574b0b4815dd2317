#include "tasks/tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "lab/corpus/word_counter.h"
#include "tasks/words.h"

namespace pith::corpus::tasks_test {
namespace {

Task make(std::string_view id, TaskOptions options) {
    auto task = make_task(id, options, count_words);
    EXPECT_TRUE(task.ok()) << task.status().message();
    return task.ok() ? *task : Task{};
}

std::vector<std::string> all_matches(const std::string & text, const std::string & pattern) {
    const std::regex regex(pattern);
    std::vector<std::string> out;
    for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) { out.push_back((*it)[1]); }
    return out;
}

// Reads prompts as a reader would, and knows nothing of how they were made.
std::string oracle(const Task & task) {
    std::smatch found;
    std::string said;
    const auto say = [&said](const std::vector<std::string> & items) {
        for (const auto & item : items) { said += " " + item; }
    };
    if (std::regex_search(task.question, found, std::regex("magic numbers? for (\\S+) mentioned"))) {
        say(all_matches(task.context, "magic numbers for " + found[1].str() + " is: (\\d+)\\."));
    } else if (std::regex_search(task.question, found, std::regex("assigned the value (\\d+) in"))) {
        std::vector<std::string> names = all_matches(task.context, "VAR ([A-Z]{5}) = " + found[1].str() + "\n");
        for (size_t i = 0; i < names.size(); ++i) {
            for (const auto & next : all_matches(task.context, "VAR ([A-Z]{5}) = VAR " + names[i] + "\\b")) {
                names.push_back(next);
            }
        }
        say(names);
    } else if (task.question.find("most common words") != std::string::npos) {
        std::map<std::string, int> times;
        for (const auto & word : all_matches(task.context, "\\d+\\. (\\w+)")) { ++times[word]; }
        std::vector<std::pair<int, std::string>> order;
        for (const auto & [word, n] : times) { order.emplace_back(-n, word); }
        std::sort(order.begin(), order.end());
        for (size_t i = 0; i < 10 && i < order.size(); ++i) { said += " " + order[i].second; }
    }
    return said;
}

// The facts, asked in their own patterns: question, then the statements that answer it.
std::string facts_oracle(const Task & task) {
    struct Pattern {
        const char * question;
        std::vector<const char *> statements;  // $ is the subject
    };
    static const std::vector<Pattern> kPatterns = {
        {"Where does (\\w+) live", {"$ lives in (\\w+)\\.", "home of $ is in (\\w+)\\.", "$ has a house in (\\w+)\\."}},
        {"Where is the home of (\\w+)", {"$ lives in (\\w+)\\.", "home of $ is in (\\w+)\\.", "$ has a house in (\\w+)\\."}},
        {"job of (\\w+)", {"$ is a (\\w+)\\.", "$ works as a (\\w+)\\.", "job of $ is (\\w+)\\."}},
        {"What does (\\w+) work as", {"$ is a (\\w+)\\.", "$ works as a (\\w+)\\.", "job of $ is (\\w+)\\."}},
        {"What animal does (\\w+) keep", {"$ keeps a (\\w+)\\.", "animal of $ is a (\\w+)\\.", "$ has a (\\w+)\\."}},
        {"animal of (\\w+)", {"$ keeps a (\\w+)\\.", "animal of $ is a (\\w+)\\.", "$ has a (\\w+)\\."}},
        {"code of (\\w+)", {"code of $ is (\\w+)\\.", "$ has the code (\\w+)\\.", "For $ the code is (\\w+)\\."}},
        {"Which code has (\\w+)", {"code of $ is (\\w+)\\.", "$ has the code (\\w+)\\.", "For $ the code is (\\w+)\\."}},
        {"How old is (\\w+)", {"$ is (\\d+) years", "age of $ is (\\d+)\\.", "$ is now (\\d+)\\."}},
        {"age of (\\w+)", {"$ is (\\d+) years", "age of $ is (\\d+)\\.", "$ is now (\\d+)\\."}},
        {"Where is the (\\w+)\\?",
         {"The $ is in the (\\w+)\\.", "Look for the $ in the (\\w+)\\.", "$ was left in the (\\w+)\\."}},
        {"Where was the (\\w+) left",
         {"The $ is in the (\\w+)\\.", "Look for the $ in the (\\w+)\\.", "$ was left in the (\\w+)\\."}},
        {"colour of the (\\w+)", {"The $ is (\\w+)\\.", "colour of the $ is (\\w+)\\.", "$ was made (\\w+)\\."}},
        {"Which colour has the (\\w+)", {"The $ is (\\w+)\\.", "colour of the $ is (\\w+)\\.", "$ was made (\\w+)\\."}},
        {"price of the (\\w+)", {"The $ costs (\\d+)", "price of the $ is (\\d+)", "sold the $ for (\\d+)"}},
        {"How much does the (\\w+)", {"The $ costs (\\d+)", "price of the $ is (\\d+)", "sold the $ for (\\d+)"}},
        {"owner of the (\\w+)", {"The $ belongs to (\\w+)\\.", "owner of the $ is (\\w+)\\.", "$ was a gift to (\\w+)\\."}},
        {"Who has the (\\w+)", {"The $ belongs to (\\w+)\\.", "owner of the $ is (\\w+)\\.", "$ was a gift to (\\w+)\\."}},
    };
    for (const auto & pattern : kPatterns) {
        std::smatch found;
        if (!std::regex_search(task.question, found, std::regex(pattern.question))) { continue; }
        for (std::string statement : pattern.statements) {
            statement.replace(statement.find('$'), 1, "\\b" + found[1].str() + "\\b");
            const auto answers = all_matches(task.context, statement);
            if (!answers.empty()) { return " " + answers.front() + "."; }
        }
    }
    return "";
}

TEST(Tasks, AreTheSameForTheSameSeedAndDifferElse) {
    for (const auto & info : task_list()) {
        TaskOptions options{.n_tokens = 600, .seed = 5, .index = 7};
        const Task a = make(info.id, options);
        const Task b = make(info.id, options);
        EXPECT_EQ(a.prompt(), b.prompt()) << info.id;
        EXPECT_EQ(a.answers, b.answers) << info.id;
        EXPECT_EQ(a.id, info.id);
        options.index = 8;
        EXPECT_NE(make(info.id, options).prompt(), a.prompt()) << info.id;
        options.index = 7;
        options.seed = 6;
        EXPECT_NE(make(info.id, options).prompt(), a.prompt()) << info.id;
        options.seed = 5;
        options.space = SeedSpace::kTraining;
        EXPECT_NE(make(info.id, options).prompt(), a.prompt()) << info.id;
    }
}

TEST(Tasks, EndWithinTwoPerCentUnderTheirLimit) {
    for (const auto & info : task_list()) {
        for (const int n_tokens : {256, 512, 1000, 1024, 2048, 4096}) {
            if (n_tokens < info.min_tokens) { continue; }
            for (const auto haystack : {Haystack::kNoise, Haystack::kWorld}) {
                for (uint64_t index = 0; index < 3; ++index) {
                    const Task task = make(info.id, {.n_tokens = n_tokens, .haystack = haystack, .index = index});
                    const int total = 1 + count_words(task.prompt()) + task.max_new_tokens;
                    EXPECT_LE(total, n_tokens) << info.id;
                    EXPECT_GE(total, n_tokens * 98 / 100) << info.id << " at " << n_tokens;
                    EXPECT_GE(task.max_new_tokens, count_words(task.completion)) << info.id;
                }
            }
        }
    }
}

TEST(Tasks, AreAnsweredByAReaderOfTheContext) {
    for (const auto & info : task_list()) {
        for (uint64_t index = 0; index < 30; ++index) {
            for (const auto haystack : {Haystack::kNoise, Haystack::kWorld}) {
                const Task task = make(info.id, {.n_tokens = 1024, .haystack = haystack, .index = index});
                const std::string said = info.id == "facts" ? facts_oracle(task) : oracle(task);
                EXPECT_EQ(score(task, said), 1.0) << info.id << ": " << task.question << " said" << said;
                EXPECT_EQ(score(task, task.completion), 1.0);
            }
        }
    }
}

TEST(Tasks, AreNotAnsweredByAGuess) {
    for (const auto & info : task_list()) {
        double sum = 0;
        const Task other = make(info.id, {.n_tokens = 512, .seed = 99});
        constexpr int kSamples = 40;
        for (uint64_t index = 0; index < kSamples; ++index) {
            sum += score(make(info.id, {.n_tokens = 512, .index = index}), other.completion);
        }
        EXPECT_LE(sum / kSamples, info.id == "facts" || info.id == "cwe" ? 0.2 : 0.0) << info.id;
    }
}

TEST(Tasks, StateEachAnswerWordForWord) {
    for (const auto & info : task_list()) {
        const Task task = make(info.id, {.n_tokens = 800, .index = 3});
        for (const auto & answer : task.answers) {
            // The same space before it in the context and in the answer: the same tokens.
            EXPECT_NE(task.context.find(" " + answer), std::string::npos) << info.id << " " << answer;
            EXPECT_NE(task.completion.find(" " + answer), std::string::npos) << info.id << " " << answer;
            if (info.id != "vt") { EXPECT_EQ((task.question + task.answer_prefix).find(answer), std::string::npos); }
        }
    }
}

TEST(Tasks, UseRulersWording) {
    const Task task = make("single", {.n_tokens = 256});
    const auto keys =
        all_matches(task.question, "^\nWhat is the special magic number for (\\w+-\\w+) mentioned in the provided text\\?$");
    ASSERT_EQ(keys.size(), 1U);
    EXPECT_EQ(task.answer_prefix, " The special magic number for " + keys[0] + " mentioned in the provided text is");
    EXPECT_EQ(
        task.context.rfind("A special magic number is hidden within the following text. Make sure to memorize it. I will quiz "
                           "you about the number afterwards.\n",
                           0),
        0U);
    EXPECT_NE(task.context.find("One of the special magic numbers for " + keys[0] + " is: " + task.answers[0] + "."),
              std::string::npos);
    EXPECT_NE(task.context.find("The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.\n"),
              std::string::npos);
    EXPECT_EQ(make("multikey", {.n_tokens = 512}).answers.size(), 1U);
    EXPECT_EQ(make("multivalue", {.n_tokens = 512}).answers.size(), 4U);
    EXPECT_EQ(make("vt", {.n_tokens = 512}).answers.size(), 5U);
    EXPECT_EQ(make("cwe", {.n_tokens = 1024}).answers.size(), 10U);
}

TEST(Tasks, PlaceTheNeedleAtTheDepthAskedFor) {
    for (const auto haystack : {Haystack::kNoise, Haystack::kWorld}) {
        for (const double depth : {0.0, 0.25, 0.5, 0.75, 1.0}) {
            const Task task = make("multikey", {.n_tokens = 2048, .haystack = haystack, .depth = depth});
            const double at =
                static_cast<double>(task.context.find(task.answers[0])) / static_cast<double>(task.context.size());
            EXPECT_NEAR(at, depth, 0.08);
        }
    }
}

TEST(Tasks, NeverPutTwoWordsInTwoKeys) {
    const Task task = make("multikey", {.n_tokens = 512});
    std::set<std::string> words;
    const auto keys = all_matches(task.context, "magic numbers for (\\w+-\\w+) is");
    ASSERT_EQ(keys.size(), 4U);
    for (const auto & key : keys) {
        words.insert(key.substr(0, key.find('-')));
        words.insert(key.substr(key.find('-')));
    }
    EXPECT_EQ(words.size(), 8U);
}

TEST(Tasks, RefuseWhatCannotBe) {
    const auto unknown = make_task("needle", {}, count_words);
    ASSERT_FALSE(unknown.ok());
    EXPECT_NE(unknown.status().message().find("single, multikey"), std::string::npos);
    for (const auto & info : task_list()) {
        for (const int n_tokens : {-1, 0, 20, info.min_tokens - 1}) {
            EXPECT_FALSE(make_task(info.id, {.n_tokens = n_tokens}, count_words).ok()) << info.id;
        }
        EXPECT_TRUE(make_task(info.id, {.n_tokens = info.min_tokens}, count_words).ok()) << info.id;
    }
}

TEST(Score, IsTheShareOfReferencesInAnyCase) {
    Task task;
    task.answers = {"Alpha", "12", "x"};
    EXPECT_DOUBLE_EQ(score(task, "ALPHA and 123"), 2.0 / 3.0);
    EXPECT_DOUBLE_EQ(score(task, ""), 0.0);
    task.answers.clear();
    EXPECT_DOUBLE_EQ(score(task, "anything"), 0.0);
}

TEST(Tasks, SayWhereTheNeedlesOfTheQuestionStand) {
    for (const auto & info : task_list()) {
        for (const Haystack haystack : {Haystack::kNoise, Haystack::kWorld}) {
            for (uint64_t index = 0; index < 4; ++index) {
                const Task task = make(info.id, {.n_tokens = 700, .haystack = haystack, .index = index});
                const size_t n_expected = info.id == "cwe" ? 0 : info.id == "multivalue" ? 4 : info.id == "vt" ? 5 : 1;
                ASSERT_EQ(task.needles.size(), n_expected) << info.id;
                size_t end = 0;
                std::string said;
                for (const TextSpan & span : task.needles) {
                    EXPECT_GE(span.begin, end) << info.id;
                    ASSERT_LE(span.end, task.context.size()) << info.id;
                    end = span.end;
                    const std::string sentence = task.context.substr(span.begin, span.end - span.begin);
                    said += sentence;
                    EXPECT_EQ(sentence.find('\n'), std::string::npos) << sentence;
                    if (info.id != "vt") { EXPECT_EQ(sentence.back(), '.') << sentence; }
                }
                if (n_expected > 0) { EXPECT_EQ(score(task, said), 1.0) << info.id << ": " << said; }
            }
        }
    }
}

// One text for four questions; the first is make_task()'s, to the byte.
TEST(MultikeyTasks, AskForEachNeedleOfOneContext) {
    for (const Haystack haystack : {Haystack::kNoise, Haystack::kWorld}) {
        for (const uint64_t index : {0U, 3U}) {
            const TaskOptions options{.n_tokens = 600, .haystack = haystack, .seed = 5, .index = index};
            const auto tasks = make_multikey_tasks(options, count_words);
            ASSERT_TRUE(tasks.ok()) << tasks.status().message();
            ASSERT_EQ(tasks->size(), 4U);
            const Task alone = make("multikey", options);
            EXPECT_EQ(tasks->front().prompt(), alone.prompt());
            EXPECT_EQ(tasks->front().needles, alone.needles);
            EXPECT_EQ(tasks->front().completion, alone.completion);
            std::set<std::string> answers;
            for (const Task & task : *tasks) {
                EXPECT_EQ(task.context, alone.context);
                EXPECT_EQ(score(task, oracle(task)), 1) << task.question;
                ASSERT_EQ(task.needles.size(), 1U);
                const std::string needle =
                    task.context.substr(task.needles[0].begin, task.needles[0].end - task.needles[0].begin);
                EXPECT_NE(needle.find(" is: " + task.answers.at(0) + "."), std::string::npos) << needle;
                EXPECT_EQ(task.completion, " " + task.answers[0] + ".");
                answers.insert(task.answers[0]);
            }
            EXPECT_EQ(answers.size(), 4U);
        }
    }
    EXPECT_EQ(make_multikey_tasks({.n_tokens = 100}, count_words).status().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace pith::corpus::tasks_test
