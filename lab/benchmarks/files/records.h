// records.h - the samples of a data file, one JSON object each, or an error that says what is wrong. Stage: benchmarks.
// Pure C++: the file comes in as text.
//
// A file is JSON Lines (one object a line) or one JSON array of objects, as benchmarks publish both; UTF-8, with or without a
// byte-order mark.
// Errors:   kBadFile, one line that names the file, the line (or the record's number in an array), the field, what it holds
//           and what belongs there: nothing in the file; a line that is not whole JSON (cut off); an empty line between others
//           (a sample is missing); something that is no object; a field that is missing or of another kind.
// Threads:  const-safe.   Cost: one record is in memory at a time (of an array: all).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pith/status.h"

namespace pith::benchmarks {

struct TitledTexts {
    std::string title;
    std::vector<std::string> texts;
};

class Record {
public:
    // `json` points at a parsed JSON object; records.cpp makes them.
    Record(std::shared_ptr<const void> json, std::string where, int number);

    const std::string & where() const { return where_; }  // "'qa.jsonl', line 3"
    int number() const { return number_; }                // from 1: the line, or the place in the array
    bool has(std::string_view field) const;               // there, and not null

    Result<std::string> text(std::string_view field) const;
    // A text, a number or true/false, as text.
    Result<std::string> scalar(std::string_view field) const;
    Result<int64_t> integer(std::string_view field) const;  // also a text that is one ("2")
    // A list of texts, or one text.
    Result<std::vector<std::string>> texts(std::string_view field) const;
    // A list of texts, numbers or true/false, or one of them.
    Result<std::vector<std::string>> scalars(std::string_view field) const;
    // The same; a list that holds nothing but one such list is that list (InfiniteBench's [[1, 4, 8]]).
    Result<std::vector<std::string>> flat_scalars(std::string_view field) const;
    // A list of [title, [text, …]] (HotpotQA's documents).
    Result<std::vector<TitledTexts>> titled_texts(std::string_view field) const;
    Result<Record> object(std::string_view field) const;
    // An object of texts, by their names.
    Result<std::map<std::string, std::string>> members(std::string_view field) const;
    Result<std::vector<Record>> objects(std::string_view field) const;
    bool holds_object(std::string_view field) const;

    // "'qa.jsonl', line 3: the field 'answers' " + what.
    Status bad(std::string_view field, std::string_view what) const;

private:
    std::shared_ptr<const void> json_;
    std::string where_;
    std::string path_;  // of a part: "multi_turns[1]."
    int number_;
};

// Calls `use` for the first `limit` records (0: all) of the text, in their order; stops at the first error.
Status for_each_record(std::string_view text, const std::string & file, int limit,
                       const std::function<Status(const Record &)> & use);

}  // namespace pith::benchmarks
