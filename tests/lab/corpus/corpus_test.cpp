#include "corpus/corpus.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "corpus/conversations.h"
#include "corpus/training_wording.h"
#include "lab/corpus/word_counter.h"
#include "tasks/wording.h"
#include "tasks/worlds.h"

namespace pith::corpus::corpus_test {
namespace {

int length(const Document & document) {
    int n = 1;  // the begin token
    for (const auto & segment : document.segments) {
        n += (segment.control == Control::kNone ? count_words(segment.text) : 1) + (segment.end ? 1 : 0);
    }
    return n;
}

// The words of a text without the punctuation at their ends.
std::vector<std::string> bare_words(const std::string & text) {
    std::vector<std::string> out;
    std::istringstream in(text);
    for (std::string word; in >> word;) {
        while (!word.empty() && (word.back() == '.' || word.back() == ',')) { word.pop_back(); }
        if (!word.empty()) { out.push_back(word); }
    }
    return out;
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
    for (const auto kind : document_kinds()) { EXPECT_GT(kinds[std::string(kind)], 0) << kind; }
}

TEST(Corpus, AMixtureAsksForItsKindsAlone) {
    for (const auto kind : document_kinds()) {
        for (uint64_t index = 0; index < 10; ++index) {
            const auto document = make_document(SeedSpace::kTraining, 1, index, 1024, count_words, {{std::string(kind), 0.5}});
            EXPECT_EQ(document.kind, kind);
        }
    }
}

TEST(Corpus, EveryAnswerWasSaidBefore) {
    int n_answers = 0;
    for (const int n_tokens : {64, 128, 256, 512, 1024}) {
        for (uint64_t index = 0; index < 60; ++index) {
            const auto document = make_document(SeedSpace::kTraining, 3, index, n_tokens, count_words);
            if (document.kind == "talk") { continue; }  // "I do not know." was not said before
            std::string before;
            for (const auto & segment : document.segments) {
                if (segment.weight == 1.0F && segment.control == Control::kNone) {
                    for (const auto & word : bare_words(segment.text)) {
                        EXPECT_NE(before.find(word), std::string::npos) << document.kind << ": " << word;
                        ++n_answers;
                    }
                }
                before += segment.text;
            }
        }
    }
    EXPECT_GT(n_answers, 5000);
}

// A form of training_wording.h as a pattern: the key, then the value.
std::regex pattern_of(std::string_view form) {
    std::string out;
    for (size_t i = 0; i < form.size(); ++i) {
        if (form[i] != '$') {
            if (form[i] == '.' || form[i] == '?') { out += '\\'; }
            out += form[i];
            continue;
        }
        ++i;
        out += form[i] == 'k' ? "\\w+" : "([\\w-]+)";
        if (form[i] == 'k' && i + 1 < form.size() && form[i + 1] == 's') { ++i; }
    }
    return std::regex(out);
}

TEST(Corpus, AnswersOfNeedleDocumentsAreThoseOfTheContext) {
    int n_checked = 0;
    int n_stand_ins = 0;
    for (uint64_t index = 0; index < 150; ++index) {
        const auto document = make_document(SeedSpace::kTraining, 4, index, 512, count_words, {{"needles", 1.0}});
        if (document.kind != "needles") {  // a question was too long for the document
            EXPECT_LE(++n_stand_ins, 5);
            continue;
        }
        const std::string text = document.text();
        // In the order of the text: where a key got a value.
        std::map<std::ptrdiff_t, std::pair<std::string, std::string>> needles;
        for (const auto form : training::kNeedleStatements) {
            const std::regex pattern = pattern_of(form);
            for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
                needles[(*it).position(1)] = {(*it)[1], (*it)[2]};
            }
        }
        std::map<std::string, std::string> values;
        for (const auto & [at, needle] : needles) {
            auto & list = values[needle.first];
            list += (list.empty() ? "" : ", ") + needle.second;
        }
        ASSERT_FALSE(values.empty()) << text;
        // Every answer of weight 1 that ends with a full stop: the values of the keys asked for since the last one.
        std::string asked;
        for (size_t i = 0; i < document.segments.size(); ++i) {
            const auto & segment = document.segments[i];
            const bool ended = segment.end || (i + 1 < document.segments.size() && segment.weight == 1.0F &&
                                               document.segments[i + 1].control == Control::kTurnEnd);
            if (!ended) {
                const bool begins = (segment.text.front() == '\n' && segment.text.size() > 1) || segment.text == "user\n";
                if (begins) { asked.clear(); }
                asked += segment.text;
                continue;
            }
            std::map<size_t, std::string> by_place;
            for (const auto & [key, value] : values) {
                const size_t at = asked.find(" " + key);
                const char after = at == std::string::npos ? ' ' : (asked + " ")[at + 1 + key.size()];
                if (at != std::string::npos && std::isalnum(static_cast<unsigned char>(after)) == 0 && after != '-') {
                    by_place[at] = value;
                }
            }
            std::string expected;
            for (const auto & [at, value] : by_place) { expected += (expected.empty() ? " " : ", ") + value; }
            EXPECT_EQ(segment.text, expected + ".") << asked;
            asked.clear();
            ++n_checked;
        }
    }
    EXPECT_GT(n_checked, 300);
}

TEST(Corpus, NeverSaysTheSentencesThatTheTasksSay) {
    std::vector<std::string> held_out = {"special magic",
                                         "mentioned in the provided text",
                                         "Memorize and track the chain(s)",
                                         "that are assigned the value",
                                         "In these words, some appear more often",
                                         "most common words in the above list",
                                         "words that appear most often in the list",
                                         "three most frequently appeared",
                                         "According to the coded text"};
    for (int i = 0; i < kNoiseSentences; ++i) { held_out.emplace_back(noise_sentence(i)); }
    for (const int n_tokens : {64, 256, 1024}) {
        for (uint64_t index = 0; index < 200; ++index) {
            const std::string text = make_document(SeedSpace::kTraining, 7, index, n_tokens, count_words).text();
            for (const auto & sentence : held_out) { EXPECT_EQ(text.find(sentence), std::string::npos) << sentence; }
        }
    }
    // … and the tasks do say them.
    std::string tasks = std::string(kTrackingPreamble) + std::string(kCommonPreamble) + tracking_question("1") +
                        common_question(10) + common_prefix(10) + needle_sentence("a-b", "1") + needle_question("a-b", false);
    for (size_t i = 0; i < 7; ++i) { EXPECT_NE(tasks.find(held_out[i]), std::string::npos) << held_out[i]; }
}

TEST(Corpus, NeverAsksInTheHeldOutWayForWhatWasSaidInTheHeldOutWay) {
    // Every relation and subject there is, with how it is said and asked.
    std::map<std::pair<int, std::string>, Fact> facts;
    Random random(SeedSpace::kTask, 21, 0);
    for (int round = 0; round < 300; ++round) {
        for (const auto & fact : make_world(random, 40)) { facts.try_emplace({fact.relation, fact.subject}, fact); }
    }
    ASSERT_EQ(facts.size(), 9U * 20U);
    int n_said = 0;
    for (uint64_t index = 0; index < 200; ++index) {
        for (const char * kind : {"world", "talk"}) {
            const auto document = make_document(SeedSpace::kTraining, 8, index, 512, count_words, {{kind, 1.0}});
            const std::string text = document.text();
            for (const auto & [name, fact] : facts) {
                const std::string said = split_statement(fact.statements[kHeldOutStatement], fact.answer).before + " ";
                const auto asked = text.find(fact.questions[kHeldOutQuestion]);
                // The last time it was said before it was asked (a conversation may say it again in another way).
                const auto at = text.rfind(said, asked);
                if (at == std::string::npos || asked == std::string::npos) { continue; }
                ++n_said;
                bool again = false;
                for (const size_t form : {size_t{0}, size_t{1}}) {
                    const auto later = text.rfind(split_statement(fact.statements[form], fact.answer).before + " ", asked);
                    again = again || (later != std::string::npos && later > at);
                }
                EXPECT_TRUE(again) << document.kind << ": " << said << " / " << fact.questions[kHeldOutQuestion];
            }
        }
    }
    EXPECT_GT(n_said, 0);  // the search does find pairs that a conversation mended
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
                if (segment.control != Control::kNone) {  // a token of its own
                    EXPECT_EQ(parts, count_words(so_far)) << document.kind << ": " << so_far;
                    parts = 0;
                    so_far.clear();
                    continue;
                }
                const bool after_break = so_far.empty() || so_far.back() == '\n';
                EXPECT_TRUE(after_break || std::string_view(" \n.:?-,!;").find(segment.text.front()) != std::string_view::npos)
                    << document.kind << ": " << segment.text;
                parts += count_words(segment.text);
                so_far += segment.text;
            }
            EXPECT_EQ(parts, count_words(so_far)) << document.kind;
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

TEST(Worlds, LinkedOnesAskForTheOwnersFact) {
    Random random(SeedSpace::kTask, 13, 0);
    for (int n = 1; n <= 20; ++n) {
        const auto facts = make_linked_world(random, n);
        ASSERT_EQ(facts.size(), 2U * static_cast<size_t>(n));
        for (size_t i = 0; i < facts.size(); i += 2) {
            EXPECT_EQ(facts[i].answer, facts[i + 1].subject);
            const std::string question = linked_question(facts[i], facts[i + 1], 0);
            EXPECT_NE(question.find("the owner of the " + facts[i].subject), std::string::npos);
            EXPECT_EQ(question.find(facts[i].answer), std::string::npos);
        }
    }
}

TEST(Conversations, AnswerWithWhatWasSaidLast) {
    // What statements say, by relation: patterns with the subject and the answer left open.
    struct Pattern {
        int relation;
        bool is_first;  // how answers say it
        std::regex says;
    };
    std::vector<Pattern> patterns;
    std::set<int> known;
    Random random(SeedSpace::kTask, 14, 0);
    while (known.size() < 9) {
        for (const auto & fact : make_world(random, 40)) {
            if (!known.insert(fact.relation).second) { continue; }
            for (const std::string & text : fact.statements) {
                const auto parts = split_statement(text, fact.answer);
                std::string after = parts.after;
                after.replace(after.size() - 1, 1, "\\.");
                std::string form = parts.before + " (\\w+)" + after;
                form.replace(form.find(fact.subject), fact.subject.size(), "(\\w+)");
                patterns.push_back({fact.relation, text == fact.statements[0], std::regex(form)});
            }
        }
    }
    int n_asked = 0, n_corrected = 0, n_in_vain = 0;
    for (int round = 0; round < 100; ++round) {
        const bool held_out = round % 2 == 1;
        const auto exchanges = make_conversation(random, random.between(2, 20), 24, random.between(0, 10), held_out);
        ASSERT_EQ(exchanges.size(), 24U);
        std::map<std::pair<int, std::string>, std::string> state;  // what was said last of a relation and subject
        for (const auto & exchange : exchanges) {
            if (!exchange.asks) {
                for (const auto & pattern : patterns) {
                    for (std::sregex_iterator it(exchange.user.begin(), exchange.user.end(), pattern.says), end; it != end;
                         ++it) {
                        auto & value = state[{pattern.relation, (*it)[1]}];  // the subject stands first in every form
                        n_corrected += !value.empty() && value != (*it)[2] ? 1 : 0;
                        value = (*it)[2];
                    }
                }
                continue;
            }
            ++n_asked;
            if (exchange.assistant == "I do not know.") {
                ++n_in_vain;
                continue;
            }
            int n_said = 0;
            for (const auto & pattern : patterns) {
                std::smatch said;
                if (!pattern.is_first || !std::regex_match(exchange.assistant, said, pattern.says)) { continue; }
                EXPECT_EQ(said[2], exchange.answer);
                const std::pair<int, std::string> name = {pattern.relation, said[1]};
                EXPECT_EQ(state[name], exchange.answer) << exchange.user << " -> " << exchange.assistant;
                ++n_said;
            }
            EXPECT_EQ(n_said, 1) << exchange.assistant;
        }
    }
    EXPECT_GT(n_asked, 800);
    EXPECT_GT(n_corrected, 50);
    EXPECT_GT(n_in_vain, 20);
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
}  // namespace pith::corpus::corpus_test
