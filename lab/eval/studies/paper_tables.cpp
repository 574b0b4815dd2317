// paper_tables.cpp - reads the lines of paper_tables.h. Stage: eval.
#include "eval/studies/paper_tables.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "core/text.h"

namespace pith {
namespace {

constexpr std::string_view kSingleDoc[] = {"narrativeqa", "qasper", "multifieldqa_en"};
constexpr std::string_view kMultiDoc[] = {"hotpotqa", "2wikimqa", "musique"};
constexpr std::string_view kSummarization[] = {"gov_report", "qmsum", "multi_news"};
constexpr std::string_view kFewShot[] = {"trec", "triviaqa", "samsum"};
constexpr std::string_view kSynthetic[] = {"passage_count", "passage_retrieval_en"};
constexpr std::string_view kCode[] = {"lcc", "repobench-p"};

struct Domain {
    std::string_view name;
    std::span<const std::string_view> tasks;
};
constexpr Domain kDomains[] = {{"single-doc", kSingleDoc}, {"multi-doc", kMultiDoc},  {"summarization", kSummarization},
                               {"few-shot", kFewShot},     {"synthetic", kSynthetic}, {"code", kCode}};

struct ColumnSet {
    std::string_view name, columns;
};
constexpr ColumnSet kColumnSets[] = {
    {"@longbench",
     "narrativeqa qasper multifieldqa_en hotpotqa 2wikimqa musique gov_report qmsum multi_news trec triviaqa samsum "
     "passage_count passage_retrieval_en lcc repobench-p"},
    {"@domains", "single-doc multi-doc summarization few-shot synthetic code"},
    {"@longbench-v2", "difficulty=easy difficulty=hard length=short length=medium length=long"},
    {"@ruler",
     "cwe fwe niah_multikey_1 niah_multikey_2 niah_multikey_3 niah_multiquery niah_multivalue niah_single_1 niah_single_2 "
     "niah_single_3 qa_1 qa_2 vt"},
    {"@infinitebench",
     "passkey number_string code_debug code_run math_find longbook_sum_eng longbook_qa_eng longbook_choice_eng "
     "longbook_qa_chn longdialogue_qa_eng"},
};

struct Measure {
    PaperMeasure measure;
    std::string_view name;
};
constexpr Measure kMeasures[] = {{PaperMeasure::kScore, "score"},
                                 {PaperMeasure::kDifference, "difference"},
                                 {PaperMeasure::kEvicted, "evicted"},
                                 {PaperMeasure::kFirstSeconds, "first_s"},
                                 {PaperMeasure::kOverhead, "overhead"}};

std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> words = split(text, ' ');
    std::erase(words, std::string_view());
    return words;
}

std::vector<std::string_view> columns_of(std::string_view text) {
    std::vector<std::string_view> columns;
    for (const std::string_view word : words_of(text)) {
        const auto set = std::ranges::find(kColumnSets, word, &ColumnSet::name);
        if (set == std::end(kColumnSets)) {
            columns.push_back(word);
            continue;
        }
        const std::vector<std::string_view> more = words_of(set->columns);
        columns.insert(columns.end(), more.begin(), more.end());
    }
    return columns;
}

class Reader {
public:
    Result<std::vector<PaperTable>> read(std::string_view text) {
        for (const std::string_view line : split(text, '\n')) {
            ++n_lines_;
            if (trim(line).empty()) { continue; }
            PITH_RETURN_IF_ERROR(line.starts_with("= ") ? add_table(line.substr(2)) : add_row(line));
        }
        return std::move(tables_);
    }

private:
    Status bad(const std::string & why) const {
        return {ErrorCode::kBadFile, "line " + std::to_string(n_lines_) + " of a paper's numbers " + why};
    }

    Status add_table(std::string_view line) {
        const std::vector<std::string_view> fields = split(line, ';');
        if (fields.size() != 4 && fields.size() != 5) { return bad("begins no table: TABLE; PART; MODEL; COLUMNS[; MEASURE]"); }
        PaperTable table;
        table.table = trim(fields[0]);
        table.part = trim(fields[1]);
        table.model = trim(fields[2]);
        table.columns = columns_of(fields[3]);
        if (fields.size() == 5) {
            const auto at = std::ranges::find(kMeasures, trim(fields[4]), &Measure::name);
            if (at == std::end(kMeasures)) { return bad("has no measure: " + quoted(trim(fields[4]))); }
            table.measure = at->measure;
        }
        tables_.push_back(std::move(table));
        return {};
    }

    Status add_row(std::string_view line) {
        const std::vector<std::string_view> fields = split(line, ';');
        if (fields.size() != 3 || tables_.empty()) { return bad("is no row of a table: POLICY; BUDGET; NUMBERS"); }
        PaperRow row;
        const std::string_view name = trim(fields[0]);
        const size_t space = name.find(' ');
        row.policy = name.substr(0, space);
        if (space != std::string_view::npos) { row.label = trim(name.substr(space)); }
        row.budget = trim(fields[1]);
        for (const std::string_view word : words_of(fields[2])) {
            double value = 0;
            const char * end = word.data() + word.size();
            if (word == "-") {
                row.values.emplace_back();
            } else if (std::from_chars(word.data(), end, value).ptr == end) {
                row.values.emplace_back(value);
            } else {
                return bad("holds " + quoted(word) + " where a number belongs");
            }
        }
        const size_t n_columns = tables_.back().columns.size();
        if (row.values.size() != n_columns) {
            return bad("has " + std::to_string(row.values.size()) + " numbers for " + std::to_string(n_columns) + " columns");
        }
        tables_.back().rows.push_back(std::move(row));
        return {};
    }

    std::vector<PaperTable> tables_;
    int n_lines_ = 0;
};

}  // namespace

std::string_view to_string(PaperMeasure measure) {
    return std::ranges::find(kMeasures, measure, &Measure::measure)->name;
}

Result<std::vector<PaperTable>> read_paper_tables(std::string_view text) {
    return Reader().read(text);
}

std::span<const std::string_view> tasks_of_domain(std::string_view domain) {
    const auto at = std::ranges::find(kDomains, domain, &Domain::name);
    return at == std::end(kDomains) ? std::span<const std::string_view>() : at->tasks;
}

}  // namespace pith
