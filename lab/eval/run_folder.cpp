// run_folder.cpp - run.json and answers.jsonl. Stage: eval.
#include "eval/run_folder.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/json_syntax.h"
#include "core/text.h"
#include "file/read_file.h"
#include "file/write_file.h"

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;  // of the two files
constexpr size_t kMostAnswerBytes = size_t{1} << 40U;
constexpr size_t kMostDifferences = 3;
constexpr size_t kLongValues = 100;  // characters: longer lists are told by what came and went

std::string run_file(const std::string & folder) {
    return folder + "/run.json";
}
std::string answers_file(const std::string & folder) {
    return folder + "/answers.jsonl";
}

Json pairs_json(const std::vector<std::pair<std::string, std::string>> & pairs) {
    Json object = Json::object();
    for (const auto & [name, value] : pairs) { object[name] = value; }
    return object;
}

std::vector<std::pair<std::string, std::string>> pairs_of(const Json & object) {
    std::vector<std::pair<std::string, std::string>> pairs;
    for (const auto & [name, value] : object.items()) { pairs.emplace_back(name, value.get<std::string>()); }
    return pairs;
}

std::string to_json(const RunInfo & info) {
    Json object;
    object["pith_eval"] = kVersion;
    object["family"] = info.family;
    object["tasks"] = Json::array();
    for (const EvalTask & task : info.tasks) {
        object["tasks"].push_back(
            {{"name", task.name}, {"metric", task.metric}, {"group_by", task.group_by}, {"perplexity", task.is_perplexity}});
    }
    object["lengths"] = info.lengths;
    object["cases"] = Json::array();
    for (const EvalCase & one : info.cases) { object["cases"].push_back({{"policy", one.policy}, {"budget", one.budget}}); }
    object["settings"] = pairs_json(info.settings);
    object["about"] = pairs_json(info.about);
    if (info.shard) { object["shard"] = {{"answers", info.shard->n_answers}, {"of", info.shard->n_all}}; }
    return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<RunInfo> read_info(const std::string & path) {
    const auto text = read_file(path);
    if (text.status().code() == ErrorCode::kNotFound) {
        return {ErrorCode::kNotFound, "'" + path + "' cannot be opened: is this the folder of an evaluation?"};
    }
    PITH_RETURN_IF_ERROR(text.status());
    const auto bad = [&path](const std::string & what) {
        return Status(ErrorCode::kBadFile, "'" + path + "' is no description of an evaluation: " + what);
    };
    if (const std::string problem = json_problem(*text); !problem.empty()) { return bad(problem); }
    std::string field;  // that is being read
    const auto at = [&field](const Json & object, const char * name) -> const Json & { return object.at(field = name); };
    try {
        const Json object = Json::parse(*text);
        if (at(object, "pith_eval") != kVersion) {
            return {ErrorCode::kBadFile, "'" + path + "' is of version " + object["pith_eval"].dump() + ", this pith reads " +
                                             std::to_string(kVersion)};
        }
        RunInfo info;
        at(object, "family").get_to(info.family);
        for (const Json & task : at(object, "tasks")) {
            EvalTask & one = info.tasks.emplace_back();
            at(task, "name").get_to(one.name);
            at(task, "metric").get_to(one.metric);
            at(task, "group_by").get_to(one.group_by);
            at(task, "perplexity").get_to(one.is_perplexity);
        }
        at(object, "lengths").get_to(info.lengths);
        for (const Json & one : at(object, "cases")) {
            EvalCase & read = info.cases.emplace_back();
            at(one, "policy").get_to(read.policy);
            at(one, "budget").get_to(read.budget);
        }
        info.settings = pairs_of(at(object, "settings"));
        info.about = pairs_of(at(object, "about"));
        if (object.contains("shard")) {
            const Json & shard = at(object, "shard");
            info.shard = RunInfo::ShardSize{at(shard, "answers").get<int>(), at(shard, "of").get<int>()};
        }
        if (info.tasks.empty() || info.lengths.empty()) { return bad("it has no tasks, or no lengths"); }
        return info;
    } catch (const Json::exception &) {
        return bad(field.empty() ? "it is not JSON text in UTF-8"
                                 : "the field '" + field + "' is missing or holds something else");
    }
}

// "a,b,c" and "a,c,d": "without b, with d".
std::string list_difference(const std::string & before, const std::string & now) {
    const std::vector<std::string_view> was = split(before, ',');
    const std::vector<std::string_view> is = split(now, ',');
    const auto missing_from = [](std::vector<std::string_view> from, const std::vector<std::string_view> & other) {
        std::erase_if(from, [&](std::string_view name) { return std::find(other.begin(), other.end(), name) != other.end(); });
        return join(from, ",");
    };
    const std::string gone = missing_from(was, is);
    const std::string fresh = missing_from(is, was);
    if (gone.empty() && fresh.empty()) { return "in another order"; }
    return (gone.empty() ? "" : "without " + gone) + (gone.empty() || fresh.empty() ? "" : ", ") +
           (fresh.empty() ? "" : "with " + fresh);
}

Status with_advice(const Status & status) {
    if (status.ok()) { return {}; }
    return {status.code(),
            status.message() + "; make room, then run the same command again: it goes on from the last whole answer"};
}

}  // namespace

