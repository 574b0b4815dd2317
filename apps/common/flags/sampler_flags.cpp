// sampler_flags.cpp - llama.cpp's sampling flags.
#include "common/flags/sampler_flags.h"

#include <charconv>
#include <limits>

#include "common/base/escapes.h"
#include "common/base/read_text.h"
#include "common/options/options.h"
#include "pith/session.h"

namespace pith::app {
namespace {

// "15043+1", "15043-0.5", "15043-inf": a token and what is added to its logit.
Result<std::pair<int32_t, float>> parse_bias(const std::string & text) {
    const size_t sign = text.find_first_of("+-");
    int32_t token = 0;
    float value = 0;
    bool good = sign != std::string::npos && sign > 0;
    if (good) {
        const auto [end, error] = std::from_chars(text.data(), text.data() + sign, token);
        good = error == std::errc{} && end == text.data() + sign;
    }
    if (good && text.substr(sign) == "-inf") { return std::pair(token, -std::numeric_limits<float>::infinity()); }
    if (good) {
        const char * first = text.data() + sign + (text[sign] == '+' ? 1 : 0);
        const auto [end, error] = std::from_chars(first, text.data() + text.size(), value);
        good = error == std::errc{} && end == text.data() + text.size();
    }
    if (good) { return std::pair(token, value); }
    return {ErrorCode::kInvalidArgument,
            "--logit-bias is '" + text + "': give a token's number and what is added, e.g. 15043+1, 15043-1 or 15043-inf"};
}

}  // namespace

void SamplerFlags::add_to(CLI::App & command) {
    SamplerOptions & s = sampler;
    const auto number = [&](const OptionRow & row, auto & value) { add(command, row, value)->capture_default_str(); };
    number(option("--temp"), s.temperature);
    number(option("--dynatemp-range"), s.dynatemp_range);
    number(option("--dynatemp-exp"), s.dynatemp_exponent);
    number(option("--top-k"), s.top_k);
    number(option("--top-p"), s.top_p);
    number(option("--min-p"), s.min_p);
    number(option("--typical"), s.typical_p);
    number(option("--top-nsigma"), s.top_n_sigma);
    number(option("--xtc-probability"), s.xtc_probability);
    number(option("--xtc-threshold"), s.xtc_threshold);
    number(option("--repeat-penalty"), s.repeat_penalty);
    number(option("--repeat-last-n"), s.repeat_last_n);
    number(option("--presence-penalty"), s.presence_penalty);
    number(option("--frequency-penalty"), s.frequency_penalty);
    number(option("--dry-multiplier"), s.dry_multiplier);
    number(option("--dry-base"), s.dry_base);
    number(option("--dry-allowed-length"), s.dry_allowed_length);
    number(option("--dry-penalty-last-n"), s.dry_last_n);
    add(command, option("--dry-sequence-breaker"), dry_breakers)->allow_extra_args(false);
    number(option("--mirostat"), s.mirostat);
    number(option("--mirostat-ent"), s.mirostat_tau);
    number(option("--mirostat-lr"), s.mirostat_eta);
    add(command, option("--logit-bias"), logit_bias)->allow_extra_args(false);
    add(command, option("--grammar"), grammar);
    add(command, option("--grammar-file"), grammar_file);
    add(command, option("--json-schema"), json_schema);
    add(command, option("--json-schema-file"), json_schema_file);
    add(command, option("--seed"), s.seed);
    number(option("--draft-ngram"), draft_ngram);
}

Result<SamplerOptions> SamplerFlags::options() const {
    SamplerOptions options = sampler;
    if (draft_ngram < 0 || draft_ngram > kMostDraft) {
        return {ErrorCode::kInvalidArgument, "--draft-ngram is " + std::to_string(draft_ngram) + ": give 0 (no drafts) to " +
                                                 std::to_string(kMostDraft) + " tokens"};
    }
    for (const std::string & text : logit_bias) {
        PITH_ASSIGN_OR_RETURN(auto bias, parse_bias(text));
        options.logit_bias.push_back(bias);
    }
    if (!dry_breakers.empty()) {
        options.dry_breakers.clear();
        for (const std::string & text : dry_breakers) {
            if (text != "none") { options.dry_breakers.push_back(unescaped(text)); }
        }
    }
    const int n_given =
        int{!grammar.empty()} + int{!grammar_file.empty()} + int{!json_schema.empty()} + int{!json_schema_file.empty()};
    if (n_given > 1) {
        return {ErrorCode::kInvalidArgument,
                "--grammar, --grammar-file, --json-schema, --json-schema-file: give one of them, a text has one form"};
    }
    options.grammar = grammar;
    if (!grammar_file.empty()) { PITH_ASSIGN_OR_RETURN(options.grammar, read_plain_text(grammar_file)); }
    std::string schema = json_schema;
    if (!json_schema_file.empty()) { PITH_ASSIGN_OR_RETURN(schema, read_text(json_schema_file)); }
    if (!schema.empty()) { PITH_ASSIGN_OR_RETURN(options.grammar, grammar_of_json_schema(schema)); }
    // What needs the vocabulary is checked with it.
    SamplerOptions without_words = options;
    without_words.grammar.clear();
    without_words.dry_multiplier = 0;
    PITH_RETURN_IF_ERROR(Sampler::make(without_words).status());
    return options;
}

}  // namespace pith::app
