// training_texts.cpp - the texts that a command trains on.
#include "app/train/training_texts.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "common/base/read_text.h"

namespace pith::app {
namespace {

// The texts in `fields` of every line that is not blank.
Result<std::vector<std::vector<std::string>>> read_lines(const std::string & path, const std::string & text,
                                                         const std::vector<std::string> & fields) {
    std::vector<std::vector<std::string>> rows;
    std::istringstream lines(text);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
        if (line.find_first_not_of(" \t\r") == std::string::npos) { continue; }
        const auto bad = [&](const std::string & what) {
            return Status(ErrorCode::kBadFile, "'" + path + "', line " + std::to_string(number) + " " + what);
        };
        const auto json = nlohmann::json::parse(line, nullptr, false);
        if (!json.is_object()) { return bad("is no JSON object"); }
        std::vector<std::string> & row = rows.emplace_back();
        for (const std::string & field : fields) {
            if (!json.contains(field) || !json[field].is_string()) {
                return bad("has no text in the field '" + field + "': name another with --" +
                           (fields.size() == 1 ? "field" : "prompt-field or --completion-field"));
            }
            row.push_back(json[field].get<std::string>());
        }
    }
    return rows;
}

}  // namespace

Result<std::vector<std::string>> read_training_texts(const std::vector<std::string> & paths, const std::string & field) {
    std::vector<std::string> texts;
    for (const std::string & path : paths) {
        PITH_ASSIGN_OR_RETURN(std::string text, read_text(path));
        if (path.ends_with(".jsonl")) {
            PITH_ASSIGN_OR_RETURN(const auto rows, read_lines(path, text, {field}));
            for (const auto & row : rows) { texts.push_back(row[0]); }
        } else {
            texts.push_back(std::move(text));
        }
    }
    return texts;
}

Result<std::vector<TextPair>> read_training_pairs(const std::vector<std::string> & paths, const std::string & prompt_field,
                                                  const std::string & completion_field) {
    std::vector<TextPair> pairs;
    for (const std::string & path : paths) {
        PITH_ASSIGN_OR_RETURN(const std::string text, read_text(path));
        PITH_ASSIGN_OR_RETURN(const auto rows, read_lines(path, text, {prompt_field, completion_field}));
        for (const auto & row : rows) { pairs.push_back({row[0], row[1]}); }
    }
    return pairs;
}

}  // namespace pith::app
