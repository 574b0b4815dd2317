// wording.cpp - see wording.h.
#include "tasks/wording.h"

#include "tasks/concat.h"
#include "tasks/identifiers.h"
#include "tasks/words.h"

namespace pith::corpus {

std::vector<std::string> draw_needle_keys(Random & random, int n) {
    const auto adjectives = random.draw(n, static_cast<int>(words::kAdjectives.size()));
    const auto nouns = random.draw(n, static_cast<int>(words::kKeyNouns.size()));
    std::vector<std::string> keys;
    for (size_t i = 0; i < adjectives.size(); ++i) {
        keys.push_back(concat(
            {words::kAdjectives[static_cast<size_t>(adjectives[i])], "-", words::kKeyNouns[static_cast<size_t>(nouns[i])]}));
    }
    return keys;
}

std::vector<std::string> draw_needle_values(Random & random, int n) {
    return draw_different(random, Kind::kSevenDigits, n);
}

std::string needle_sentence(std::string_view key, std::string_view value) {
    return concat({"One of the special magic numbers for ", key, " is: ", value, "."});
}

std::string needle_preamble(bool plural) {
    return plural ? "Some special magic numbers are hidden within the following text. Make sure to memorize it. I will quiz "
                    "you about the numbers afterwards.\n"
                  : "A special magic number is hidden within the following text. Make sure to memorize it. I will quiz you "
                    "about the number afterwards.\n";
}

std::string needle_question(std::string_view key, bool plural) {
    return concat({plural ? "\nWhat are all the special magic numbers for " : "\nWhat is the special magic number for ", key,
                   " mentioned in the provided text?"});
}

std::string needle_prefix(std::string_view key, bool plural) {
    return concat({plural ? " The special magic numbers for " : " The special magic number for ", key,
                   plural ? " mentioned in the provided text are" : " mentioned in the provided text is"});
}

std::vector<std::string> draw_variable_names(Random & random, int n) {
    return draw_different(random, Kind::kCapitals, n);
}

std::string tracking_question(std::string_view value) {
    return concat({"\nQuestion: Find all variables that are assigned the value ", value, " in the text above."});
}

// RULER ends the prefix with a space, which a tokeniser would split from the answer: left to the completion.
std::string tracking_prefix(int n_variables, std::string_view value) {
    return concat({" Answer: According to the chain(s) of variable assignment in the text above, ", std::to_string(n_variables),
                   " variables are assigned the value ", value, ", they are:"});
}

std::string common_question(int n_words) {
    return concat({"\nQuestion: What are the ", std::to_string(n_words), " most common words in the above list?"});
}

std::string common_prefix(int n_words) {
    return concat({" Answer: The top ", std::to_string(n_words), " words that appear most often in the list are:"});
}

std::string numbered_list(std::span<const std::string_view> items) {
    std::string out;
    for (size_t i = 0; i < items.size(); ++i) { out += concat({i > 0 ? " " : "", std::to_string(i + 1), ". ", items[i]}); }
    return out;
}

std::string fact_question(std::string_view question) {
    return concat({"\nQuestion: ", question});
}

std::string completion_of(std::span<const std::string> answers) {
    std::string out;
    for (const auto & answer : answers) { out += concat({out.empty() ? " " : ", ", answer}); }
    return out + ".";
}

std::string names_of(std::span<const std::string> names) {
    std::string out;
    for (const auto & name : names) { out += concat({" ", name}); }
    return out;
}

}  // namespace pith::corpus
