// demo_report.h - the demo's results for people (tables) and programs (JSON, CSV).
#pragma once

#include <string>
#include <vector>

#include "eval/demo.h"
#include "eval/perplexity.h"
#include "ledger_report.h"

namespace pith::app {

void print_answers(const DemoOptions & options, const std::string & model_path, const std::vector<DemoRow> & rows);
Json answers_json(const DemoOptions & options, const std::string & model_path, const std::vector<DemoRow> & rows);
void print_answers_csv(const DemoOptions & options, const std::vector<DemoRow> & rows);

void print_perplexity(const PerplexityOptions & options, const std::string & model_path,
                      const std::vector<PerplexityRow> & rows);
Json perplexity_json(const PerplexityOptions & options, const std::string & model_path,
                     const std::vector<PerplexityRow> & rows);
void print_perplexity_csv(const std::vector<PerplexityRow> & rows);

}  // namespace pith::app
