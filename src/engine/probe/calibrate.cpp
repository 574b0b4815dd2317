// calibrate.cpp - runs the probes and credits the heads.
#include "engine/probe/calibrate.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/items.h"
#include "engine/generate_tokens.h"
#include "engine/layer_probe.h"
#include "engine/probe/built_in_task.h"

namespace pith {
namespace {

constexpr int kShortestProbe = 192;  // tokens: with most tokenisers four needles and a question fit

struct Question {
    std::vector<int32_t> tokens;  // text, question and answer
    int n_prompt = 0;             // of them before the answer
    PositionSpan needle;
};

// A text that is read once, and what is asked of it.
struct Text {
    int n_shared = 0;  // tokens, with which all questions' begin
    std::vector<Question> questions;

    // That are computed for it; an answer's last one foretells nothing.
    int64_t n_tokens() const {
        int64_t n = n_shared;
        for (const Question & one : questions) { n += std::ssize(one.tokens) - 1 - n_shared; }
        return n;
    }
};

int n_common(std::span<const int32_t> a, std::span<const int32_t> b) {
    return static_cast<int>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// Tokens that a beginning of the text shares with the whole: the next one holds the border, or begins at it.
Result<int> tokens_before(const Tokenizer & tokenizer, std::string_view beginning, std::span<const int32_t> whole) {
    PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, tokenizer.encode(beginning, true, false));
    return n_common(tokens, whole);
}

Result<Question> make_question(const Tokenizer & tokenizer, const corpus::Task & task) {
    Question question;
    PITH_ASSIGN_OR_RETURN(question.tokens, tokenizer.encode(task.prompt() + task.completion, true, false));
    const std::string_view context = task.context;
    const corpus::TextSpan needle = task.needles.at(0);
    PITH_ASSIGN_OR_RETURN(question.n_prompt, tokens_before(tokenizer, task.prompt(), question.tokens));
    PITH_ASSIGN_OR_RETURN(question.needle.begin, tokens_before(tokenizer, context.substr(0, needle.begin), question.tokens));
    PITH_ASSIGN_OR_RETURN(question.needle.end, tokens_before(tokenizer, context.substr(0, needle.end), question.tokens));
    if (question.needle.begin >= question.needle.end || question.n_prompt >= std::ssize(question.tokens)) {
        return {ErrorCode::kUnsupported, "calibration: the model's tokeniser joins a needle or an answer to what is around it"};
    }
    return question;
}

// A text of so many questions; nothing, and why, where it does not fit its length.
Result<std::optional<Text>> make_text(const Tokenizer & tokenizer, const corpus::TaskOptions & options, int n_questions,
                                      std::string & why) {
    PITH_ASSIGN_OR_RETURN(const BuiltInTasks made, make_built_in_multikey(options, count_tokens_of(tokenizer)));
    why = made.too_short;
    if (!why.empty()) { return std::optional<Text>(); }
    Text text;
    for (int i = 0; i < std::min(n_questions, kQuestionsOfText); ++i) {
        PITH_ASSIGN_OR_RETURN(Question question, make_question(tokenizer, made.tasks.at(static_cast<size_t>(i))));
        text.questions.push_back(std::move(question));
    }
    const std::vector<int32_t> & first = text.questions.front().tokens;
    PITH_ASSIGN_OR_RETURN(text.n_shared, tokens_before(tokenizer, made.tasks.front().context, first));
    for (const Question & one : text.questions) { text.n_shared = std::min(text.n_shared, n_common(first, one.tokens)); }
    return std::optional<Text>(std::move(text));
}

void count_left_out(int length, int n_probes, const std::string & why, std::vector<ProbesLeftOut> & left_out) {
    const auto known = std::ranges::find(left_out, length, &ProbesLeftOut::length);
    if (known == left_out.end()) {
        left_out.push_back({length, n_probes, why});
    } else {
        known->count += n_probes;
    }
}

std::vector<int> probe_lengths(int n_tokens) {
    std::vector<int> lengths;
    for (const int divisor : {1, 2, 4}) {
        if (n_tokens / divisor >= kShortestProbe) { lengths.push_back(n_tokens / divisor); }
    }
    return lengths;
}

class Calibrator {
public:
    Calibrator(const Model & model, const CalibrateOptions & options) : model_(model), options_(options) {
        const auto n = static_cast<size_t>(model.info().n_layers) * static_cast<size_t>(model.info().n_heads);
        n_heads_ = static_cast<size_t>(model.info().n_heads);
        out_.heads.copy.assign(n, 0.0);
        out_.heads.reason.assign(n, 0.0);
    }

