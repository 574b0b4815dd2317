// policies_page_test.cpp - the tables of docs/policies.md say of every part what it says of itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "pith/policies.h"
#include "policy/policies_page.h"

namespace pith::test::policies_page_test {
namespace {

std::string row_of_alias(const PolicyInfo & alias) {
    return "| `" + alias.name + "` | `" + alias.meaning + "` |";
}

// The rows that begin with a name, of the section under `heading`.
std::set<std::string> rows_under(std::string_view heading) {
    std::ifstream page(PITH_SOURCE_DIR "/docs/policies.md");
    std::set<std::string> rows;
    bool inside = false;
    for (std::string line; std::getline(page, line);) {
        if (line.starts_with("## ")) { inside = line == heading; }
        if (inside && line.starts_with("| `")) { rows.insert(line); }
    }
    return rows;
}

std::set<std::string> rows_of_kind(std::string_view kind) {
    std::set<std::string> rows;
    for (const PolicyInfo & part : list_policies()) {
        if (part.kind == kind) { rows.insert(kind == "alias" ? row_of_alias(part) : row_of(part)); }
    }
    return rows;
}

void expect_rows(std::string_view kind, std::string_view heading) {
    const std::set<std::string> expected = rows_of_kind(kind);
    const std::set<std::string> found = rows_under(heading);
    ASSERT_FALSE(expected.empty()) << kind;
    for (const std::string & row : expected) {
        EXPECT_TRUE(found.contains(row)) << "docs/policies.md lacks this row under \"" << heading << "\":\n" << row;
    }
    for (const std::string & row : found) {
        EXPECT_TRUE(expected.contains(row))
            << "docs/policies.md has a row under \"" << heading << "\" that no " << kind << " says of itself:\n"
            << row;
    }
}

TEST(PoliciesPage, HasTheRowThatEveryPartSaysOfItself) {
    expect_rows("scorer", "## Scorers");
    expect_rows("refiner", "## Refiners");
    expect_rows("allocator", "## Allocators");
    expect_rows("selector", "## Selectors");
}

TEST(PoliciesPage, HasEveryAlias) {
    expect_rows("alias", "## Grammar");
}

}  // namespace
}  // namespace pith::test::policies_page_test
