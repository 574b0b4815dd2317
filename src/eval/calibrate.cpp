// calibrate.cpp - runs the probes and credits the heads.
#include "eval/calibrate.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/generate_tokens.h"
#include "engine/policy_probe.h"
#include "eval/built_in_task.h"

namespace pith {
namespace {

constexpr int kShortestProbe = 192;  // tokens: a needle, its question, and a few sentences around

struct Probe {
    std::vector<int32_t> tokens;  // prompt and answer
    int n_prompt = 0;
    PositionSpan needle;
};

int n_common(std::span<const int32_t> a, std::span<const int32_t> b) {
    return static_cast<int>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// Tokens that a beginning of the text shares with the whole: the next one holds the border, or begins at it.
Result<int> tokens_before(const Tokenizer & tokenizer, std::string_view beginning, std::span<const int32_t> whole) {
    PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, tokenizer.encode(beginning, true, false));
    return n_common(tokens, whole);
}

// Nothing, and why, where the sample does not fit its length.
Result<std::optional<Probe>> make_probe(const Tokenizer & tokenizer, const corpus::TaskOptions & options, std::string & why) {
    PITH_ASSIGN_OR_RETURN(const BuiltInTask made, make_built_in_task("single", options, count_tokens_of(tokenizer)));
    why = made.too_short;
    if (!why.empty()) { return std::optional<Probe>(); }
    const corpus::Task & task = made.task;
    Probe probe;
    PITH_ASSIGN_OR_RETURN(probe.tokens, tokenizer.encode(task.prompt() + task.completion, true, false));
    const std::string_view context = task.context;
    const corpus::TextSpan needle = task.needles.at(0);
    PITH_ASSIGN_OR_RETURN(probe.n_prompt, tokens_before(tokenizer, task.prompt(), probe.tokens));
    PITH_ASSIGN_OR_RETURN(probe.needle.begin, tokens_before(tokenizer, context.substr(0, needle.begin), probe.tokens));
    PITH_ASSIGN_OR_RETURN(probe.needle.end, tokens_before(tokenizer, context.substr(0, needle.end), probe.tokens));
    if (probe.needle.begin >= probe.needle.end || probe.n_prompt >= std::ssize(probe.tokens)) {
        return {ErrorCode::kUnsupported, "calibration: the model's tokeniser joins a needle or an answer to what is around it"};
    }
    return std::optional<Probe>(std::move(probe));
}

void count_left_out(int length, const std::string & why, std::vector<ProbesLeftOut> & left_out) {
    const auto known = std::ranges::find(left_out, length, &ProbesLeftOut::length);
    if (known == left_out.end()) {
        left_out.push_back({length, 1, why});
    } else {
        ++known->count;
    }
}

std::vector<int> probe_lengths(int n_tokens) {
    std::vector<int> lengths;
    for (const int divisor : {1, 2, 4}) {
        if (n_tokens / divisor >= kShortestProbe) { lengths.push_back(n_tokens / divisor); }
    }
    return lengths;
}

// The lengths of which at least one of the probes, which take turns, was measured.
std::vector<int> lengths_measured(const std::vector<int> & lengths, int n_samples,
                                  const std::vector<ProbesLeftOut> & left_out) {
    std::vector<int> measured;
    const int n_lengths = static_cast<int>(lengths.size());
    for (int i = 0; i < n_lengths; ++i) {
        const int length = lengths[static_cast<size_t>(i)];
        const auto missing = std::ranges::find(left_out, length, &ProbesLeftOut::length);
        const int n_of_length = (n_samples - i + n_lengths - 1) / n_lengths;
        if (missing == left_out.end() || missing->count < n_of_length) { measured.push_back(length); }
    }
    return measured;
}

class Calibrator {
public:
    Calibrator(const Model & model, const CalibrateOptions & options) : model_(model), options_(options) {
        const auto n = static_cast<size_t>(model.info().n_layers) * static_cast<size_t>(model.info().n_heads);
        n_heads_ = static_cast<size_t>(model.info().n_heads);
        out_.heads.copy.assign(n, 0.0);
        out_.heads.reason.assign(n, 0.0);
    }

    Status add(const Probe & probe) {
        SessionOptions session_options;
        session_options.policy = "full";
        session_options.observe = {"tova"};  // keeps the newest query
        session_options.n_threads = options_.n_threads;
        PITH_ASSIGN_OR_RETURN(Session session, model_.session(session_options));
        RunHooks hooks;
        hooks.cancel = options_.cancel;
        const auto tokens = std::span(probe.tokens);
        PITH_RETURN_IF_ERROR(session.prefill(tokens.first(static_cast<size_t>(probe.n_prompt)), hooks));
        for (size_t next = static_cast<size_t>(probe.n_prompt); next < tokens.size(); ++next) {
            PITH_RETURN_IF_ERROR(credit(session, probe, next));
            if (next + 1 < tokens.size()) { PITH_RETURN_IF_ERROR(session.append(tokens[next])); }
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
    Status credit(Session & session, const Probe & probe, size_t next) {
        const int32_t token = probe.tokens[next];
        PolicyProbe look(session, options_.cancel);
        size_t i = 0;
        for (int layer = 0; layer < session.n_layers(); ++layer) {
            if (!session.is_governed(layer)) {
                i += n_heads_;  // it keeps what it sees: nobody asks how much its heads matter
                continue;
            }
            PITH_ASSIGN_OR_RETURN(const LayerEvidence evidence, look.evidence(layer, {.last_query = true}));
            for (int g = 0; g < evidence.last_query.n_rows(); ++g, ++i) {
                const HeadCredit earned =
                    credit_head(evidence.last_query.row(g), std::span(probe.tokens).first(next), probe.needle, token);
                out_.heads.copy[i] += earned.copy;
                out_.heads.reason[i] += earned.reason;
            }
        }
        if (likeliest_token(session.logits()) == token) { ++out_.foretold; }
        ++out_.n_tokens;
        return {};
    }

    const Model & model_;
    const CalibrateOptions & options_;
    size_t n_heads_ = 0;  // of a layer
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
        return {ErrorCode::kInvalidArgument, "calibration: probes of " + std::to_string(options.n_tokens) +
                                                 " tokens (--tokens) are too short: give " + std::to_string(kShortestProbe) +
                                                 " or more"};
    }
    Calibrator calibrator(model, options);
    std::vector<ProbesLeftOut> left_out;
    int n_measured = 0;
    for (int i = 0; i < options.n_samples; ++i) {
        corpus::TaskOptions task;
        task.n_tokens = lengths[static_cast<size_t>(i) % lengths.size()];
        task.haystack = i % 2 == 0 ? corpus::Haystack::kNoise : corpus::Haystack::kWorld;
        task.seed = options.seed;
        task.index = static_cast<uint64_t>(i);
        std::string why;
        PITH_ASSIGN_OR_RETURN(const std::optional<Probe> probe, make_probe(tokenizer, task, why));
        if (probe) {
            PITH_RETURN_IF_ERROR(calibrator.add(*probe));
            ++n_measured;
        } else {
            count_left_out(task.n_tokens, why, left_out);
        }
        if (options.progress) { options.progress(i + 1, options.n_samples); }
    }
    if (n_measured == 0) {
        return {ErrorCode::kInvalidArgument, "calibration: no probe fits: " + left_out.front().why + ", but --tokens is " +
                                                 std::to_string(options.n_tokens) + ": raise it"};
    }
    Calibration done = calibrator.finish();
    done.probes = {n_measured, lengths_measured(lengths, options.n_samples, left_out), options.seed};
    done.left_out = std::move(left_out);
    return done;
}

}  // namespace pith
