// contributing_test.cpp - the row that CONTRIBUTING.md shows for its example is the one that the example says of itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "pith/policies.h"
#include "policy/policies_page.h"

namespace pith::test::contributing_test {
namespace {

TEST(VatpOnThePage, HasTheRowThatItSaysOfItself) {
    const std::vector<PolicyInfo> all = list_policies();
    const auto vatp = std::ranges::find(all, "vatp", &PolicyInfo::name);
    ASSERT_NE(vatp, all.end());
    std::ifstream page(PITH_SOURCE_DIR "/CONTRIBUTING.md");
    std::vector<std::string> rows;
    for (std::string line; std::getline(page, line);) {
        if (line.starts_with("| `vatp`")) { rows.push_back(line); }
    }
    EXPECT_EQ(rows, std::vector<std::string>{row_of(*vatp)});
}

}  // namespace
}  // namespace pith::test::contributing_test
