// lost_messages_test.cpp - what a template leaves out is noticed, and put together where there is room for it.
#include "text/lost_messages.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "text/jinja.h"
#include "text/tiny_vocabulary.h"

namespace pith::lost_messages_test {
namespace {

using testing::TempFolder;

const std::vector<ChatMessage> kLate = {{"system", "Be brief."},
                                        {"user", "What is the sky?"},
                                        {"assistant", "It is blue."},
                                        {"system", "Be long."},
                                        {"user", "And the sun?"}};

class LostMessages : public ::testing::Test {
protected:
    void SetUp() override {
        if (!has_jinja()) { GTEST_SKIP() << "built without minja"; }
    }
    std::vector<size_t> lost_in(const std::string & source, const std::vector<ChatMessage> & messages) {
        EXPECT_TRUE(tokenizer_.set_chat_template(source).ok());
        const auto text = tokenizer_.apply_chat_template(messages, true);
        EXPECT_TRUE(text.ok()) << text.status().message();
        return text.ok() ? lost_messages(tokenizer_, messages, {}, *text, /*cut=*/false) : std::vector<size_t>();
    }

    TempFolder folder_;
    Tokenizer tokenizer_ = *Tokenizer::load(testing::write_tiny(folder_));
};

TEST_F(LostMessages, AreFoundByTheirPlaces) {
    const std::string all = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
    EXPECT_EQ(lost_in(all, kLate), std::vector<size_t>());
    const std::string first =
        "{{ messages[0].content }}{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}\n{% endif %}{% endfor %}";
    EXPECT_EQ(lost_in(first, kLate), std::vector<size_t>{3});
    EXPECT_EQ(lost_in(first, with_one_system(kLate)), std::vector<size_t>());
    const std::string none =
        "{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}\n{% endif %}{% endfor %}pith_system";
    EXPECT_EQ(lost_in(none, with_one_system(kLate)), std::vector<size_t>{0});
    const std::string last = "{{ messages[0].content }}{{ messages[-1].content }}";
    EXPECT_EQ(lost_in(last, {kLate[0], kLate[1], kLate[2], kLate[4]}), std::vector<size_t>{1});
    // A text that is said otherwise is not lost, nor one that says nothing.
    EXPECT_EQ(lost_in("{% for m in messages %}{{ m.content | upper }}{{ m.content }}{% endfor %}", kLate),
              std::vector<size_t>());
    EXPECT_EQ(lost_in(all, {{"system", " "}, {"user", "x"}, {"system", ""}, {"user", "y"}}), std::vector<size_t>());
}

TEST_F(LostMessages, ArePutTogetherInFrontOfTheOthers) {
    const auto one = with_one_system(kLate);
    ASSERT_EQ(one.size(), 4U);
    EXPECT_EQ(one[0].content, "Be brief.\n\nBe long.");
    EXPECT_EQ(one[1].content, "What is the sky?");
    EXPECT_FALSE(has_late_system(one));
    EXPECT_TRUE(has_late_system(kLate));
}

// Words that no template may take apart: the same, in as few messages as there are turns.
TEST_F(LostMessages, StandInTurns) {
    const std::vector<ChatMessage> calls = {
        {"system", "s"}, {"user", "a"}, {"user", "b"},      {"assistant", "c", "", "[]"},  {"tool", "1"},
        {"tool", "2"},   {"user", "d"}, {"assistant", "e"}, {"assistant", "f", "", "[1]"}, {"assistant", "g"}};
    const auto text_of = [](const std::vector<ChatMessage> & messages) {
        std::string text;
        for (const ChatMessage & one : messages) { text += one.role[0] + (":" + one.content) + one.tool_calls + "|"; }
        return text;
    };
    const auto joined = with_neighbours_joined(calls);
    EXPECT_EQ(text_of(joined), "s:s|u:a\n\nb|a:c[]|t:1|t:2|u:d|a:e\n\nf[1]|a:g|");
    EXPECT_EQ(text_of(with_words_in_results(joined)), "s:s|u:a\n\nb|a:c[]|t:1|t:2\n\nd|a:e\n\nf[1]|a:g|");
}

// Of templates that models come with some lose a late system message, some refuse it, and all have room for one.
TEST_F(LostMessages, OfKnownTemplatesAllArriveAsOne) {
    std::set<std::string> losing;
    int n = 0;
    for (const auto & entry : std::filesystem::directory_iterator(PITH_SOURCE_DIR "/tests/text/templates")) {
        const std::vector<char> bytes = testing::read_file(entry.path().string());
        const std::string name = entry.path().stem().string();
        SCOPED_TRACE(name);
        ASSERT_TRUE(tokenizer_.set_chat_template({bytes.begin(), bytes.end()}).ok());
        const auto late = tokenizer_.apply_chat_template(kLate, true);
        if (late.ok() && !lost_messages(tokenizer_, kLate, {}, *late, false).empty()) { losing.insert(name); }
        const auto whole = with_one_system(kLate);
        const auto text = tokenizer_.apply_chat_template(whole, true);
        EXPECT_TRUE(text.ok()) << text.status().message();
        if (text.ok()) { EXPECT_EQ(lost_messages(tokenizer_, whole, {}, *text, false), std::vector<size_t>()) << *text; }
        ++n;
    }
    EXPECT_GT(n, 30);
    for (const char * name : {"apertus", "deepseek-r1", "gpt-oss", "hunyuan", "minimax-m2", "smollm3"}) {
        EXPECT_TRUE(losing.contains(name)) << name;
    }
}

}  // namespace
}  // namespace pith::lost_messages_test
