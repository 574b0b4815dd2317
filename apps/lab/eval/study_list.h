// study_list.h - what `pith study --list` shows: a paper's tables and figures with their commands, the parts, its own numbers.
#pragma once

#include <string_view>

#include "eval/studies/studies.h"

namespace pith::app {

// The studies and their parts, briefly.
void list_studies();
// One study in full: each table and figure with its command or the reason why there is none; the parts' settings.
void list_study(const Study & study);
// The same of one study or of all (nullptr) as JSON.
void list_as_json(const Study * study);

// The paper's numbers alone, of one part or of all (empty); details: by task. The exit code.
int list_paper_numbers(const Study & study, std::string_view part, bool details, bool json);

}  // namespace pith::app
