// hf_reference.cpp - takes the reference apart. What it lets through is safe as part of an address and of a file's path.
#include "common/models/hf_reference.h"

#include <algorithm>
#include <cctype>

namespace pith::app {
namespace {

// Letters, digits and '_', with '-' and '.' between them, as the hub names users and repositories.
bool is_name(std::string_view text) {
    const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    if (text.empty() || text.size() > 96 || !plain(text.front()) || text.find("--") != text.npos ||
        text.find("..") != text.npos) {
        return false;
    }
    return std::all_of(text.begin(), text.end(), [&](char c) { return plain(c) || c == '-' || c == '.'; });
}

}  // namespace

Result<HfReference> parse_hf_reference(std::string_view text) {
    std::string_view rest = text;
    for (const std::string_view prefix : {"https://", "huggingface.co/", "hf.co/"}) {
        if (rest.starts_with(prefix)) { rest.remove_prefix(prefix.size()); }
    }
    HfReference reference;
    const size_t colon = rest.find(':');
    if (colon != rest.npos) { reference.quant = rest.substr(colon + 1); }
    reference.repo = rest.substr(0, colon);
    const size_t slash = reference.repo.find('/');
    const std::string_view repo = reference.repo;
    const bool good = slash != repo.npos && is_name(repo.substr(0, slash)) && is_name(repo.substr(slash + 1)) &&
                      (colon == rest.npos || is_name(reference.quant));
    if (!good) {
        return {ErrorCode::kInvalidArgument,
                "'" + std::string(text) + "' names no repository of Hugging Face: give USER/REPO or USER/REPO:QUANT"};
    }
    return reference;
}

}  // namespace pith::app
