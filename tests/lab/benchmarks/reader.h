// reader.h - a perfect reader of generated prompts: it looks answers up in the text and knows nothing of how the text was made.
#pragma once

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/benchmark.h"

namespace pith::benchmarks::testing {

// What stands between `before` and `after`, at every place.
inline std::vector<std::string> all_between(std::string_view text, std::string_view before, std::string_view after) {
    std::vector<std::string> out;
    for (size_t at = text.find(before); at != std::string_view::npos; at = text.find(before, at + 1)) {
        const size_t begin = at + before.size();
        const size_t end = text.find(after, begin);
        if (end != std::string_view::npos) { out.emplace_back(text.substr(begin, end - begin)); }
    }
    return out;
}

inline std::vector<std::string> split(const std::string & text, char at) {
    std::vector<std::string> out;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, at);) { out.push_back(part); }
    return out;
}

inline std::string joined(const std::vector<std::string> & items) {
    std::string out;
    for (const auto & item : items) { out += " " + item; }
    return out;
}

inline std::string after_last(const std::string & text, const std::string & mark) {
    const size_t at = text.rfind(mark);
    return at == std::string::npos ? "" : text.substr(at + mark.size());
}

inline std::string read_needles(const std::string & context, const std::string & query) {
    std::string said;
    std::string keys = query;
    if (const size_t last = keys.find(", and "); last != std::string::npos) { keys.replace(last, 6, ", "); }
    for (std::string key : split(keys, ',')) {
        key.erase(0, key.find_first_not_of(' '));
        said += joined(all_between(context, " for " + key + " is: ", "."));
    }
    return said;
}

inline std::string read_chain(const std::string & context, const std::string & value) {
    std::vector<std::pair<std::string, std::string>> assignments;
    for (const auto & line : split(context.substr(context.rfind("Memorize and track")), '\n')) {
        std::smatch found;
        if (std::regex_match(line, found, std::regex("VAR ([A-Z]+) = (VAR )?([A-Z0-9]+) ?"))) {
            assignments.emplace_back(found[1], found[3]);
        }
    }
    std::vector<std::string> names = {value};
    for (size_t i = 0; i < names.size(); ++i) {
        for (const auto & [name, source] : assignments) {
            if (source == names[i]) { names.push_back(name); }
        }
    }
    return joined({names.begin() + 1, names.end()});
}

// The n most frequent, `ignored` not counted.
inline std::string read_frequent(const std::vector<std::string> & words, size_t n, const std::string & ignored) {
    std::map<std::string, int> times;
    for (const auto & word : words) { ++times[word]; }
    times.erase(ignored);
    std::vector<std::pair<int, std::string>> order;
    for (const auto & [word, count] : times) { order.emplace_back(-count, word); }
    std::sort(order.begin(), order.end());
    std::string said;
    for (size_t i = 0; i < std::min(n, order.size()); ++i) { said += " " + order[i].second; }
    return said;
}

inline std::vector<std::string> numbered_words(const std::string & list) {
    std::vector<std::string> words;
    for (const auto & part : split(list, ' ')) {
        if (!part.empty() && part.back() != '.') { words.push_back(part.substr(0, part.find('\n'))); }
    }
    return words;
}

inline std::string read_eldest(const std::string & context, std::string person) {
    static const std::string kName = "([A-Z]\\w+ [A-Z]\\w+)";
    static const std::vector<std::pair<std::regex, bool>> kForms = {
        // pattern; is the elder the first group?
        {std::regex(kName + " is " + kName + "'s [a-z ]+\\."), true},
        {std::regex(kName + "'s [a-z ]+ is " + kName + "\\."), false},
        {std::regex(kName + ", as " + kName + "'s .*"), true},
        {std::regex(kName + " is not only " + kName + "'s .*"), true},
        {std::regex("During " + kName + "'s upbringing, " + kName + " was .*"), false},
        {std::regex("For " + kName + ", " + kName + " is not just .*"), false},
        {std::regex("For " + kName + ", " + kName + " is more than .*"), false}};
    std::map<std::string, std::string> elder;
    for (const auto & line : split(context, '\n')) {
        for (const auto & [form, first_is_elder] : kForms) {
            std::smatch found;
            if (line.size() < 250 && std::regex_match(line, found, form)) {
                elder[found[first_is_elder ? 2 : 1]] = found[first_is_elder ? 1 : 2];
            }
        }
    }
    while (elder.contains(person)) { person = elder[person]; }
    return person;
}

inline std::string read_answer(const Task & task, const Sample & sample) {
    const std::string & context = sample.context;
    const std::string & question = sample.turns[0].question;
    const std::string & name = task.rules().name;
    const auto one = [](const std::vector<std::string> & found) { return found.empty() ? std::string("?") : found.back(); };
    if (name.starts_with("niah")) { return read_needles(context, one(all_between(question, " for ", " mentioned"))); }
    if (name == "vt") { return read_chain(context, one(all_between(question, "assigned the value ", " in the text"))); }
    if (name == "cwe") { return read_frequent(numbered_words(after_last(context, "appear most often.\n")), 10, ""); }
    if (name == "fwe") {
        std::string list = after_last(context, "coded words. ");
        list.erase(list.find_last_not_of('\n') + 1);
        return read_frequent(split(list, ' '), 3, "...");
    }
    if (name.starts_with("needle")) { return one(all_between(context, "San Francisco is ", "\n")); }
    if (name == "multi_reasoning") {
        return "So it is \\boxed{" + read_eldest(context, one(all_between(question, "relative that '", "'"))) + "}.";
    }
    std::string said;
    for (const auto & island : all_between(question, "item is hidden on the ", "?")) {
        said += joined(all_between(context, "hidden on the " + island + " is the legendary ", "."));
    }
    return said;
}

}  // namespace pith::benchmarks::testing
