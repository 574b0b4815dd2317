// sampler_flags.cpp - llama.cpp's sampling flags.
#include "common/flags/sampler_flags.h"

#include <charconv>
#include <limits>

#include "common/base/escapes.h"
#include "common/base/read_text.h"

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
    const auto number = [&](const char * names, auto & value, const char * help) {
        command.add_option(names, value, help)->capture_default_str()->group("Sampling");
    };
    number("--temp,--temperature", s.temperature, "Temperature; 0: always the likeliest token");
    number("--dynatemp-range", s.dynatemp_range, "The temperature moves so far to both sides, by the entropy; 0: it stays");
    number("--dynatemp-exp", s.dynatemp_exponent, "Exponent of the entropy there");
    number("--top-k", s.top_k, "Draw from so many likeliest tokens; 0: all");
    number("--top-p", s.top_p, "Draw from the likeliest tokens that make up this share");
    number("--min-p", s.min_p, "Leave out tokens below this share of the likeliest one's");
    number("--typical,--typical-p", s.typical_p, "Draw from the tokens whose surprise is nearest to the mean; 1: off");
    number("--top-nsigma,--top-n-sigma", s.top_n_sigma, "Leave out logits so many deviations below the highest; below 0: off");
    number("--xtc-probability", s.xtc_probability, "How often the likeliest tokens are left out (XTC); 0: never");
    number("--xtc-threshold", s.xtc_threshold, "Those above this probability, but for the least likely of them");
    number("--repeat-penalty", s.repeat_penalty, "Divide the logits of recent tokens; 1: off");
    number("--repeat-last-n", s.repeat_last_n, "How many are recent; 0: none, -1: all");
    number("--presence-penalty", s.presence_penalty, "Take this off the logits of recent tokens");
    number("--frequency-penalty", s.frequency_penalty, "The same once for each time");
    number("--dry-multiplier", s.dry_multiplier, "Penalise what would repeat a sequence (DRY); 0: off");
    number("--dry-base", s.dry_base, "The penalty grows by this with every token of the sequence");
    number("--dry-allowed-length", s.dry_allowed_length, "Sequences no longer than this may repeat");
    number("--dry-penalty-last-n", s.dry_last_n, "Look for sequences in so many tokens; 0: off, -1: all");
    command
        .add_option(
            "--dry-sequence-breaker", dry_breakers,
            "A text at which sequences end, instead of line breaks, : \" and *; may be repeated; none: nothing ends them")
        ->allow_extra_args(false)
        ->group("Sampling");
    number("--mirostat", s.mirostat, "Mirostat 1 or 2 instead of all but the temperature; 0: off");
    number("--mirostat-ent", s.mirostat_tau, "The surprise that mirostat aims at");
    number("--mirostat-lr", s.mirostat_eta, "How fast it goes there");
    command.add_option("-l,--logit-bias", logit_bias, "TOKEN+BIAS or TOKEN-BIAS: added to the token's logit; may be repeated")
        ->allow_extra_args(false)
        ->group("Sampling");
    command.add_option("--grammar", grammar, "Say only what this grammar (GBNF) allows")->group("Sampling");
    command.add_option("--grammar-file", grammar_file, "The same, from a file")->group("Sampling");
    command.add_option("-j,--json-schema", json_schema, "Say JSON that fits this schema; {}: any JSON")->group("Sampling");
    command.add_option("--json-schema-file", json_schema_file, "The same, from a file (-jf)")->group("Sampling");
    command.add_option("-s,--seed", s.seed, "Seed of the draw (default: random)")->group("Sampling");
}

Result<SamplerOptions> SamplerFlags::options() const {
    SamplerOptions options = sampler;
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
    if (!grammar_file.empty()) { PITH_ASSIGN_OR_RETURN(options.grammar, read_text(grammar_file)); }
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
