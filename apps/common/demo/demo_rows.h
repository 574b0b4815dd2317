// demo_rows.h - how tables of `pith demo` begin their rows. Rows have a policy and a budget.
#pragma once

#include <cstdio>
#include <string>

namespace pith::app {

// Without a budget the whole cache stays, or what gates keep of it.
template <class Row>
const char * budget_text(const Row & row) {
    if (!row.budget.empty()) { return row.budget.c_str(); }
    return row.policy == "full" ? "all" : "gates";
}

// A blank line between budgets.
template <class Row>
void begin_row(const Row & row, std::string & budget, int width) {
    if (row.budget != budget) { std::puts(""); }
    budget = row.budget;
    std::printf("%-*s  %8s", width, row.policy.c_str(), budget_text(row));
}

}  // namespace pith::app
