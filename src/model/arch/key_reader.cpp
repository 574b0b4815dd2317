// key_reader.cpp - metadata as numbers within limits. Stage: model.
#include "model/arch/key_reader.h"

#include <algorithm>
#include <cmath>

namespace pith {
namespace {

std::string number_text(double value) {
    std::string text = std::to_string(value);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') { text.pop_back(); }
    return text;
}

}  // namespace

Status KeyReader::integer(const std::string & key, int min, int max, int & out, bool required) const {
    std::optional<double> value;
    PITH_RETURN_IF_ERROR(number(key, required, true, value));
    if (!value) { return {}; }
    if (!(*value >= min && *value <= max) || *value != std::floor(*value)) {
        return bad(key, "is " + number_text(*value) + ": a whole number from " + std::to_string(min) + " to " +
                            std::to_string(max) + " is required");
    }
    out = static_cast<int>(*value);
    return {};
}

Status KeyReader::real(const std::string & key, float min, float & out, bool required) const {
    std::optional<double> value;
    PITH_RETURN_IF_ERROR(number(key, required, false, value));
    if (!value) { return {}; }
    if (!std::isfinite(*value) || *value < min || *value > 1e30) {
        return bad(key, "is " + number_text(*value) + ": a number of at least " + number_text(min) + " is required");
    }
    out = static_cast<float>(*value);
    return {};
}

Status KeyReader::flag(const std::string & key, bool & out) const {
    int value = out ? 1 : 0;
    PITH_RETURN_IF_ERROR(integer(key, 0, 1, value, false));
    out = value == 1;
    return {};
}

Status KeyReader::numbers(const std::string & key, size_t n, std::vector<double> & out, bool required, size_t n_more) const {
    read_.insert(key);
    const GgufValue * value = header_.find(prefix_ + key);
    if (value == nullptr) { return required ? bad(key, "is missing (convert the model again)") : Status{}; }
    const auto * array = std::get_if<GgufArray>(value);
    const size_t size = array == nullptr ? 0 : array->numbers.size();
    if (size != n && size != n + n_more) { return bad(key, "is no list of " + std::to_string(n) + " numbers"); }
    out.assign(array->numbers.begin(), array->numbers.begin() + static_cast<std::ptrdiff_t>(n));
    return {};
}

size_t KeyReader::list_size(const std::string & key) const {
    const GgufValue * value = header_.find(prefix_ + key);
    const auto * array = value == nullptr ? nullptr : std::get_if<GgufArray>(value);
    return array == nullptr ? 0 : static_cast<size_t>(array->n);
}

int64_t KeyReader::tensor_size(std::string_view name, int dim) const {
    const auto it = std::ranges::find(header_.tensors, name, &GgufTensor::name);
    return it == header_.tensors.end() ? 0 : it->ne[dim];
}

int64_t KeyReader::block_tensor_size(std::string_view end, int dim) const {
    const auto it = std::ranges::find_if(
        header_.tensors, [end](const GgufTensor & one) { return one.name.starts_with("blk.") && one.name.ends_with(end); });
    return it == header_.tensors.end() ? 0 : it->ne[dim];
}

bool KeyReader::differs(const std::string & key) const {
    const GgufValue * value = header_.find(prefix_ + key);
    const auto * array = value == nullptr ? nullptr : std::get_if<GgufArray>(value);
    if (array == nullptr) { return false; }
    return std::ranges::any_of(array->numbers, [&](double x) { return x != array->numbers.front(); });
}

Status KeyReader::refuse_unread(const std::string & key) const {
    if (read_.contains(key)) { return {}; }
    float value = 0.0F;
    PITH_RETURN_IF_ERROR(real(key, -1e30F, value));
    if (value == 0.0F || value == 1.0F) { return {}; }
    return unsupported(key, "is " + number_text(value) + ", which Pith does not apply");
}

Status KeyReader::number(const std::string & key, bool required, bool arrays, std::optional<double> & out) const {
    read_.insert(key);
    const GgufValue * value = header_.find(prefix_ + key);
    if (value == nullptr) { return required ? bad(key, "is missing (convert the model again)") : Status{}; }
    if (const auto * integer = std::get_if<int64_t>(value)) {
        out = static_cast<double>(*integer);
    } else if (const auto * real = std::get_if<double>(value)) {
        out = *real;
    } else if (const auto * array = std::get_if<GgufArray>(value); array != nullptr && arrays) {
        return from_array(key, *array, out);
    } else {
        return bad(key, "is no number");
    }
    return {};
}

// Per-layer values: one lane shape for all layers is what Pith runs.
Status KeyReader::from_array(const std::string & key, const GgufArray & array, std::optional<double> & out) const {
    if (!array.is_numeric || array.numbers.empty()) { return bad(key, "is no usable list of numbers"); }
    const double first = array.numbers.front();
    for (const double x : array.numbers) {
        if (x != first) {
            return unsupported(key, "differs between layers (" + number_text(first) + " and " + number_text(x) +
                                        "): only models with the same value in all layers can be run");
        }
    }
    out = first;
    return {};
}

}  // namespace pith
