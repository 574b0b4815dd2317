// jinja_expressions_test.cpp - expressions give what Jinja2 gives (the texts are what jinja2 3.1 printed for them).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/chat_template.h"
#include "text/jinja.h"

namespace pith::jinja_expressions_test {
namespace {

constexpr const char * kVariables =
    "{% set a = 'A' %}{% set b = 'B' %}{% set empty = '' %}{% set zero = 0 %}{% set content = 'Hello x there' %}"
    "{% set word = 'Grüße' %}{% set items = ['1', '2', '3'] %}";

const std::vector<ChatMessage> kHello = {{"user", "Hello"}};

struct Expression {
    const char * text;
    const char * value;
};

TEST(JinjaExpressions, AreWorthWhatJinjaSays) {
    if (!has_jinja()) { GTEST_SKIP() << "built without minja"; }
    const std::vector<Expression> expressions = {
        {"(a and 'x') or 'y'", "x"},
        {"(empty and 'x') or 'y'", "y"},
        {"a and b", "B"},
        {"b and a", "A"},
        {"zero and 'x'", "0"},
        {"content[0]", "H"},
        {"content[-1]", "e"},
        {"content[99]", ""},
        {"word[1]", "r"},
        {"word[-2:]", "ße"},
        {"word[:2]", "Gr"},
        {"word[::-1]", "eßürG"},
        {"word[1:99]", "rüße"},
        {"word[-99:2]", "Gr"},
        {"word[::2]", "Güe"},
        {"word[5:1:-2]", "eü"},
        {"items[1:9]|join(',')", "2,3"},
        {"items[-99:2]|join(',')", "1,2"},
        {"items[::-1]|join(',')", "3,2,1"},
        {"items[9:]|join(',')", ""},
        {"content.split('x', 1)", "['Hello ', ' there']"},
        {"'a,b,c'.split(',', 1)", "['a', 'b,c']"},
        {"'a,b,c'.split(',')", "['a', 'b', 'c']"},
        {"'a,b,c'.split(',', maxsplit=1)", "['a', 'b,c']"},
        {"'  a b  c '.split()", "['a', 'b', 'c']"},
        {"' a b c '.split(none, 1)", "['a', 'b c ']"},
        {"'a,b,c'.rsplit(',', 1)", "['a,b', 'c']"},
        {"'a,b,c'.rsplit(',')", "['a', 'b', 'c']"},
        {"'a b c'.rsplit(none, 1)", "['a b', 'c']"},
        {"'  a b c '.rsplit(none, 1)", "['  a b', 'c']"},
        {"' a b '.split(none, 0)", "['a b ']"},
        {"' a b '.rsplit(none, 0)", "[' a b']"},
        {"'abcabc'.split('c')", "['ab', 'ab', '']"},
        {"''.split(',')", "['']"},
        {"''.split()", "[]"},
        {"'yes' if {} else 'no'", "no"},
        {"'yes' if {'a': 1} else 'no'", "yes"},
        {"0 in [0, 1]", "True"},
        {"false in [false]", "True"},
        {"'' in ['a', '']", "True"},
        {"2 in [0, 1]", "False"},
        {"nothing is undefined", "True"},
        {"a is undefined", "False"},
        {"word is sequence", "True"},
        {"items is sequence", "True"},
        {"{} is sequence", "True"},
        {"3 is sequence", "False"},
        {"'aXbXc'.split('X')[-1]", "c"},
        {"'</think>answer'.split('</think>')[-1]", "answer"},
        {"not (a and '')", "True"},
        {"(a or b) and word[0]", "G"},
    };
    for (const Expression & one : expressions) {
        const auto text =
            ChatTemplate(std::string(kVariables) + "{{ " + one.text + " }}|{{ messages[0].content }}", "<s>", "</s>")
                .render(kHello, {});
        ASSERT_TRUE(text.ok()) << one.text << ": " << text.status().message();
        EXPECT_EQ(*text, std::string(one.value) + "|Hello") << one.text;
    }
}

TEST(JinjaExpressions, ACutWithNothingIsRefused) {
    if (!has_jinja()) { GTEST_SKIP() << "built without minja"; }
    EXPECT_FALSE(ChatTemplate("{{ 'abc'.split('') }}{{ messages[0].content }}", "<s>", "</s>").render(kHello, {}).ok());
}

}  // namespace
}  // namespace pith::jinja_expressions_test
