// kinship.cpp - see kinship.h.
#include "benchmarks/needles/kinship.h"

#include <algorithm>
#include <array>

#include "benchmarks/metrics/unicode.h"
#include "tasks/concat.h"

namespace pith::benchmarks {
namespace {

using corpus::concat;

constexpr std::array<std::string_view, 40> kFirst = {
    "Adam",  "Alice",  "Amelia",  "Arthur", "Bella",   "Bruno",  "Carla",  "Cedric", "Daphne", "Dennis",
    "Edith", "Elliot", "Esther",  "Fiona",  "Gareth",  "Gloria", "Hazel",  "Hector", "Irene",  "Isaac",
    "Jonas", "Judith", "Kasper",  "Leila",  "Leonard", "Mabel",  "Marcus", "Nadia",  "Nelson", "Olga",
    "Oscar", "Pamela", "Quentin", "Rachel", "Samuel",  "Sylvia", "Thelma", "Ulrich", "Vivian", "Wesley"};
constexpr std::array<std::string_view, 40> kLast = {
    "Abbott", "Barker", "Bennett",   "Carver", "Chandler", "Cooper", "Dalton",  "Dixon",  "Ellis",   "Farrell",
    "Fisher", "Garner", "Gibson",    "Harper", "Hawkins",  "Ingram", "Jarvis",  "Keller", "Lambert", "Lawson",
    "Mercer", "Morton", "Norris",    "Osborn", "Palmer",   "Porter", "Quinn",   "Ramsey", "Reeves",  "Sawyer",
    "Sutton", "Turner", "Underwood", "Vaughn", "Wallace",  "Watson", "Whitman", "Yates",  "York",    "Zeller"};

constexpr std::array<std::string_view, 10> kRelations = {"father",
                                                         "mother",
                                                         "dad",
                                                         "mom",
                                                         "grandfather",
                                                         "grandmother",
                                                         "maternal grandmother",
                                                         "maternal grandfather",
                                                         "paternal grandfather",
                                                         "paternal grandmother"};
// A is the elder.
constexpr std::array<std::string_view, 7> kSentences = {
    "{A} is {B}'s {R}.",
    "{B}'s {R} is {A}.",
    "{A}, as {B}'s {R}, has a significant impact on {B}'s upbringing.",
    "{A} is not only {B}'s {R} but also {B}'s role model.",
    "During {B}'s upbringing, {A} was not only {B}'s {R}, but also {B}'s guardian.",
    "For {B}, {A} is not just a {R}, but also a friend.",
    "For {B}, {A} is more than just a {R}; {A} is a lifelong mentor of {B}."};

std::string sentence(std::string_view form, std::string_view elder, std::string_view younger, std::string_view relation) {
    std::string out;
    for (size_t i = 0; i < form.size(); ++i) {
        if (form[i] != '{') {
            out += form[i];
            continue;
        }
        out += form[i + 1] == 'A' ? elder : form[i + 1] == 'B' ? younger : relation;
        i += 2;
    }
    return out;
}

// Every command{…} without braces inside becomes what it holds.
std::string unwrapped(std::string text, std::string_view command) {
    for (size_t at = text.find(command); at != std::string::npos; at = text.find(command, at)) {
        const size_t open = at + command.size();
        const size_t close = text.find('}', open);
        if (close == std::string::npos || close == open) {
            ++at;
            continue;
        }
        text = concat({std::string_view(text).substr(0, at), std::string_view(text).substr(open, close - open),
                       std::string_view(text).substr(close + 1)});
    }
    return text;
}

}  // namespace

KinChain draw_kin_chain(corpus::Random & random, int n) {
    // No two people share a name, so that no answer is part of another.
    const auto first = random.draw(n + 1, static_cast<int>(kFirst.size()));
    const auto last = random.draw(n + 1, static_cast<int>(kLast.size()));
    std::vector<std::string> names;
    for (size_t i = 0; i < first.size(); ++i) {
        names.push_back(concat({kFirst[static_cast<size_t>(first[i])], " ", kLast[static_cast<size_t>(last[i])]}));
    }
    KinChain chain;
    for (size_t i = 0; i + 1 < names.size(); ++i) {
        const auto form = random.pick(kSentences);
        const auto relation = random.pick(kRelations);
        chain.sentences.push_back(sentence(form, names[i], names[i + 1], relation));
    }
    random.shuffle(chain.sentences);
    chain.eldest = names.front();
    chain.youngest = names.back();
    return chain;
}

std::string kin_question(std::string_view youngest) {
    return concat({"Given the context described above, who is the eldest relative that '", youngest,
                   "' can trace back to in the context?\n"});
}

std::string kin_notes(std::string_view youngest) {
    return concat(
        {"For example:\n"
         "Example 1: Suppose the text says only that Paula Kent's father is Otto Dale. Then the eldest relative Paula Kent can "
         "trace back to "
         "is \\boxed{Otto Dale}.\n"
         "Example 2: Suppose it says that Hugo Marsh's grandmother is Rita Stone and that Rita Stone's father is Paula Kent, "
         "and nothing "
         "more. Then the eldest relative Hugo Marsh can trace back to is \\boxed{Paula Kent}.\n"
         "Example 3: Suppose it says that Rita Stone's mother is Viktor Lund, that Viktor Lund's grandfather is Otto Dale, and "
         "that Hugo "
         "Marsh is Rita Stone's grandson. Then the eldest relative Hugo Marsh can trace back to is \\boxed{Otto Dale}.\n"
         "\n"
         "Notes:\n"
         "1. Names say nothing about gender here: someone with a woman's name can be a father. Only who is older matters.\n"
         "2. Surnames need not be inherited: a child may have another surname than its parents.\n"
         "3. At the end of your response, put your final answer within \\boxed{}. For example: \"So the eldest relative '",
         youngest, "' can trace back to is \\boxed{(your answer here)}.\"\n"});
}

std::string boxed_answer(std::string_view prediction) {
    constexpr std::string_view kBox = "\\boxed{";
    const size_t at = prediction.rfind("\\boxed");
    if (at == std::string_view::npos || !prediction.substr(at).starts_with(kBox)) { return "None"; }
    const std::string_view inside = prediction.substr(at + kBox.size());
    int depth = 1;
    size_t end = 0;
    for (; end < inside.size() && depth > 0; ++end) { depth += inside[end] == '{' ? 1 : inside[end] == '}' ? -1 : 0; }
    if (depth > 0) { return "None"; }
    std::string answer(inside.substr(0, end - 1));
    if (answer.size() >= 2 && answer.front() == '{' && answer.back() == '}') { answer = answer.substr(1, answer.size() - 2); }
    if (answer.empty()) { return "None"; }
    answer = unwrapped(unwrapped(answer, "\\text{"), "\\boxed{");
    std::string plain;
    for (const char c : answer) {
        if (c == '\\' || c == '"' || c == '\'') { continue; }
        const bool blank = c == '~' || is_space(static_cast<unsigned char>(c));
        if (!blank || plain.empty() || plain.back() != ' ') { plain += blank ? ' ' : c; }
    }
    return std::string(strip(plain));
}

}  // namespace pith::benchmarks
