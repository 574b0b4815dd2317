// paper_tables.cpp - reads the files of paper_tables.h. Stage: eval.
#include "eval/studies/paper_tables.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
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

struct Measure {
    PaperMeasure measure;
    std::string_view name;
};
constexpr Measure kMeasures[] = {{PaperMeasure::kScore, "score"},
                                 {PaperMeasure::kDifference, "difference"},
                                 {PaperMeasure::kEvicted, "evicted"},
                                 {PaperMeasure::kFirstSeconds, "first_s"},
                                 {PaperMeasure::kOverhead, "overhead"}};

constexpr std::string_view kFixedColumns = "model,measure,policy,which,budget";
constexpr size_t kFixed = 5;

class Reader {
public:
    explicit Reader(const PaperFile & file) : file_(file) {}

    Result<std::vector<PaperTable>> read() {
        for (const std::string_view line : split(file_.text, '\n')) {
            ++n_lines_;
            if (line.empty() || line.starts_with('#')) { continue; }
            PITH_RETURN_IF_ERROR(head_.columns.empty() ? read_head(line) : add_row(line));
        }
        if (tables_.empty()) { return bad("is the last, and no row of a table is there: add one, or remove the file"); }
        return std::move(tables_);
    }

private:
    Status bad(const std::string & why) const {
        return {ErrorCode::kBadFile,
                "line " + std::to_string(n_lines_) + " of 'numbers/" + std::string(file_.name) + ".csv' " + why};
    }

    Status read_head(std::string_view line) {
        for (const std::string_view key : {"paper", "table", "part"}) {
            if (remark_of(file_, key).empty()) { return bad("comes before '# " + std::string(key) + ": …': say it above"); }
        }
        head_.table = remark_of(file_, "table");
        head_.part = remark_of(file_, "part");
        if (!line.starts_with(std::string(kFixedColumns) + ",")) {
            return bad("must name the columns: write " + std::string(kFixedColumns) + ", and what has numbers");
        }
        head_.columns = split(line.substr(kFixedColumns.size() + 1), ',');
        return {};
    }

    Status add_row(std::string_view line) {
        const std::vector<std::string_view> cells = split(line, ',');
        if (cells.size() != kFixed + head_.columns.size()) {
            return bad("has " + std::to_string(cells.size()) + " cells for " + std::to_string(kFixed + head_.columns.size()) +
                       " columns: give each one, empty where the paper prints no number");
        }
        const auto measure = std::ranges::find(kMeasures, cells[1], &Measure::name);
        if (measure == std::end(kMeasures)) {
            std::string known;
            for (const Measure & one : kMeasures) { known += (known.empty() ? "" : ", ") + std::string(one.name); }
            return bad("has no measure " + quoted(cells[1]) + ": use one of " + known);
        }
        PaperRow row{cells[2], cells[3], cells[4], {}};
        for (const std::string_view cell : std::span(cells).subspan(kFixed)) {
            double value = 0;
            const char * end = cell.data() + cell.size();
            if (cell.empty()) {
                row.values.emplace_back();
            } else if (std::from_chars(cell.data(), end, value).ptr == end && std::isfinite(value)) {
                row.values.emplace_back(value);
            } else {
                return bad("holds " + quoted(cell) + ": write a number, or nothing where the paper prints none");
            }
        }
        std::vector<PaperRow> & rows = table_of(cells[0], measure->measure).rows;
        if (std::ranges::any_of(rows, [&](const PaperRow & one) {
                return one.policy == row.policy && one.label == row.label && one.budget == row.budget;
            })) {
            return bad("is about a policy and a budget that another line has: leave one out");
        }
        rows.push_back(std::move(row));
        return {};
    }

    PaperTable & table_of(std::string_view model, PaperMeasure measure) {
        for (PaperTable & one : tables_) {
            if (one.model == model && one.measure == measure) { return one; }
        }
        tables_.push_back(head_);
        tables_.back().model = model;
        tables_.back().measure = measure;
        return tables_.back();
    }

    const PaperFile & file_;
    PaperTable head_;  // what all of the file's tables have
    std::vector<PaperTable> tables_;
    int n_lines_ = 0;
};

}  // namespace

std::string_view to_string(PaperMeasure measure) {
    return std::ranges::find(kMeasures, measure, &Measure::measure)->name;
}

Result<std::vector<PaperTable>> read_paper_tables(const PaperFile & file) {
    return Reader(file).read();
}

std::string_view remark_of(const PaperFile & file, std::string_view key) {
    const std::string begin = "# " + std::string(key) + ": ";
    for (const std::string_view line : split(file.text, '\n')) {
        if (!line.starts_with('#')) { break; }
        if (line.starts_with(begin)) { return trim(line.substr(begin.size())); }
    }
    return {};
}

Result<std::vector<PaperTable>> paper_tables_of(std::string_view study) {
    std::vector<PaperTable> all;
    for (const PaperFile & file : all_paper_files()) {
        if (!file.name.starts_with(std::string(study) + "/")) { continue; }
        PITH_ASSIGN_OR_RETURN(std::vector<PaperTable> tables, read_paper_tables(file));
        std::ranges::move(tables, std::back_inserter(all));
    }
    return all;
}

std::span<const std::string_view> tasks_of_domain(std::string_view domain) {
    const auto at = std::ranges::find(kDomains, domain, &Domain::name);
    return at == std::end(kDomains) ? std::span<const std::string_view>() : at->tasks;
}

}  // namespace pith
