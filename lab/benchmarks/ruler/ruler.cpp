// ruler.cpp - see ruler.h.
#include "benchmarks/ruler/ruler.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "benchmarks/files/records.h"
#include "benchmarks/generate/essay.h"
#include "benchmarks/metrics/unicode.h"
#include "tasks/concat.h"
#include "tasks/worlds.h"

namespace pith::benchmarks {
namespace {

constexpr int kDefaultSamples = 500;  // RULER's own number

using corpus::concat;

size_t last_of(std::string_view text, std::span<const std::string_view> marks) {
    size_t best = std::string_view::npos;
    for (const auto mark : marks) {
        const size_t found = text.rfind(mark);
        if (found != std::string_view::npos && (best == std::string_view::npos || found > best)) { best = found; }
    }
    return best;
}

// Control characters become line breaks, white space at the ends goes, lower case.
std::string cleaned(std::string_view prediction) {
    std::string text(strip(prediction));
    for (char & c : text) {
        if (static_cast<unsigned char>(c) < 0x20) { c = '\n'; }
    }
    return lower(strip(text));
}

}  // namespace

std::string ruler_lines(std::span<const Sample> samples, const CountTokens & count) {
    std::string out;
    int index = 0;
    for (const Sample & sample : samples) {
        for (const Turn & turn : sample.turns) {
            nlohmann::ordered_json line;
            line["index"] = index++;
            line["input"] = sample.context + turn.question;
            line["outputs"] = turn.references;
            line["length"] = count(concat({sample.context, turn.question, turn.answer_prefix})) + turn.max_new_tokens;
            line["answer_prefix"] = turn.answer_prefix;
            out += line.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
        }
    }
    return out;
}

RulerTask::RulerTask(std::string_view name, std::string_view help, const RulerForm & form, std::string_view file)
    : form_(form) {
    rules_.name = name;
    rules_.family = "ruler";
    rules_.help = help;
    rules_.file = file;
    rules_.ready = concat({name, "/validation.jsonl"});
    rules_.metric = form.any_reference ? "any reference found" : "share of references found";
}

corpus::Random RulerTask::random(const SampleRequest & request, int index) const {
    return sample_random(concat({"ruler/", rules_.name}), request.seed, static_cast<uint64_t>(index));
}

Result<std::vector<Sample>> RulerTask::samples(const SampleRequest & request) const {
    if (!request.ready.empty()) { return read_samples(request); }
    if (request.n_tokens <= 0 || !request.count) {
        return {ErrorCode::kInvalidArgument, "task '" + rules_.name + "' is generated to a length: give n_tokens"};
    }
    PITH_ASSIGN_OR_RETURN(std::vector<RulerText> texts,
                          generate(request, request.n_samples > 0 ? request.n_samples : kDefaultSamples));
    std::vector<Sample> samples;
    for (RulerText & text : texts) {
        PITH_ASSIGN_OR_RETURN(Sample sample, split(std::move(text), static_cast<int>(samples.size())));
        samples.push_back(std::move(sample));
    }
    return samples;
}

Result<Sample> RulerTask::split(RulerText text, int index) const {
    const size_t question = last_of(text.input, form_.question_marks);
    if (question == std::string::npos) {
        return {ErrorCode::kBadFile, concat({"the field 'input' holds no question ('", form_.question_marks.back(),
                                             " …') of task '", rules_.name, "'"})};
    }
    if (text.answer_prefix.empty()) {  // older files: it is the end of the input
        size_t prefix = text.input.rfind(form_.prefix_mark);
        if (prefix != std::string::npos && prefix > question) {
            while (prefix > question && is_space(static_cast<unsigned char>(text.input[prefix - 1]))) { --prefix; }
            text.answer_prefix = text.input.substr(prefix);
            text.input.resize(prefix);
        }
    }
    Sample sample;
    sample.id = std::to_string(index);
    sample.context = text.input.substr(0, question);
    Turn turn;
    turn.question = text.input.substr(question);
    turn.answer_prefix = std::move(text.answer_prefix);
    turn.references = std::move(text.outputs);
    turn.max_new_tokens = form_.max_new_tokens;
    sample.turns.push_back(std::move(turn));
    return sample;
}

// The id is the line's number: RULER's own niah files hold another thing in `index`, the answer's place in the text.
Result<std::vector<Sample>> RulerTask::read_samples(const SampleRequest & request) const {
    std::vector<Sample> samples;
    std::map<std::string, std::string> seen;  // input → where
    const auto use = [&](const Record & record) -> Status {
        RulerText text;
        PITH_ASSIGN_OR_RETURN(text.input, record.text("input"));
        PITH_ASSIGN_OR_RETURN(text.outputs, record.texts("outputs"));
        if (record.has("answer_prefix")) { PITH_ASSIGN_OR_RETURN(text.answer_prefix, record.text("answer_prefix")); }
        if (text.outputs.empty()) {
            return record.bad("outputs", "is an empty list: a sample without an answer cannot be scored");
        }
        if (std::any_of(text.outputs.begin(), text.outputs.end(), [](const auto & answer) { return answer.empty(); })) {
            return record.bad("outputs", "holds an empty text, which every prediction contains: delete the sample");
        }
        const auto [first, is_new] = seen.emplace(text.input, record.where());
        if (!is_new) { return record.bad("input", "is that of " + first->second + ": a sample would count twice; delete one"); }
        auto sample = split(std::move(text), record.number() - 1);
        if (!sample.ok()) { return {sample.status().code(), record.where() + ": " + sample.status().message()}; }
        const Turn & turn = sample->turns[0];
        if (request.n_tokens > 0) {
            const int n = request.count(concat({sample->context, turn.question, turn.answer_prefix})) + turn.max_new_tokens;
            if (n > request.n_tokens) {
                return {ErrorCode::kBudget,
                        concat({record.where(), ": ", rules_.name, " takes ", std::to_string(n),
                                " tokens with its answer, and ", std::to_string(request.n_tokens), " are left to it"})};
            }
        }
        samples.push_back(std::move(*sample));
        return {};
    };
    PITH_RETURN_IF_ERROR(for_each_record(request.ready, request.path_or(rules_.ready), request.n_samples, use));
    return samples;
}

double RulerTask::score(const Sample & /*sample*/, const Turn & turn, std::string_view prediction) const {
    if (turn.references.empty()) { return 0; }
    const std::string said = cleaned(prediction);
    const auto found = std::count_if(turn.references.begin(), turn.references.end(),
                                     [&](const auto & answer) { return said.find(lower(answer)) != std::string::npos; });
    if (form_.any_reference) { return found > 0 ? 1 : 0; }
    return static_cast<double>(found) / static_cast<double>(turn.references.size());
}

std::string fill_gap(int n_tokens, int limit, int n_used, const std::function<int(std::string_view)> & n_tokens_of) {
    std::string filler;
    if (limit - n_used <= n_tokens / 50) { return filler; }
    for (int i = 0;; ++i) {
        const std::string longer = concat({filler, filler.empty() ? "" : " ", corpus::noise_sentence(i)});
        if (n_tokens_of(longer) > limit) { return filler; }
        filler = longer;
    }
}

std::string noise_line() {
    std::string line;
    for (int i = 0; i < corpus::kNoiseSentences; ++i) { line += concat({i > 0 ? " " : "", corpus::noise_sentence(i)}); }
    return line;
}

Tasks ruler_tasks() {
    Tasks tasks = ruler_needle_tasks();
    tasks.push_back(ruler_variable_task());
    tasks.push_back(ruler_common_words_task());
    tasks.push_back(ruler_frequent_words_task());
    Tasks questions = ruler_question_tasks();
    tasks.insert(tasks.end(), std::make_move_iterator(questions.begin()), std::make_move_iterator(questions.end()));
    return tasks;
}

}  // namespace pith::benchmarks
