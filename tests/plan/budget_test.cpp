// budget_test.cpp - budgets as users write them.
#include "pith/budget.h"

#include <gtest/gtest.h>

#include <limits>

namespace pith::budget_test {
namespace {

void expect_budget(const char * text, BudgetKind kind, double value, const char * printed) {
    const auto budget = Budget::parse(text);
    ASSERT_TRUE(budget.ok()) << text << ": " << budget.status().message();
    EXPECT_EQ(budget->kind, kind) << text;
    EXPECT_EQ(budget->value, value) << text;
    EXPECT_EQ(budget->to_string(), printed);
}

TEST(Budget, ReadsEntriesPerCentAndBytes) {
    expect_budget("1024", BudgetKind::kEntries, 1024, "1024");
    expect_budget("1", BudgetKind::kEntries, 1, "1");
    expect_budget("1000000", BudgetKind::kEntries, 1e6, "1000000");
    expect_budget(" 20% ", BudgetKind::kPercent, 20, "20%");
    expect_budget("2.5%", BudgetKind::kPercent, 2.5, "2.5%");
    expect_budget("100%", BudgetKind::kPercent, 100, "100%");
    expect_budget("512K", BudgetKind::kBytes, 512.0 * 1024, "512K");
    expect_budget("512M", BudgetKind::kBytes, 512.0 * 1024 * 1024, "512M");
    expect_budget("2G", BudgetKind::kBytes, 2.0 * 1024 * 1024 * 1024, "2G");
    expect_budget("1.5G", BudgetKind::kBytes, 1536.0 * 1024 * 1024, "1536M");
    for (const char * text : {"512MB", "512 MiB", "512mb", "512m", "0.5 GB", "524288K"}) {
        expect_budget(text, BudgetKind::kBytes, 512.0 * 1024 * 1024, "512M");
    }
    expect_budget("20 %", BudgetKind::kPercent, 20, "20%");
    expect_budget("4k", BudgetKind::kEntries, 4096, "4096");  // tokens; 4K are bytes
    expect_budget("1.5k", BudgetKind::kEntries, 1536, "1536");
    EXPECT_EQ(Budget().to_string(), "none");
    EXPECT_EQ(Budget(64).to_string(), "64");
}

TEST(Budget, WhatItPrintsReadsBackAsTheSame) {
    for (const char * text : {"7", "33.3%", "1.5K", "3M", "1025K", "0.001M"}) {
        const Budget budget = Budget::parse(text).value();
        const auto again = Budget::parse(budget.to_string());
        ASSERT_TRUE(again.ok()) << budget.to_string();
        EXPECT_EQ(again->kind, budget.kind);
        EXPECT_EQ(again->value, budget.value);
    }
}

TEST(Budget, RefusesWhatIsNoBudgetAndSaysWhy) {
    for (const char * text :
         {"",      "0",     "0%",          "0M",      "-5",  "-5%", "200%",  "100.1%", "junk", "12x",
          "12 X",  "512MX", "1.5",         "nan",     "inf", "1e3", "0x10",  "%",      "M",    "99999999999",
          "1e400", "20%%",  "9999999999G", "0.0001K", "--5", "+5",  "4kB k", "0.3k",   "5 B"}) {
        const auto budget = Budget::parse(text);
        ASSERT_FALSE(budget.ok()) << text;
        EXPECT_EQ(budget.status().code(), ErrorCode::kInvalidArgument) << text;
        EXPECT_NE(budget.status().message().find(std::string("'") + text + "'"), std::string::npos)
            << budget.status().message();
    }
    EXPECT_NE(Budget::parse("200%").status().message().find("100%"), std::string::npos);
    EXPECT_NE(Budget::parse("junk").status().message().find("512M"), std::string::npos);
}

// Budgets are made without parse(), too.
TEST(Budget, ChecksWhatAProgramGives) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double infinite = std::numeric_limits<double>::infinity();
    for (const BudgetKind kind : {BudgetKind::kEntries, BudgetKind::kPercent, BudgetKind::kBytes}) {
        for (const double value : {0.0, -1.0, nan, infinite, -infinite, 1e30}) {
            const Status status = Budget(kind, value).check();
            EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument) << static_cast<int>(kind) << " " << value;
            EXPECT_NE(status.message().find("the budget is "), std::string::npos) << status.message();
        }
    }
    EXPECT_EQ(Budget(-1).check().message(),
              "the budget is -1 tokens per head: give 1 to 2147483647, or BudgetKind::kNone for no limit");
    EXPECT_FALSE(Budget(BudgetKind::kEntries, 0.5).check().ok()) << "cut off it is 0: no limit";
    EXPECT_FALSE(Budget(BudgetKind::kPercent, 100.5).check().ok());
    for (const Budget & good : {Budget(), Budget(1), Budget(BudgetKind::kPercent, 0.5), Budget(BudgetKind::kPercent, 100),
                                Budget(BudgetKind::kBytes, 1), Budget(BudgetKind::kAuto, 0), Budget(BudgetKind::kNone, -1)}) {
        EXPECT_TRUE(good.check().ok()) << good.to_string();
    }
}

}  // namespace
}  // namespace pith::budget_test
