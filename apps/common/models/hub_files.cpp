// hub_files.cpp - reads the hub's list of files, and chooses.
#include "common/models/hub_files.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "common/models/gguf_name.h"
#include "core/text.h"

namespace pith::app {
namespace {

using Json = nlohmann::json;

// Nothing that would leave the folder it is put under, or steer the terminal that a message shows it on.
bool is_plain_path(std::string_view path) {
    const auto is_odd = [](char c) { return c == '\\' || std::iscntrl(static_cast<unsigned char>(c)) != 0; };
    if (path.empty() || std::ranges::any_of(path, is_odd)) { return false; }
    const auto steps = split(path, '/');
    return std::ranges::none_of(steps, [](std::string_view step) { return step.empty() || step == "." || step == ".."; });
}

std::string text_of(const Json & object, const char * key) {
    const auto it = object.find(key);
    return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

uint64_t size_of(const Json & object) {
    const auto it = object.find("size");
    return it != object.end() && it->is_number_unsigned() ? it->get<uint64_t>() : 0;
}

// The quantisations of a repository's models, for messages: "Q4_K_M, Q8_0".
std::string what_there_is(const std::vector<HubFile> & files) {
    std::set<std::string> names;
    for (const HubFile & file : files) {
        const auto name = parse_gguf_name(file.path);
        if (name && is_model_name(file.path)) { names.insert(name->quant.empty() ? file.path : name->quant); }
    }
    return join(names, ", ");
}

const HubFile * find_first(const std::vector<HubFile> & files, std::string_view tag) {
    const auto fits = [&](const HubFile & file) {
        const auto name = parse_gguf_name(file.path);
        return name && name->part == 1 && is_model_name(file.path) && (tag.empty() || name_has_tag(file.path, tag));
    };
    const auto it = std::ranges::find_if(files, fits);
    return it == files.end() ? nullptr : &*it;
}

const HubFile * find_default(const std::vector<HubFile> & files) {
    for (const std::string_view tag : {"Q4_K_M", "Q8_0", ""}) {
        if (const HubFile * file = find_first(files, tag)) { return file; }
    }
    return nullptr;
}

Result<std::vector<HubFile>> all_parts(const std::vector<HubFile> & files, const HubFile & first, const std::string & repo) {
    const auto name = parse_gguf_name(first.path);
    if (!name || name->n_parts <= 1) { return std::vector<HubFile>{first}; }
    std::vector<HubFile> parts;
    for (int part = 1; part <= name->n_parts; ++part) {
        const auto it = std::ranges::find_if(files, [&](const HubFile & file) {
            const auto other = parse_gguf_name(file.path);
            return other && other->stem == name->stem && other->n_parts == name->n_parts && other->part == part;
        });
        if (it == files.end()) {
            return {ErrorCode::kNotFound, "'" + repo + "' has '" + first.path + "', but not part " + std::to_string(part) +
                                              " of " + std::to_string(name->n_parts)};
        }
        parts.push_back(*it);
    }
    return parts;
}

}  // namespace

bool is_hex(std::string_view text, size_t n) {
    return text.size() == n &&
           std::all_of(text.begin(), text.end(), [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; });
}

Result<std::vector<HubFile>> parse_hub_tree(std::string_view text) {
    const Json list = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!list.is_array()) { return {ErrorCode::kBadFile, "the hub's list of files cannot be read"}; }
    std::vector<HubFile> files;
    for (const Json & item : list) {
        if (!item.is_object() || text_of(item, "type") != "file") { continue; }
        HubFile file{.path = text_of(item, "path"), .size = size_of(item), .sha256 = "", .blob = text_of(item, "oid")};
        if (const auto lfs = item.find("lfs"); lfs != item.end() && lfs->is_object()) {
            file.sha256 = to_lower(text_of(*lfs, "oid"));
            file.blob = file.sha256;
            if (lfs->contains("size")) { file.size = size_of(*lfs); }
        }
        if (is_plain_path(file.path) && file.size > 0 &&
            (is_hex(file.blob, 64) || (file.sha256.empty() && is_hex(file.blob, 40)))) {
            files.push_back(std::move(file));
        }
    }
    return files;
}

Result<std::vector<HubFile>> choose_model(const std::vector<HubFile> & files, const HfReference & reference,
                                          const std::string & file) {
    const std::string & repo = reference.repo;
    if (!file.empty()) {
        const auto same = [&](const HubFile & other) { return to_lower(other.path) == to_lower(file); };
        const auto it = std::ranges::find_if(files, same);
        if (it == files.end()) { return {ErrorCode::kNotFound, "'" + repo + "' has no file '" + file + "' (--hf-file)"}; }
        return all_parts(files, *it, repo);
    }
    const HubFile * found = reference.quant.empty() ? find_default(files) : find_first(files, reference.quant);
    if (found != nullptr) { return all_parts(files, *found, repo); }
    const std::string there = what_there_is(files);
    if (there.empty()) {
        return {ErrorCode::kNotFound, "'" + repo + "' has no GGUF model: choose a repository with GGUF files"};
    }
    return {ErrorCode::kNotFound, "'" + repo + "' has no '" + reference.quant + "': it has " + there};
}

}  // namespace pith::app
