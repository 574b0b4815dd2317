// grammar_choice_test.cpp - rules of two grammars, each under a name of its own.
#include "text/grammar_choice.h"

#include <gtest/gtest.h>

#include "text/grammar.h"

namespace pith::grammar_choice_test {
namespace {

TEST(GrammarChoice, RenamesRulesAndNothingElse) {
    const std::string one =
        "root ::= \"root \\\" x\" x-1 [root\\]x] # x-1\nx-1 ::= <[5]> !<root> y-2? ( root ){1,2} | y-2*\ny-2 ::= [^x]+";
    const std::string either = grammar_of_either(one, "root ::= \"b\"\n");
    EXPECT_EQ(either,
              "root ::= a-root | b-root\n"
              "a-root ::= \"root \\\" x\" a-x-1 [root\\]x] # x-1\na-x-1 ::= <[5]> !<root> a-y-2? ( a-root ){1,2} | "
              "a-y-2*\na-y-2 ::= [^x]+\n"
              "b-root ::= \"b\"\n");
    const auto read = read_grammar(either, [](std::string_view) { return std::optional<int32_t>(7); });
    EXPECT_TRUE(read.ok()) << read.status().message();
}

}  // namespace
}  // namespace pith::grammar_choice_test
