// models_found.cpp - walks the folders.
#include "common/models/models_found.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "common/models/gguf_name.h"
#include "common/models/hub_cache.h"
#include "core/text.h"

namespace pith::app {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// A GGUF file and where it belongs.
struct NamedFile {
    std::string repo;  // "user/repo"; may be empty
    std::string path;  // below that
    fs::path on_disk;
};

// Regular files at most `depth` folders down. Folders may be links, which may lead in circles: hence the depth.
void collect_files(const fs::path & folder, int depth, std::vector<fs::path> & out) {
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
        if (it->path().filename().string().starts_with('.')) { continue; }
        std::error_code broken;  // a link to nowhere
        if (it->is_regular_file(broken)) {
            out.push_back(it->path());
        } else if (depth > 0 && it->is_directory(broken)) {
            collect_files(it->path(), depth - 1, out);
        }
    }
}

std::vector<fs::path> files_below(const fs::path & top, int depth) {
    std::vector<fs::path> files;
    collect_files(top, depth, files);
    std::ranges::sort(files);
    return files;
}

uint64_t size_on_disk(const fs::path & path) {
    std::error_code error;
    const uintmax_t size = fs::file_size(path, error);
    return error ? 0 : size;
}

// --- Ollama ---

// "library/llama3.2/1b" of Ollama's own registry is "llama3.2:1b"; what others made keeps the names in front.
std::string ollama_name(const fs::path & manifest, const fs::path & top) {
    std::vector<std::string> steps;
    for (const fs::path & step : manifest.lexically_relative(top)) { steps.push_back(step.string()); }
    if (steps.size() < 2) { return {}; }
    const std::string tag = steps.back();
    steps.pop_back();
    if (steps.front() == "registry.ollama.ai") { steps.erase(steps.begin()); }
    if (steps.size() > 1 && steps.front() == "library") { steps.erase(steps.begin()); }
    return join(steps, "/") + ":" + tag;
}

// The digest, in hexadecimal, of the manifest's first layer of a kind ("model", "adapter"); empty: there is none.
std::string layer_digest(const fs::path & manifest, const std::string & kind) {
    std::stringstream text;
    text << std::ifstream(manifest).rdbuf();
    const Json object = Json::parse(text.str(), nullptr, /*allow_exceptions=*/false);
    const auto layers = object.is_object() ? object.find("layers") : object.end();
    if (!object.is_object() || layers == object.end() || !layers->is_array()) { return {}; }
    for (const Json & layer : *layers) {
        if (!layer.is_object()) { continue; }
        const auto type = layer.find("mediaType"), digest = layer.find("digest");
        if (type == layer.end() || *type != "application/vnd.ollama.image." + kind) { continue; }
        const std::string value = digest != layer.end() && digest->is_string() ? digest->get<std::string>() : "";
        constexpr std::string_view kSha = "sha256:";
        return value.starts_with(kSha) && is_hex(value.substr(kSha.size()), 64) ? value.substr(kSha.size()) : "";
    }
    return {};
}

void add_ollama(const fs::path & root, std::vector<FoundModel> & out) {
    const fs::path top = root / "manifests";
    for (const fs::path & manifest : files_below(top, 4)) {
        FoundModel model;
        model.name = ollama_name(manifest, top);
        if (model.name.empty()) { continue; }
        if (model.name.ends_with(":latest")) { model.aliases.push_back(model.name.substr(0, model.name.rfind(':'))); }
        const auto blob_of = [&](const std::string & digest) { return root / "blobs" / ("sha256-" + digest); };
        const std::string digest = layer_digest(manifest, "model"), adapter = layer_digest(manifest, "adapter");
        if (digest.empty()) {
            model.path = manifest.string();
            model.problem = "its manifest names no GGUF file";
        } else {
            const fs::path blob = blob_of(digest);
            model.path = blob.string();
            model.size = size_on_disk(blob);
            std::error_code error;
            if (!fs::exists(blob, error)) {
                model.problem = "its file is gone: `ollama pull " + model.name + "`";
            } else if (!adapter.empty()) {
                model.problem =
                    "it is a model with an adapter: give -m " + blob.string() + " --lora " + blob_of(adapter).string();
            }
        }
        out.push_back(std::move(model));
    }
}

// --- GGUF files with names ---

std::string last_step(const std::string & path) {
    return path.substr(path.rfind('/') + 1);
}

