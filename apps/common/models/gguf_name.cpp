// gguf_name.cpp - names as llama.cpp's converter and splitter, and those who publish models, write them.
#include "common/models/gguf_name.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "core/text.h"

namespace pith::app {
namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

bool all_digits(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

// "q4_k_m", "iq2_xxs", "tq1_0", "bf16", "mxfp4", in lower case.
bool is_quant(std::string_view text) {
    if (!std::all_of(text.begin(), text.end(), [](char c) { return is_word(c) || c == '_'; })) { return false; }
    for (const std::string_view plain : {"f16", "f32", "bf16", "fp16", "fp32", "mxfp4", "nvfp4"}) {
        if (text == plain || (text.starts_with(plain) && text[plain.size()] == '_')) { return true; }
    }
    for (const std::string_view prefix : {"q", "iq", "tq"}) {
        if (text.starts_with(prefix) && text.size() > prefix.size() && is_digit(text[prefix.size()])) { return true; }
    }
    return false;
}

// The longest end of the name that is one: of "model_q4_k_m" it is "q4_k_m", and not "k_m".
std::string quant_at_end(std::string_view stem) {
    const std::string lower = to_lower(stem);
    for (size_t at = 0; at < lower.size(); ++at) {
        const bool begins =
            at == 0 || lower[at - 1] == '-' || lower[at - 1] == '.' || lower[at - 1] == '_' || lower[at - 1] == '/';
        if (!begins || !is_quant(std::string_view(lower).substr(at))) { continue; }
        std::string quant = lower.substr(at);
        for (char & c : quant) { c = static_cast<char>(std::toupper(static_cast<unsigned char>(c))); }
        return quant;
    }
    return {};
}

}  // namespace

std::optional<GgufName> parse_gguf_name(std::string_view path) {
    constexpr std::string_view kEnd = ".gguf";
    if (path.size() <= kEnd.size() || to_lower(path.substr(path.size() - kEnd.size())) != kEnd) { return {}; }
    path.remove_suffix(kEnd.size());
    GgufName name;
    constexpr size_t kTail = std::string_view("-00001-of-00003").size();
    if (path.size() > kTail) {
        const std::string_view tail = path.substr(path.size() - kTail);
        const std::string_view part = tail.substr(1, 5), count = tail.substr(10, 5);
        if (tail[0] == '-' && tail.substr(6, 4) == "-of-" && all_digits(part) && all_digits(count)) {
            name.part = std::stoi(std::string(part));
            name.n_parts = std::stoi(std::string(count));
            path.remove_suffix(kTail);
        }
    }
    name.stem = path;
    name.quant = quant_at_end(path);
    return name;
}

bool is_model_name(std::string_view path) {
    if (!parse_gguf_name(path)) { return false; }
    const std::string file = to_lower(path.substr(path.rfind('/') + 1));
    constexpr std::array<std::string_view, 7> kBeside = {"mmproj",  "imatrix", "mtp-",        "eagle3-",
                                                         "dflash-", "dspark-", ".importance."};
    return std::none_of(kBeside.begin(), kBeside.end(),
                        [&](std::string_view word) { return file.find(word) != std::string::npos; });
}

bool name_has_tag(std::string_view path, std::string_view tag) {
    const std::string text = to_lower(path), wanted = to_lower(tag);
    for (size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) {
        const size_t behind = at + wanted.size();
        const bool ends = behind < text.size() && (text[behind] == '.' || text[behind] == '-' || text[behind] == '/');
        if (ends && (at == 0 || !is_word(text[at - 1]))) { return true; }
    }
    return false;
}

}  // namespace pith::app
