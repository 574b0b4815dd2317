// variants.cpp - every registered part with every option at its interesting values.
#include "policy/variants.h"

#include "core/text.h"

namespace pith::test {

std::string PartVariant::text() const {
    std::string text = name;
    for (const auto & [key, value] : options) text += ":" + key + "=" + value;
    return text;
}

std::vector<PartVariant> variants_of(std::string_view name, std::span<const OptionSpec> table) {
    PartVariant defaults{std::string(name), {}};
    for (const OptionSpec & spec : table) defaults.options[std::string(spec.name)] = spec.default_value;
    std::vector<PartVariant> variants = {defaults};
    for (const OptionSpec & spec : table) {
        std::vector<std::string> values;
        if (!spec.words.empty()) {
            for (const std::string_view word : split(spec.words, '|')) values.emplace_back(word);
        }
        if (spec.type == OptionType::kPooling) values.insert(values.end(), {"max3", "avg11"});
        if (spec.type == OptionType::kInteger || spec.type == OptionType::kReal) values.push_back(format_number(spec.min));
        if (spec.type == OptionType::kReal) values.push_back(format_number(spec.max));
        for (const std::string & value : values) {
            if (value == spec.default_value) continue;
            PartVariant variant = defaults;
            variant.options[std::string(spec.name)] = value;
            variants.push_back(variant);
        }
    }
    return variants;
}

}  // namespace pith::test