// One model for each set of parts whose first is there.
void add_files(const std::vector<NamedFile> & files, std::vector<FoundModel> & out) {
    std::map<std::pair<std::string, std::string>, int> n_of_quant;  // in a repository
    std::map<std::string, uint64_t> size_of_model;
    const auto key_of = [](const NamedFile & file, const GgufName & name) {
        return file.repo + "\n" + name.stem + "\n" + std::to_string(name.n_parts);
    };
    for (const NamedFile & file : files) {
        const GgufName name = *parse_gguf_name(file.path);
        if (name.part == 1) { ++n_of_quant[{file.repo, name.quant}]; }
        size_of_model[key_of(file, name)] += size_on_disk(file.on_disk);
    }
    for (const NamedFile & file : files) {
        const GgufName name = *parse_gguf_name(file.path);
        if (name.part != 1) { continue; }
        FoundModel model;
        const std::string below = file.repo.empty() ? "" : file.repo + "/";
        const bool by_quant = !below.empty() && !name.quant.empty() && n_of_quant[{file.repo, name.quant}] == 1;
        model.name = by_quant ? file.repo + ":" + name.quant : below + name.stem;
        model.aliases = {below + file.path, below + name.stem, last_step(file.path), last_step(name.stem)};
        if (!file.repo.empty()) {
            model.aliases.insert(model.aliases.end(), {file.repo, last_step(file.repo)});
            if (by_quant) { model.aliases.push_back(last_step(file.repo) + ":" + name.quant); }
        }
        model.path = file.on_disk.string();
        model.size = size_of_model[key_of(file, name)];
        out.push_back(std::move(model));
    }
}

void add_hub_cache(const fs::path & root, std::vector<FoundModel> & out) {
    const HubCache cache(root);
    std::vector<NamedFile> files;
    for (const std::string & repo : cache.repos()) {
        for (HubCache::Entry & entry : cache.files(repo)) {
            if (is_model_name(entry.path)) { files.push_back({repo, entry.path, entry.on_disk}); }
        }
    }
    add_files(files, out);
}

// Files in folders: the first `n_steps` folders are the repository's name.
void add_folder(const fs::path & root, int n_steps, std::vector<FoundModel> & out) {
    std::vector<NamedFile> files;
    for (const fs::path & path : files_below(root, n_steps == 0 ? 0 : n_steps + 1)) {
        const fs::path below = path.lexically_relative(root);
        if (!is_model_name(below.generic_string())) { continue; }
        NamedFile file{"", "", path};
        int n = 0;
        for (auto step = below.begin(); step != below.end(); ++step) {
            const bool in_repo = n++ < n_steps && std::next(step) != below.end();
            std::string & text = in_repo ? file.repo : file.path;
            text += (text.empty() ? "" : "/") + step->string();
        }
        files.push_back(std::move(file));
    }
    add_files(files, out);
}

}  // namespace

std::vector<FoundModel> find_models(std::span<const ModelFolder> folders) {
    std::vector<FoundModel> all;
    std::set<std::string> names, files;
    for (const ModelFolder & folder : folders) {
        std::vector<FoundModel> here;
        switch (folder.origin) {
            case ModelOrigin::kOllama:
                add_ollama(folder.path, here);
                break;
            case ModelOrigin::kLmStudio:
                add_folder(folder.path, 2, here);
                break;
            case ModelOrigin::kHuggingFace:
                add_hub_cache(folder.path, here);
                break;
            case ModelOrigin::kLlamaCpp:
                add_hub_cache(folder.path, here);
                add_folder(folder.path, 0, here);
                break;
            case ModelOrigin::kPith:
                add_folder(folder.path, 0, here);
                break;
        }
        std::ranges::stable_sort(here, {}, &FoundModel::name);
        for (FoundModel & model : here) {
            model.origin = folder.origin;
            std::error_code error;
            const fs::path real = fs::canonical(model.path, error);
            // Ollama's tags may share one file, and each tag is a name that its users know.
            const bool listed = !error && !files.insert(real.string()).second;
            if (listed && folder.origin != ModelOrigin::kOllama) { continue; }
            if (!names.insert(model.name).second) {
                model.name = model.path;  // the same name in another folder
                if (!names.insert(model.name).second) { continue; }
            }
            all.push_back(std::move(model));
        }
    }
    return all;
}

}  // namespace pith::app
