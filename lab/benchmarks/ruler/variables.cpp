// variables.cpp - RULER's variable tracking (vt): one chain of five names in noise, after a worked example. Stage: benchmarks.
// Pure C++; see ruler.h.
//
// The example is a whole prompt with its answer, of about 500 tokens (at least five lines of noise), with names of three
// letters.
// Differs: each sample has an example of its own (RULER renames one and keeps its noise).
#include <algorithm>
#include <set>
#include <utility>

#include "benchmarks/generate/fit.h"
#include "benchmarks/ruler/ruler.h"
#include "tasks/concat.h"
#include "tasks/identifiers.h"
#include "tasks/wording.h"

namespace pith::benchmarks {
namespace {

using corpus::concat;
using corpus::Random;

constexpr std::string_view kQuestionMarks[] = {"Question: Find all variables that are assigned the value"};
constexpr RulerForm kForm = {kQuestionMarks, "Answer:", 30, false};
constexpr int kNames = 5;  // one chain of four hops
constexpr int kExampleTokens = 500;
constexpr int kExampleLines = 5;  // at least

std::vector<std::string> draw_names(Random & random, int n_letters) {
    std::set<std::string> drawn;
    std::vector<std::string> names;
    while (static_cast<int>(names.size()) < kNames) {
        std::string name = corpus::draw_letters(random, 'A', n_letters);
        if (drawn.insert(name).second) { names.push_back(std::move(name)); }
    }
    return names;
}

struct Chain {
    std::vector<std::string> names;
    std::string value;
    uint64_t places;
};

Chain draw_chain(Random & random, int n_letters) {
    Chain chain;
    chain.names = draw_names(random, n_letters);
    chain.value = std::to_string(random.between(10000, 99998));
    chain.places = random.next();
    return chain;
}

// The assignments in order among n lines of noise, each before a line of its own.
std::string in_noise(const Chain & chain, int n_lines) {
    std::vector<int> places = Random(chain.places).draw(kNames, n_lines);
    std::sort(places.begin(), places.end());
    const std::string noise = noise_line();
    std::string out;
    size_t next = 0;
    for (int i = 0; i < n_lines; ++i) {
        if (next < places.size() && places[next] == i) {
            const auto & name = chain.names[next];
            // RULER leaves a space after every assignment but the first.
            out += next == 0 ? concat({"VAR ", name, " = ", chain.value, "\n"})
                             : concat({"VAR ", name, " = VAR ", chain.names[next - 1], " \n"});
            ++next;
        }
        out += concat({noise, i + 1 < n_lines ? "\n" : ""});
    }
    return out;
}

RulerText prompt(const Chain & chain, int n_lines, std::string_view filler = {}) {
    RulerText out;
    out.input = concat({corpus::kTrackingPreamble, in_noise(chain, n_lines), filler.empty() ? "" : "\n", filler,
                        corpus::tracking_question(chain.value)});
    out.answer_prefix = corpus::tracking_prefix(kNames, chain.value) + " ";
    out.outputs = chain.names;
    return out;
}

std::string solved(const Chain & chain, int n_lines) {
    const RulerText text = prompt(chain, n_lines);
    std::string out = text.input + text.answer_prefix;
    for (const auto & name : chain.names) { out += concat({" ", name}); }
    return out + "\n\n";
}

class VariableTask final : public RulerTask {
public:
    VariableTask() : RulerTask("vt", "variable tracking: a chain of five names in noise, all asked", kForm) {}

protected:
    Result<std::vector<RulerText>> generate(const SampleRequest & request, int n_samples) const override {
        Random any = random(request, 0);
        const Chain example = draw_chain(any, 3);
        const auto example_tokens = [&](int n) {
            const RulerText text = prompt(example, n);
            return request.count(text.input + text.answer_prefix);
        };
        const int example_lines =
            std::max(most_that_fit(kExampleLines, kExampleTokens, kExampleTokens, example_tokens).n_units, kExampleLines);
        std::vector<RulerText> texts;
        for (int i = 0; i < n_samples; ++i) {
            Random drawn = random(request, i);
            const std::string shown = solved(draw_chain(drawn, 3), example_lines);
            PITH_ASSIGN_OR_RETURN(RulerText text, fit(draw_chain(drawn, 5), shown, request));
            text.input = shown + text.input;
            texts.push_back(std::move(text));
        }
        return texts;
    }

private:
    Result<RulerText> fit(const Chain & chain, const std::string & shown, const SampleRequest & request) const {
        const int limit = request.n_tokens - form().max_new_tokens;
        const auto count = [&](const RulerText & text) {
            return request.count(concat({shown, text.input, text.answer_prefix}));
        };
        const Fit found =
            most_that_fit(kNames, std::max(kNames, request.n_tokens), limit, [&](int n) { return count(prompt(chain, n)); });
        if (found.n_units < 0) { return too_small("vt", found.n_tokens + form().max_new_tokens, request.n_tokens); }
        const std::string filler = fill_gap(request.n_tokens, limit, found.n_tokens,
                                            [&](std::string_view more) { return count(prompt(chain, found.n_units, more)); });
        return prompt(chain, found.n_units, filler);
    }
};

}  // namespace

std::unique_ptr<Task> ruler_variable_task() {
    return std::make_unique<VariableTask>();
}

}  // namespace pith::benchmarks
