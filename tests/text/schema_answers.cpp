// schema_answers.cpp - answers drawn at random under grammars made of schemas and of tools, for scripts/check_schemas to judge.
//
// Reads a line of JSON for each case, {"schema": S} or {"tools": [{"name", "parameters", "strict"}]}, and writes one for each:
// {"answers": […]}, or {"refused": "…"}, with what it took and what was weakened. Each token is drawn evenly among those that
// the grammar allows, but quotation marks and closing brackets are the likelier the longer an answer is, so that it ends.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "pith/text.h"
#include "text/grammar.h"
#include "text/grammar_matcher.h"
#include "text/tiny_vocabulary.h"
#include "text/token_texts.h"
#include "text/tool_grammar.h"

namespace pith {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point begin) {
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

struct Asked {
    int n_answers = 5;
    int most_tokens = 600;
    unsigned seed = 1;
    std::string model;
};

class Walker {
public:
    Walker(const Tokenizer & tokenizer, const Asked & asked) : tokenizer_(tokenizer), asked_(asked), texts_(tokenizer) {
        for (int32_t token = 0; token < texts_.size(); ++token) {
            const std::string_view text = texts_.text(token);
            if (text == "\"" || text == "}" || text == "]") { closing_.push_back(token); }
        }
    }

    Json judge(const Json & asked, unsigned number) {
        Json out = Json::object();
        const auto begin = Clock::now();
        const Result<std::string> grammar = grammar_of(asked, out);
        if (!grammar.ok()) { return {{"refused", grammar.status().message()}}; }
        auto read = read_grammar(*grammar, [](std::string_view) { return std::optional<int32_t>(); });
        if (!read.ok()) { return {{"refused", read.status().message()}}; }
        auto matcher = GrammarMatcher::make(std::move(*read), texts_);
        if (!matcher.ok()) { return {{"refused", matcher.status().message()}}; }
        out["compile_us"] = microseconds_since(begin);
        out["grammar_bytes"] = grammar->size();
        std::mt19937 random(asked_.seed * 1'000'003U + number);
        mask_us_.clear();
        out["answers"] = Json::array();
        for (int i = 0; i < asked_.n_answers; ++i) {
            std::string text;
            const Status status = matcher->reset().ok() ? walk(*matcher, random, text) : matcher->reset();
            if (!status.ok()) { out["failed"].push_back(status.message() + ": " + text); }
            if (status.ok()) { out["answers"].push_back(text); }
        }
        std::ranges::sort(mask_us_);
        out["n_tokens"] = mask_us_.size();
        double sum = 0;
        for (const double one : mask_us_) { sum += one; }
        out["mask_us"] = mask_us_.empty() ? 0 : sum / static_cast<double>(mask_us_.size());
        out["mask_us_99"] = mask_us_.empty() ? 0 : mask_us_[mask_us_.size() * 99 / 100];
        return out;
    }

private:
    static Result<std::string> grammar_of(const Json & asked, Json & out) {
        if (asked.contains("schema")) { return grammar_of_json_schema(asked["schema"].dump()); }
        std::vector<ToolFunction> functions;
        for (const Json & tool : asked["tools"]) {
            functions.push_back({tool["name"].get<std::string>(), tool["parameters"].dump(), tool.value("strict", false)});
        }
        std::vector<std::string> notes;
        auto grammar = tool_grammar(ToolForm::kBare, functions, /*only_one=*/true, ReasoningMarks(), &notes);
        if (!notes.empty()) { out["notes"] = notes; }
        return grammar;
    }

    Status walk(GrammarMatcher & matcher, std::mt19937 & random, std::string & text) {
        std::vector<bool> allowed;
        std::uniform_real_distribution<double> chance;
        for (int n = 0; n < asked_.most_tokens; ++n) {
            const auto begin = Clock::now();
            PITH_RETURN_IF_ERROR(matcher.allowed(allowed));
            mask_us_.push_back(microseconds_since(begin));
            std::vector<int32_t> others;
            bool may_end = false;
            for (int32_t token = 0; token < texts_.size(); ++token) {
                if (!allowed[static_cast<size_t>(token)]) { continue; }
                if (texts_.is_end(token)) {
                    may_end = true;
                } else {
                    others.push_back(token);
                }
            }
            if (others.empty() && !may_end) { return {ErrorCode::kInternal, "no token is allowed"}; }
            if (may_end && (others.empty() || chance(random) < 0.7)) { return {}; }
            std::vector<int32_t> ends;
            for (const int32_t token : closing_) {
                if (allowed[static_cast<size_t>(token)]) { ends.push_back(token); }
            }
            const bool closes = !ends.empty() && chance(random) < std::min(0.2 + n / 200.0, 0.8);
            const std::vector<int32_t> & from = closes ? ends : others;
            const int32_t token = from[random() % from.size()];
            text += texts_.text(token);
            PITH_RETURN_IF_ERROR(matcher.accept(token));
        }
        return {ErrorCode::kInternal, "no end"};
    }

    const Tokenizer & tokenizer_;
    Asked asked_;
    TokenTexts texts_;
    std::vector<int32_t> closing_;
    std::vector<double> mask_us_;
};

int run(const Asked & asked) {
    const testing::TempFolder folder;
    const std::string path = asked.model.empty() ? testing::write_tiny(folder) : asked.model;
    const auto tokenizer = Tokenizer::load(path);
    if (!tokenizer.ok()) {
        std::cerr << tokenizer.status().message() << "\n";
        return 1;
    }
    Walker walker(*tokenizer, asked);
    unsigned number = 0;
    for (std::string line; std::getline(std::cin, line); ++number) {
        const Json one = Json::parse(line, nullptr, /*allow_exceptions=*/false);
        if (one.is_discarded()) {
            std::cerr << "schema_answers: line " << number + 1 << " is no JSON\n";
            return 1;
        }
        std::cout << walker.judge(one, number).dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) << "\n";
    }
    return 0;
}

}  // namespace
}  // namespace pith

int main(int argc, char ** argv) {
    pith::Asked asked;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string name = argv[i];
        const std::string value = argv[i + 1];
        if (name == "--answers") { asked.n_answers = std::stoi(value); }
        if (name == "--seed") { asked.seed = static_cast<unsigned>(std::stoul(value)); }
        if (name == "--model") { asked.model = value; }
    }
    return pith::run(asked);
}
