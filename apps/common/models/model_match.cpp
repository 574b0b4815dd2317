// model_match.cpp - three passes, from the strictest to the loosest.
#include "common/models/model_match.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

#include "core/text.h"

namespace pith::app {
namespace {

std::vector<const FoundModel *> all_that(std::span<const FoundModel> models,
                                         const std::function<bool(const FoundModel &)> & fit) {
    std::vector<const FoundModel *> out;
    for (const FoundModel & model : models) {
        if (fit(model)) { out.push_back(&model); }
    }
    return out;
}

Status ambiguous(const std::string & name, const std::vector<const FoundModel *> & candidates) {
    constexpr size_t kNamed = 6;
    std::string list;
    for (size_t i = 0; i < std::min(candidates.size(), kNamed); ++i) { list += (i > 0 ? ", " : "") + candidates[i]->name; }
    if (candidates.size() > kNamed) { list += " and " + std::to_string(candidates.size() - kNamed) + " more"; }
    return {ErrorCode::kInvalidArgument, "-m '" + name + "' may be one of several models: " + list};
}

}  // namespace

Result<ModelMatch> match_model(const std::string & name, std::span<const FoundModel> models) {
    const std::string wanted = to_lower(name);
    const auto is_it = [&](const FoundModel & model) { return model.name == name; };
    const auto is_called_so = [&](const FoundModel & model) {
        return to_lower(model.name) == wanted ||
               std::ranges::any_of(model.aliases, [&](const std::string & alias) { return to_lower(alias) == wanted; });
    };
    const auto holds_it = [&](const FoundModel & model) { return to_lower(model.name).find(wanted) != std::string::npos; };
    if (!wanted.empty()) {
        for (const std::function<bool(const FoundModel &)> & fit :
             {std::function<bool(const FoundModel &)>(is_it), {is_called_so}, {holds_it}}) {
            const auto fitting = all_that(models, fit);
            if (fitting.size() > 1) { return ambiguous(name, fitting); }
            if (fitting.size() == 1) { return ModelMatch{fitting.front(), !is_called_so(*fitting.front())}; }
        }
    }
    std::vector<std::string_view> names;
    for (const FoundModel & model : models) { names.emplace_back(model.name); }
    const std::string near(nearest(name, names));
    return {ErrorCode::kNotFound,
            "there is no file '" + name +
                "', and no model of that name in the folders of Ollama, LM Studio, Hugging Face, "
                "llama.cpp and scripts/fetch_models" +
                (near.empty() ? ": `pith models` lists what they hold" : "; did you mean '" + near + "'?")};
}

}  // namespace pith::app
