// terminal_markdown_test.cpp - colours by Markdown, however the text comes in pieces; nothing of the text is lost.
#include "app/run/terminal_markdown.h"

#include <gtest/gtest.h>

#include <regex>

namespace pith::app::terminal_markdown_test {
namespace {

std::string shown(const std::string & text, size_t n_piece = 1000) {
    TerminalMarkdown markdown;
    std::string out;
    for (size_t i = 0; i < text.size(); i += n_piece) { out += markdown.add(text.substr(i, n_piece)); }
    return out + markdown.finish();
}

// B, b: bold on and off; I, i: italics; C, c: code.
std::string marked(const std::string & text) {
    std::string out = shown(text);
    const std::pair<const char *, const char *> names[] = {{"\033\\[1m", "<B>"},  {"\033\\[22m", "<b>"}, {"\033\\[3m", "<I>"},
                                                           {"\033\\[23m", "<i>"}, {"\033\\[36m", "<C>"}, {"\033\\[39m", "<c>"}};
    for (const auto & [code, name] : names) { out = std::regex_replace(out, std::regex(code), name); }
    return out;
}

const char * const kText =
    "# Title\nSome **strong** and *light* words, `code *x*` too.\n```c\nint *a = **b; // # `no`\n```\n2 * 3 ** 4, a*b*c, "
    "**open\n- *item*\n";

TEST(TerminalMarkdown, ColoursWhatMarksSay) {
    EXPECT_EQ(marked("# Title\nplain # no\n"), "<B># Title<b>\nplain # no\n");
    EXPECT_EQ(marked("a **b c** d *e* f"), "a <B>**b c**<b> d <I>*e*<i> f");
    EXPECT_EQ(marked("`a *b*` and ``c ` d``"), "<C>`a *b*`<c> and <C>``c ` d``<c>");
    EXPECT_EQ(marked("```py\n*a*\n# b\n```\n*c*"), "<C>```py\n*a*\n# b\n```<c>\n<I>*c*<i>");
}

TEST(TerminalMarkdown, LeavesArithmeticAndListsAlone) {
    EXPECT_EQ(marked("2 * 3 * 4\n* one\n* two\na*b*c #5 ####### seven"), "2 * 3 * 4\n* one\n* two\na*b*c #5 ####### seven");
}

TEST(TerminalMarkdown, EndsWhatWasLeftOpen) {
    EXPECT_EQ(marked("**open\nnext"), "<B>**open<b>\nnext");
    EXPECT_EQ(marked("```\ncode"), "<C>```\ncode<c>");
    EXPECT_EQ(marked("# heading"), "<B># heading<b>");
}

TEST(TerminalMarkdown, LosesNothingOfTheTextAndDoesNotCareForPieces) {
    const std::string whole = shown(kText);
    for (const size_t n : {1, 2, 3, 7}) { EXPECT_EQ(shown(kText, n), whole) << n; }
    EXPECT_EQ(std::regex_replace(whole, std::regex("\033\\[[0-9]+m"), ""), kText);
}

// A model may say what would move the cursor or change the window's title.
TEST(TerminalMarkdown, LetsNoControlCharacterThrough) {
    EXPECT_EQ(shown("a\033]0;title\007b\r\n\tc\xC2\x9B"
                    "31m\x7F"),
              "a\u241B]0;title\u241Bb\n\tc\u241B31m\u241B");
    EXPECT_EQ(shown("caf\xC3\xA9 \xC2\xA0"), "caf\xC3\xA9 \xC2\xA0");
}

}  // namespace
}  // namespace pith::app::terminal_markdown_test
