#include "corpus/corpus.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

#include "corpus/word_counter.h"
#include "corpus/worlds.h"

namespace pith::corpus {
namespace {

int length(const Document & document) {
    int n = 1;  // the begin token
    for (const auto & segment : document.segments) { n += count_words(segment.text) + (segment.end ? 1 : 0); }
    return n;
}

TEST(Corpus, WritesTheSameDocumentForTheSameArguments) {
    for (const int n_tokens : {64, 128, 256, 512, 1024}) {
        for (uint64_t index = 0; index < 10; ++index) {
            const auto a = make_document(SeedSpace::kTraining, 1, index, n_tokens, count_words);
            const auto b = make_document(SeedSpace::kTraining, 1, index, n_tokens, count_words);
            EXPECT_EQ(a.text(), b.text());
            EXPECT_NE(a.text(), make_document(SeedSpace::kValidation, 1, index, n_tokens, count_words).text());
            EXPECT_NE(a.text(), make_document(SeedSpace::kTraining, 2, index, n_tokens, count_words).text());
            EXPECT_NE(a.text(), make_document(SeedSpace::kTraining, 1, index + 1, n_tokens, count_words).text());
            EXPECT_NE(a.text(), make_document(SeedSpace::kTraining, 1, index, n_tokens + 8, count_words).text());
        }
    }
}

TEST(Corpus, FillsItsDocumentsAndNeverOverflows) {
    for (const int n_tokens : {1, 48, 64, 100, 128, 256, 512, 1024, 2048}) {
        double filled = 0;
        constexpr int kDocuments = 60;
        const int limit = std::max(n_tokens, 48);
        for (uint64_t index = 0; index < kDocuments; ++index) {
            const auto document = make_document(SeedSpace::kTraining, 1, index, n_tokens, count_words);
            EXPECT_FALSE(document.segments.empty());
            EXPECT_LE(length(document), limit) << document.kind;
            filled += static_cast<double>(length(document)) / limit;
        }
        EXPECT_GE(filled / kDocuments, 0.85) << n_tokens;
    }
}

TEST(Corpus, MixesEveryRecipeOnLongDocuments) {
    std::map<std::string, int> kinds;
    for (uint64_t index = 0; index < 300; ++index) {
        ++kinds[make_document(SeedSpace::kTraining, 1, index, 1024, count_words).kind];
    }
    for (const auto * kind : {"pairs", "copy", "needles", "world", "vt", "cwe", "text", "task"}) {
        EXPECT_GT(kinds[kind], 0) << kind;
    }
}

TEST(Corpus, EveryAnswerWasSaidBefore) {
    int n_answers = 0;
    for (const int n_tokens : {64, 128, 256, 512, 1024}) {
        for (uint64_t index = 0; index < 60; ++index) {
            const auto document = make_document(SeedSpace::kTraining, 3, index, n_tokens, count_words);
            std::string before;
            for (const auto & segment : document.segments) {
                if (segment.end) {
                    EXPECT_EQ(segment.weight, 1.0F);
                    std::string answers = segment.text.substr(0, segment.text.size() - 1);
                    for (size_t at; !answers.empty(); answers = at == std::string::npos ? "" : answers.substr(at + 1)) {
                        at = answers.find(',');
                        EXPECT_NE(before.find(answers.substr(0, at)), std::string::npos) << document.kind << answers;
                        ++n_answers;
                    }
                }
                before += segment.text;
            }
        }
    }
    EXPECT_GT(n_answers, 500);
}

TEST(Corpus, AnswersOfNeedleDocumentsAreThoseOfTheContext) {
    const std::regex needle("special magic numbers for (\\w+-\\w+) is: (\\d+)\\.");
    int n_checked = 0;
    for (uint64_t index = 0; index < 300; ++index) {
        const auto document = make_document(SeedSpace::kTraining, 4, index, 512, count_words);
        if (document.kind != "needles") { continue; }
        const std::string text = document.text();
        std::map<std::string, std::string> values;  // key to " a, b." in the order of the text
        for (std::sregex_iterator it(text.begin(), text.end(), needle), end; it != end; ++it) {
            auto & list = values[(*it)[1]];
            list += (list.empty() ? " " : ", ") + (*it)[2].str();
        }
        std::string asked;
        for (const auto & segment : document.segments) {
            if (segment.text.find("\n") != std::string::npos) { asked.clear(); }
            asked += segment.text;
            if (!segment.end) { continue; }
            std::smatch key;
            ASSERT_TRUE(std::regex_search(asked, key, std::regex("(\\w+-\\w+)")));
            EXPECT_EQ(segment.text, values[key[1]] + ".");
            ++n_checked;
        }
    }
    EXPECT_GT(n_checked, 300);
}

TEST(Corpus, PiecesOfADocumentCanBeTokenisedApart) {
    // Every segment starts where no token spans: a space, a line break, punctuation, or the document's start.
    for (const int n_tokens : {64, 256, 1024}) {
        for (uint64_t index = 0; index < 60; ++index) {
            const auto document = make_document(SeedSpace::kTraining, 5, index, n_tokens, count_words);
            int parts = 0;
            std::string so_far;
            for (const auto & segment : document.segments) {
                ASSERT_FALSE(segment.text.empty()) << document.kind;
                const char first = segment.text.front();
                const bool after_break = so_far.empty() || so_far.back() == '\n';
                EXPECT_TRUE(after_break || first == ' ' || first == '\n' || first == '.' || first == ':' || first == '?' ||
                            first == '-')
                    << document.kind << ": " << segment.text;
                parts += count_words(segment.text);
                so_far += segment.text;
            }
            EXPECT_EQ(parts, count_words(document.text())) << document.kind;
        }
    }
}

TEST(Corpus, NeverTrainsOnATaskSample) {
    std::set<std::string> numbers;
    for (uint64_t index = 0; index < 50; ++index) {
        const auto task = make_task("single", {.n_tokens = 256, .index = index}, count_words);
        ASSERT_TRUE(task.ok());
        numbers.insert(task->answers[0]);
    }
    for (uint64_t index = 0; index < 200; ++index) {
        const std::string text = make_document(SeedSpace::kTraining, 1, index, 512, count_words).text();
        for (const auto & number : numbers) { EXPECT_EQ(text.find(number), std::string::npos); }
    }
}

TEST(Corpus, PlainTextAsksNothing) {
    const auto text = make_plain_text(SeedSpace::kValidation, 1, 0, 512, count_words);
    EXPECT_EQ(text.text().find('?'), std::string::npos);
    EXPECT_LE(length(text), 512);
    EXPECT_GE(length(text), 480);
}

TEST(Worlds, EveryStatementHoldsItsAnswerAndNoQuestionDoes) {
    Random random(SeedSpace::kTask, 11, 0);
    for (int round = 0; round < 50; ++round) {
        for (const auto & fact : make_world(random, 40)) {
            for (const auto & statement : fact.statements) {
                const auto parts = split_statement(statement, fact.answer);
                EXPECT_EQ(parts.before + parts.answer + parts.after, statement);
                EXPECT_EQ(parts.answer, " " + fact.answer) << statement;
            }
            for (const auto & question : fact.questions) {
                EXPECT_EQ(question.find(" " + fact.answer + "?"), std::string::npos) << question;
            }
        }
    }
}

TEST(Worlds, NeverAskTheSameQuestionForTwoAnswers) {
    Random random(SeedSpace::kTask, 12, 0);
    for (int n = 1; n <= 60; ++n) {
        std::set<std::string> questions;
        for (const auto & fact : make_world(random, n)) {
            for (const auto & question : fact.questions) { EXPECT_TRUE(questions.insert(question).second) << question; }
        }
    }
}

TEST(VocabularySentences, HoldTheWordsOfEveryTask) {
    std::string all;
    for (const auto & sentence : vocabulary_sentences()) { all += sentence + "\n"; }
    for (const auto & info : task_list()) {
        const auto task = make_task(info.id, {.n_tokens = 1024}, count_words);
        ASSERT_TRUE(task.ok());
        const std::string text = task->prompt();
        const std::regex word(" [A-Za-z]{2,}");
        for (std::sregex_iterator it(text.begin(), text.end(), word), end; it != end; ++it) {
            const std::string found = (*it)[0];
            if (found.size() == 6 && std::isupper(static_cast<unsigned char>(found[2])) != 0) { continue; }  // a random name
            EXPECT_NE(all.find(found), std::string::npos) << found;
        }
    }
}

}  // namespace
}  // namespace pith::corpus