    // n_before: of the n_total tokens of all texts.
    Status add(const Text & text, int64_t n_before, int64_t n_total) {
        SessionOptions session_options;
        session_options.policy = "full";
        session_options.n_threads = options_.n_threads;
        PITH_ASSIGN_OR_RETURN(Session session, model_.session(session_options));
        const auto shared = static_cast<size_t>(text.n_shared);
        n_before_ = n_before;
        n_total_ = n_total;
        PITH_RETURN_IF_ERROR(read(session, std::span(text.questions.front().tokens).first(shared)));
        PITH_ASSIGN_OR_RETURN(const auto start, session.snapshot());
        for (const Question & question : text.questions) {
            PITH_RETURN_IF_ERROR(ask(session, question, shared));
            PITH_RETURN_IF_ERROR(session.restore(start));
        }
        return {};
    }

    Calibration finish() {
        const auto n = static_cast<double>(std::max<int64_t>(out_.n_tokens, 1));
        for (double & score : out_.heads.copy) { score /= n; }
        for (double & score : out_.heads.reason) { score /= n; }
        out_.foretold /= n;
        return std::move(out_);
    }

private:
    Status read(Session & session, std::span<const int32_t> tokens, RunHooks hooks = {}) {
        hooks.cancel = options_.cancel;
        hooks.progress = [this](int64_t n_done, int64_t /*n*/) {
            if (options_.progress) { options_.progress(n_before_ + n_done, n_total_); }
        };
        PITH_RETURN_IF_ERROR(session.prefill(tokens, hooks));
        n_before_ += std::ssize(tokens);
        return {};
    }

    // The question, then the true answer, all its tokens at once, behind a session that has read the text.
    Status ask(Session & session, const Question & question, size_t n_shared) {
        const auto tokens = std::span(question.tokens);
        const auto n_prompt = static_cast<size_t>(question.n_prompt);
        LayerProbe layers(session);
        layers.set_query_observer([&](int layer, std::span<const float> queries, int n, int32_t first) {
            return session.is_governed(layer) ? credit(layers, question, layer, queries, n, first) : Status();
        });
        PITH_RETURN_IF_ERROR(read(session, tokens.subspan(n_shared, n_prompt - n_shared)));
        count_foretold(session.logits(), tokens[n_prompt]);
        const auto answer = tokens.subspan(n_prompt, tokens.size() - 1 - n_prompt);
        if (!answer.empty()) {
            RunHooks hooks;
            hooks.on_logits = [&](int64_t position, std::span<const float> logits) {
                count_foretold(logits, tokens[static_cast<size_t>(position) + 1]);
            };
            PITH_RETURN_IF_ERROR(read(session, answer, hooks));
        }
        layers.set_query_observer({});
        out_.n_tokens += std::ssize(tokens) - question.n_prompt;
        return {};
    }

    // What the layer's heads earn by those of the run's queries that foretell a token of the answer.
    Status credit(LayerProbe & layers, const Question & question, int layer, std::span<const float> queries, int n,
                  int32_t first) {
        const int n_others = std::clamp(question.n_prompt - 1 - first, 0, n);
        if (n_others == n) { return {}; }
        std::vector<int32_t> positions(static_cast<size_t>(n - n_others));
        std::iota(positions.begin(), positions.end(), first + n_others);
        const size_t n_floats = queries.size() / static_cast<size_t>(n);
        PITH_ASSIGN_OR_RETURN(const Ragged<float> attention,
                              layers.attention_of(layer, queries.subspan(n_floats * static_cast<size_t>(n_others)), positions));
        const size_t n_heads = static_cast<size_t>(attention.n_rows()) / positions.size();
        for (size_t g = 0; g < n_heads; ++g) {
            const size_t head = static_cast<size_t>(layer) * n_heads_ + g;
            for (size_t i = 0; i < positions.size(); ++i) {
                const size_t next = static_cast<size_t>(positions[i]) + 1;
                const auto row = attention.row(static_cast<int>(g * positions.size() + i)).first(next);
                const HeadCredit earned =
                    credit_head(row, std::span(question.tokens).first(next), question.needle, question.tokens[next]);
                out_.heads.copy[head] += earned.copy;
                out_.heads.reason[head] += earned.reason;
            }
        }
        return {};
    }

