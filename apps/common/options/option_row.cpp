// option_row.cpp - the lists that choices come from.
#include "common/options/option_row.h"

#include <algorithm>

#include "pith/policies.h"
#include "tasks/tasks.h"

namespace pith::app {

void add_once(Words & words, std::string_view word) {
    if (std::find(words.begin(), words.end(), word) == words.end()) { words.emplace_back(word); }
}

Words policy_words() {
    Words words;
    for (const PolicyInfo & policy : list_policies()) { add_once(words, policy.name); }
    return words;
}

Words policies_or_all() {
    Words words = policy_words();
    words.emplace_back("all");
    return words;
}

Words demo_tasks() {
    Words words;
    for (const corpus::TaskInfo & task : corpus::task_list()) { add_once(words, task.id); }
    return words;
}

Words choices_of(const OptionRow & row) {
    if (row.list != nullptr) { return row.list(); }
    Words words;
    any_word(row.choices, ' ', [&](std::string_view word) {
        words.emplace_back(word);
        return false;
    });
    return words;
}

}  // namespace pith::app
