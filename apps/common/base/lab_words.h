// lab_words.h - the commands of the laboratory: `pith` lists them with its own and starts pith-lab for them.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace pith::app {

struct LabWord {
    const char * name;
    const char * help;
};

inline constexpr LabWord kTrainWord = {"train", "Train a model from a recipe; Ctrl-C stops it, the same command goes on"};
inline constexpr LabWord kEvalWord = {"eval", "Benchmarks under policies and budgets, in one table"};
inline constexpr LabWord kStudyWord = {
    "study", "A paper's tables and figures on your model: caote, criticalkv, score, laprox, attention-gate"};
inline constexpr LabWord kInspectWord = {
    "inspect",
    "Show what policies keep of a text, and what that changes; with --gate and no --policy: what gates keep; with "
    "--attention: what its heads attend to"};

inline constexpr std::array kLabWords = {kTrainWord, kEvalWord, kStudyWord, kInspectWord};

inline bool is_lab_word(std::string_view name) {
    return std::ranges::any_of(kLabWords, [name](const LabWord & word) { return word.name == name; });
}

}  // namespace pith::app