std::string setting_differences(const RunInfo & there, const RunInfo & asked) {
    std::vector<std::string> names;
    for (const auto * run : {&there, &asked}) {
        for (const auto & [name, value] : run->settings) {
            if (std::find(names.begin(), names.end(), name) == names.end()) { names.push_back(name); }
        }
    }
    const auto value_of = [](const RunInfo & run, const std::string & name) {
        const auto at =
            std::find_if(run.settings.begin(), run.settings.end(), [&](const auto & pair) { return pair.first == name; });
        return at == run.settings.end() ? std::string("nothing") : at->second;
    };
    std::string text;
    size_t n = 0;
    for (const std::string & name : names) {
        const std::string before = value_of(there, name);
        const std::string now = value_of(asked, name);
        if (before == now || ++n > kMostDifferences) { continue; }
        const bool lists = before.size() + now.size() > kLongValues && (before + now).find(',') != std::string::npos;
        text += (text.empty() ? "" : "; ") + name +
                (lists ? " is now " + list_difference(before, now) : " was " + before + ", is " + now);
    }
    if (n > kMostDifferences) { text += "; and " + std::to_string(n - kMostDifferences) + " more"; }
    return text;
}

Result<std::unique_ptr<RunFolder>> RunFolder::read(const std::string & path) {
    std::unique_ptr<RunFolder> folder(new RunFolder(path));
    PITH_ASSIGN_OR_RETURN(folder->info_, read_info(run_file(path)));
    PITH_RETURN_IF_ERROR(folder->read_answers(false));
    return folder;
}

Result<std::unique_ptr<RunFolder>> RunFolder::open(const std::string & path, const RunInfo & info, bool must_exist) {
    std::unique_ptr<RunFolder> folder(new RunFolder(path));
    folder->info_ = info;
    if (path.empty()) { return folder; }
    std::error_code error;
    const bool exists = std::filesystem::exists(run_file(path), error);
    if (!exists && must_exist) {
        return {ErrorCode::kNotFound, "there is nothing to resume in '" + path + "': leave out --resume to begin a run"};
    }
    if (!exists && std::filesystem::exists(path, error) && !std::filesystem::is_empty(path, error)) {
        return {ErrorCode::kInvalidArgument,
                "'" + path + "' is not empty and no evaluation's folder: name another, or a new one"};
    }
    const bool is_new = std::filesystem::create_directories(path, error);
    if (error) { return {ErrorCode::kIo, "'" + path + "' cannot be made: " + error.message()}; }
    if (is_new) {  // prompts and answers are their owner's
        std::filesystem::permissions(path, std::filesystem::perms::owner_all, error);
    }
    if (exists) {
        PITH_ASSIGN_OR_RETURN(const RunInfo there, read_info(run_file(path)));
        const std::string difference = setting_differences(there, info);
        if (!difference.empty()) {
            return {ErrorCode::kInvalidArgument,
                    "'" + path + "' holds another run: " + difference + "; use the same options, or another folder"};
        }
        folder->info_ = there;
    } else {
        PITH_RETURN_IF_ERROR(write_file(run_file(path), to_json(info)));
    }
    PITH_RETURN_IF_ERROR(folder->open_for_writing());
    PITH_RETURN_IF_ERROR(folder->read_answers(true));
    return folder;
}

Status RunFolder::open_for_writing() {
    PITH_ASSIGN_OR_RETURN(AppendedFile file, AppendedFile::open(answers_file(path_)));
    file_.emplace(std::move(file));
    if (!file_->lock()) {
        return {ErrorCode::kInvalidArgument, "'" + path_ + "' is in use by another pith: wait for it, or use another folder"};
    }
    return {};
}

Status RunFolder::read_answers(bool cut_half_line) {
    const std::string path = answers_file(path_);
    PITH_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMostAnswerBytes));
    size_t begin = 0;
    int n_line = 1;
    for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin), ++n_line) {
        auto answer = parse_answer(std::string_view(text).substr(begin, end - begin));
        if (!answer.ok()) {
            return {ErrorCode::kBadFile,
                    "'" + path + "' line " + std::to_string(n_line) + " is no answer: " + answer.status().message()};
        }
        begin = end + 1;
        if (keys_.insert(answer->key()).second) { answers_.push_back(std::move(*answer)); }
    }
    n_before_ = static_cast<int>(answers_.size());
    return cut_half_line && begin < text.size() ? file_->cut(begin) : Status();
}

bool RunFolder::has(const Answer & key) const {
    const std::lock_guard lock(mutex_);
    return keys_.count(key.key()) > 0;
}

Status RunFolder::append(const std::vector<Answer> & answers) {
    const std::lock_guard lock(mutex_);
    std::string lines;
    std::vector<Answer> fresh;
    for (const Answer & answer : answers) {
        if (keys_.count(answer.key()) > 0) { continue; }
        lines += to_json_line(answer) + "\n";
        fresh.push_back(answer);
    }
    if (file_) { PITH_RETURN_IF_ERROR(with_advice(file_->append(lines))); }
    for (Answer & answer : fresh) {
        keys_.insert(answer.key());
        answers_.push_back(std::move(answer));
    }
    return {};
}

Status RunFolder::sync() {
    return file_ ? with_advice(file_->sync()) : Status();
}

}  // namespace pith
