#include "tasks/identifiers.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>

namespace pith::corpus::identifiers_test {
namespace {

TEST(Identifiers, HaveTheFormOfTheirKind) {
    const std::pair<Kind, const char *> forms[] = {
        {Kind::kWord, "[a-z]+"},
        {Kind::kCompound, "[a-z]+-[a-z]+"},
        {Kind::kCoined, "([bcdfgklmnprstvz][aeiou]){2,3}[a-z]?"},
        {Kind::kTwoDigits, "[1-9][0-9]"},
        {Kind::kFourDigits, "[1-9][0-9]{3}"},
        {Kind::kSevenDigits, "[1-9][0-9]{6}"},
        {Kind::kHex, "[0-9a-f]{8}"},
        {Kind::kCapitals, "[A-Z]{5}"},
        {Kind::kLetters, "[a-z]{6}"},
        {Kind::kUuid, "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"}};
    Random random(SeedSpace::kTask, 31, 0);
    for (const auto & [kind, form] : forms) {
        const std::regex pattern(form);
        for (int i = 0; i < 50; ++i) {
            const std::string item = draw(random, kind);
            EXPECT_TRUE(std::regex_match(item, pattern)) << item << " is not " << form;
        }
    }
}

TEST(Identifiers, AreDifferentAndCompoundsShareNoWord) {
    Random random(SeedSpace::kTask, 32, 0);
    for (const Kind kind : {Kind::kWord, Kind::kCompound, Kind::kTwoDigits, Kind::kUuid}) {
        std::set<std::string> seen, words;
        for (const auto & item : draw_different(random, kind, 40)) {
            EXPECT_TRUE(seen.insert(item).second) << item;
            if (kind != Kind::kCompound) { continue; }
            EXPECT_TRUE(words.insert(item.substr(0, item.find('-'))).second) << item;
            EXPECT_TRUE(words.insert(item.substr(item.find('-'))).second) << item;
        }
        EXPECT_EQ(seen.size(), 40U);
    }
}

}  // namespace
}  // namespace pith::corpus::identifiers_test
