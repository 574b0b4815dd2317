// options_test.cpp - option tables: validation, messages, and the text helpers below them.
#include "policy/part/options.h"

#include <gtest/gtest.h>

#include "core/text.h"

namespace pith::options_test {
namespace {

constexpr OptionSpec kTable[] = {
    integer_option("window", "32", 1, 64, "queries"),
    integer_option("recent", "8", 0, 100, "entries", "half|all"),
    real_option("alpha", "0.25", 0, 1, "a part"),
    word_option("pool", "max7", "max7|none", "pooling"),
};

std::string error_of(std::initializer_list<GivenOption> given) {
    const auto options = Options::parse("thing", kTable, std::vector<GivenOption>(given));
    if (options.ok()) return "";
    EXPECT_EQ(options.status().code(), ErrorCode::kInvalidArgument);
    return options.status().message();
}

TEST(Options, DefaultsStandWhereNothingIsGiven) {
    const Options options = Options::parse("thing", kTable, {}).value();
    EXPECT_EQ(options.integer("window"), 32);
    EXPECT_EQ(options.real("alpha"), 0.25);
    EXPECT_EQ(options.word("pool"), "max7");
}

TEST(Options, GivenValuesReplaceDefaults) {
    const std::vector<GivenOption> given = {{"recent", "half"}, {"window", "64"}, {"alpha", "1"}};
    const Options options = Options::parse("thing", kTable, given).value();
    EXPECT_TRUE(options.is("recent", "half"));
    EXPECT_EQ(options.integer("window"), 64);
    EXPECT_EQ(options.real("alpha"), 1.0);
}

TEST(Options, ErrorsNameThePartTheOptionTheValueAndTheLimits) {
    EXPECT_EQ(error_of({{"window", "65"}}), "option 'window' of policy part 'thing' is '65': must be an integer from 1 to 64");
    EXPECT_EQ(error_of({{"recent", "most"}}),
              "option 'recent' of policy part 'thing' is 'most': must be an integer from 0 to 100, or half, all");
    EXPECT_EQ(error_of({{"pool", "avg"}}), "option 'pool' of policy part 'thing' is 'avg': must be max7, none");
    EXPECT_EQ(error_of({{"windw", "3"}}),
              "policy part 'thing' has no option 'windw': did you mean 'window'? (it has window, recent, alpha, pool)");
    EXPECT_EQ(error_of({{"zzz", "3"}}), "policy part 'thing' has no option 'zzz' (it has window, recent, alpha, pool)");
    EXPECT_EQ(error_of({{"pool", "none"}, {"pool", "none"}}), "option 'pool' of policy part 'thing' is given twice");
    for (const char * value : {"", "1.5", "0", "-1", "1e1x", "nan", "inf", "half"})
        EXPECT_NE(error_of({{"window", value}}), "") << value;
    for (const char * value : {"-0.1", "1.1", "nan", "x"}) EXPECT_NE(error_of({{"alpha", value}}), "") << value;
    const std::vector<GivenOption> given = {{"x", "1"}};
    EXPECT_EQ(Options::parse("bare", {}, given).status().message(), "policy part 'bare' has no option 'x': it takes none");
}

TEST(Text, NearestIsWithinTwoEditsAndHalfOfTheLetters) {
    const std::vector<std::string_view> known = {"snapkv", "ada", "h2o", "tova"};
    EXPECT_EQ(nearest("snapvk", known), "snapkv");
    EXPECT_EQ(nearest("SnapKV", known), "snapkv");
    EXPECT_EQ(nearest("snap", known), "snapkv");
    EXPECT_EQ(nearest("tovaa", known), "tova");
    EXPECT_EQ(nearest("h20", known), "h2o");
    EXPECT_EQ(nearest("x", known), "");
    EXPECT_EQ(nearest("laprox", known), "");
}

TEST(Text, SplitJoinTrimAndNumbers) {
    EXPECT_EQ(split("a++b", '+'), (std::vector<std::string_view>{"a", "", "b"}));
    EXPECT_EQ(split("", '+'), (std::vector<std::string_view>{""}));
    EXPECT_EQ(join(split("a|b", '|'), ", "), "a, b");
    EXPECT_EQ(trim("  x y\n"), "x y");
    EXPECT_EQ(trim("   "), "");
    EXPECT_EQ(format_number(16777216), "16777216");
    EXPECT_EQ(format_number(1e6), "1000000");
    EXPECT_EQ(format_number(0.2), "0.2");
}

}  // namespace
}  // namespace pith::options_test