    void count_foretold(std::span<const float> logits, int32_t token) {
        if (likeliest_token(logits) == token) { ++out_.foretold; }
    }

    const Model & model_;
    const CalibrateOptions & options_;
    size_t n_heads_ = 0;  // of a layer; those that keep what they see, whatever the policy, stay at 0
    int64_t n_before_ = 0;
    int64_t n_total_ = 0;
    Calibration out_;
};

}  // namespace

HeadCredit credit_head(std::span<const float> attention, std::span<const int32_t> tokens, PositionSpan needle, int32_t next) {
    std::vector<int32_t> order(attention.size());
    std::iota(order.begin(), order.end(), 0);
    const auto n_top = std::min<std::ptrdiff_t>(needle.end - needle.begin, std::ssize(order));
    std::partial_sort(order.begin(), order.begin() + n_top, order.end(), [&](int32_t a, int32_t b) {
        const float of_a = attention[static_cast<size_t>(a)];
        const float of_b = attention[static_cast<size_t>(b)];
        return of_a != of_b ? of_a > of_b : a > b;
    });
    const auto in_needle = [&](int32_t j) { return needle.begin <= j && j < needle.end; };
    HeadCredit earned;
    if (in_needle(order.front()) && tokens[static_cast<size_t>(order.front())] == next) { earned.copy = 1; }
    for (std::ptrdiff_t i = 0; i < n_top; ++i) {
        const int32_t j = order[static_cast<size_t>(i)];
        if (in_needle(j)) { earned.reason += attention[static_cast<size_t>(j)]; }
    }
    return earned;
}

Result<Calibration> calibrate_heads(const Model & model, const Tokenizer & tokenizer, const CalibrateOptions & options) {
    if (options.n_samples < 1) {
        return {ErrorCode::kInvalidArgument, "calibration: " + std::to_string(options.n_samples) + " samples: give 1 or more"};
    }
    const std::vector<int> lengths = probe_lengths(options.n_tokens);
    if (lengths.empty()) {
        return {ErrorCode::kInvalidArgument, "calibration: probes of " + std::to_string(options.n_tokens) + " tokens (" +
                                                 item::kTextTokens + ") are too short: give " + std::to_string(kShortestProbe) +
                                                 " or more"};
    }
    std::vector<Text> texts;
    std::vector<int> measured;  // lengths
    std::vector<ProbesLeftOut> left_out;
    int n_measured = 0;
    for (int i = 0; i * kQuestionsOfText < options.n_samples; ++i) {
        corpus::TaskOptions task;
        task.n_tokens = lengths[static_cast<size_t>(i) % lengths.size()];
        task.haystack = i % 2 == 0 ? corpus::Haystack::kNoise : corpus::Haystack::kWorld;
        task.seed = options.seed;
        task.index = static_cast<uint64_t>(i);
        const int n_probes = std::min(kQuestionsOfText, options.n_samples - i * kQuestionsOfText);
        std::string why;
        PITH_ASSIGN_OR_RETURN(std::optional<Text> text, make_text(tokenizer, task, n_probes, why));
        if (!text) {
            count_left_out(task.n_tokens, n_probes, why, left_out);
            continue;
        }
        n_measured += n_probes;
        texts.push_back(std::move(*text));
        if (std::ranges::find(measured, task.n_tokens) == measured.end()) { measured.push_back(task.n_tokens); }
    }
    if (n_measured == 0) {
        return {ErrorCode::kInvalidArgument, "calibration: no probe fits: " + left_out.front().why + ", but " +
                                                 item::kTextTokens + " is " + std::to_string(options.n_tokens) + ": raise it"};
    }
    int64_t n_total = 0;
    for (const Text & text : texts) { n_total += text.n_tokens(); }
    Calibrator calibrator(model, options);
    int64_t n_done = 0;
    for (const Text & text : texts) {
        PITH_RETURN_IF_ERROR(calibrator.add(text, n_done, n_total));
        n_done += text.n_tokens();
    }
    Calibration done = calibrator.finish();
    std::ranges::sort(measured, std::greater{});
    done.probes = {n_measured, measured, options.seed};
    done.left_out = std::move(left_out);
    return done;
}

}  // namespace pith
