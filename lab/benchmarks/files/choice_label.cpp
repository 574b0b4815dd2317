// choice_label.cpp - see choice_label.h.
#include "benchmarks/files/choice_label.h"

#include <cstddef>

namespace pith::benchmarks {

Result<Choice> read_choice(const Record & record) {
    constexpr size_t kOptions = 4;
    Choice choice;
    PITH_ASSIGN_OR_RETURN(choice.options, record.texts("options"));
    if (choice.options.size() < kOptions) {
        return record.bad("options", "holds " + std::to_string(choice.options.size()) + " options where 4 belong");
    }
    PITH_ASSIGN_OR_RETURN(choice.label, record.texts("answer"));
    const bool has_letter =
        choice.label.size() == 2 && choice.label[1].size() == 1 && choice.label[1][0] >= 'A' && choice.label[1][0] <= 'D';
    if (has_letter) { return choice; }
    if (choice.label.size() != 1) {
        return record.bad("answer", "must be one option's text, or its text and its letter A … D");
    }
    for (size_t i = 0; i < kOptions; ++i) {
        if (choice.options[i] != choice.label[0]) { continue; }
        choice.label.emplace_back(1, static_cast<char>('A' + i));
        return choice;
    }
    return record.bad("answer", "is none of the four options");
}

}  // namespace pith::benchmarks
