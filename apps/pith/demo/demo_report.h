// demo_report.h - the demo's results for people (tables) and programs (JSON, CSV).
#pragma once

#include <string>
#include <vector>

#include "common/base/ledger_report.h"
#include "engine/probe/demo.h"

namespace pith::app {

// The rows of one setting.
struct DemoColumn {
    bool question_aware = true;
    std::vector<DemoRow> rows;
};

// columns: one setting, or two with the same policies and budgets, side by side.
void print_answers(const DemoOptions & options, const std::string & model_path, const std::vector<DemoColumn> & columns);
Json answers_json(const DemoOptions & options, const std::string & model_path, const std::vector<DemoColumn> & columns);
void print_answers_csv(const DemoOptions & options, const std::vector<DemoColumn> & columns);

}  // namespace pith::app
