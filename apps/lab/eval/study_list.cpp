// study_list.cpp - prints studies.
#include "app/eval/study_list.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "common/base/errors.h"
#include "common/base/ledger_report.h"
#include "core/text.h"
#include "eval/studies/comparison.h"
#include "eval/studies/paper_tables.h"

namespace pith::app {
namespace {

std::string spaced(std::string_view list) {
    return join(list_of(list), ", ");
}

std::string size_text(const StudyPart & part, const StudySize & size) {
    const bool is_speed = part.kind == StudyKind::kEfficiency;
    const std::string lengths = size.lengths.empty() ? "whole samples" : spaced(size.lengths) + " tokens";
    const std::string n = size.n_samples > 0 ? std::to_string(size.n_samples) : is_speed ? "3" : "all";
    return lengths + ", budgets " + spaced(size.budgets) + ", chunks of " + spaced(size.chunks) + ", " + n +
           (is_speed ? " measurements of each" : " samples a task");
}

std::string protocol(const StudyPart & part) {
    std::string text = part.kind == StudyKind::kEfficiency ? "speed" : std::string(part.family);
    if (part.kind == StudyKind::kEvaluation && part.family != "perplexity") {
        text += part.question_aware ? ", question-aware" : ", context-only";
    }
    text += part.chunked ? ", chunked" : ", one-shot";
    if (part.evict_every > 0) {
        text += ", evicted again every " + (part.evict_every == 1 ? "token" : std::to_string(part.evict_every) + " tokens");
    }
    return text;
}

void print_parts(const Study & study) {
    for (const StudyPart & part : study.parts) {
        std::printf("  %-18s %s%s\n", std::string(part.name).c_str(), std::string(part.table).c_str(),
                    part.needs_data ? " (needs --data)" : "");
    }
}

void print_items(const Study & study) {
    size_t widest = 0;
    for (const PaperItem & item : study.items) { widest = std::max(widest, item.what.size()); }
    const int width = static_cast<int>(widest);
    for (const PaperItem & item : study.items) {
        std::printf("  %-12s %-*s  ", std::string(item.label).c_str(), width, std::string(item.what).c_str());
        bool first = true;
        for (const std::string_view command : item.commands) {
            if (command.empty()) { continue; }
            std::printf("%*s%s\n", first ? 0 : width + 17, "", std::string(command).c_str());
            first = false;
        }
        if (first) { std::printf("none: %s\n", std::string(item.why_not).c_str()); }
    }
}

Json to_json(const StudySize & size) {
    return {{"context", size.lengths}, {"budget", size.budgets}, {"chunk", size.chunks}, {"samples", size.n_samples}};
}

Json to_json(const Study & study) {
    Json object;
    object["name"] = study.name;
    object["paper"] = study.paper;
    object["differs"] = study.differs;
    object["items"] = Json::array();
    for (const PaperItem & item : study.items) {
        Json one = {{"label", item.label}, {"what", item.what}, {"commands", Json::array()}};
        for (const std::string_view command : item.commands) {
            if (!command.empty()) { one["commands"].push_back(command); }
        }
        if (!item.why_not.empty()) { one["why_not"] = item.why_not; }
        object["items"].push_back(std::move(one));
    }
    object["parts"] = Json::array();
    for (const StudyPart & part : study.parts) {
        object["parts"].push_back({{"name", part.name},
                                   {"table", part.table},
                                   {"how", protocol(part)},
                                   {"tasks", part.tasks},
                                   {"policies", part.policies},
                                   {"needs_data", part.needs_data},
                                   {"with_model", to_json(part.paper)},
                                   {"built_in_model", to_json(part.reference)}});
    }
    return object;
}

}  // namespace

void list_studies() {
    for (const Study & study : studies()) {
        std::printf("%s  %s\n", std::string(study.name).c_str(), std::string(study.paper).c_str());
        print_parts(study);
    }
    std::puts("`pith study NAME --list`: each table and figure of a paper, with its command");
}

void list_study(const Study & study) {
    std::printf("%s  %s\n", std::string(study.name).c_str(), std::string(study.paper).c_str());
    std::printf("differs: %s\n\n", std::string(study.differs).c_str());
    print_items(study);
    std::puts("\nEach with -m MODEL, and --data FOLDER where a benchmark's files are wanted. Without -m: the built-in model.");
    for (const StudyPart & part : study.parts) {
        std::printf("\n%s: %s\n", std::string(part.name).c_str(), std::string(part.table).c_str());
        std::printf("  how             %s\n", protocol(part).c_str());
        std::printf("  policies        %s\n", std::string(part.policies).c_str());
        std::printf("  with -m         %s\n", size_text(part, part.paper).c_str());
        std::printf("  built-in model  %s%s\n",
                    part.needs_data && !part.stand_in ? "passed over without --data" : size_text(part, part.reference).c_str(),
                    part.stand_in ? "; RULER's tasks without --data" : "");
    }
}

void list_as_json(const Study * study) {
    Json all = Json::array();
    for (const Study & one : studies()) {
        if (study == nullptr || study == &one) { all.push_back(to_json(one)); }
    }
    print_json(all);
}

int list_paper_numbers(const Study & study, std::string_view part, bool details, bool json) {
    const auto tables = paper_tables_of(study.name);
    if (!tables.ok()) { return fail(tables.status()); }
    Json all = Json::array();
    bool some = false;
    for (const StudyPart & one : study.parts) {
        if (!part.empty() && part != one.name) { continue; }
        const std::vector<PaperComparison> numbers = compare_with_paper(*tables, one.name, {}, details);
        if (numbers.empty()) { continue; }
        if (json) {
            all.push_back({{"part", one.name}, {"paper", Json::parse(comparison_json(numbers))}});
        } else {
            std::printf("%s%s: %s\n\n%s", some ? "\n" : "", std::string(one.name).c_str(), std::string(one.table).c_str(),
                        comparison_text(numbers, false).c_str());
        }
        some = true;
    }
    if (json) {
        print_json(all);
    } else if (!some) {
        std::puts("The paper prints no numbers for it: a figure, or a setting of its text.");
    }
    return kExitOk;
}

}  // namespace pith::app
