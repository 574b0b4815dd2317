// run_shards.cpp - which prompts are whose, and whether all parts are there.
#include "eval/run_shards.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "core/parse_integer.h"

namespace pith {
namespace {

constexpr int kMostShards = 100'000;

int n_answered(const RunFolder & folder) {
    return static_cast<int>(std::ranges::count_if(folder.answers(), [](const Answer & one) { return !one.is_left_out(); }));
}

// The info of a part, as that of the whole run.
RunInfo whole_info(RunInfo info) {
    std::erase_if(info.settings, [](const auto & setting) { return setting.first == kShardSetting; });
    info.shard.reset();
    return info;
}

Result<Shard> shard_of(const RunFolder & folder) {
    const RunInfo & info = folder.info();
    const auto setting = std::ranges::find(info.settings, kShardSetting, &std::pair<std::string, std::string>::first);
    if (setting == info.settings.end() || !info.shard) {
        return {ErrorCode::kInvalidArgument,
                "'" + folder.path() + "' is a whole run, and no part of one: parts are made with --shard"};
    }
    return parse_shard(setting->second);
}

Status check_finished(const RunFolder & folder) {
    const int n = n_answered(folder);
    if (n == folder.info().shard->n_answers) { return {}; }
    return {ErrorCode::kInvalidArgument, "'" + folder.path() + "' has " + std::to_string(n) + " of its " +
                                             std::to_string(folder.info().shard->n_answers) +
                                             " answers: run its command again, which goes on from them"};
}

struct Part {
    Shard shard;
    std::unique_ptr<RunFolder> folder;
};

Result<Part> read_part(const std::string & path) {
    Part part;
    PITH_ASSIGN_OR_RETURN(part.folder, RunFolder::read(path));
    PITH_ASSIGN_OR_RETURN(part.shard, shard_of(*part.folder));
    PITH_RETURN_IF_ERROR(check_finished(*part.folder));
    return part;
}

Status check_same_run(const Part & part, const Part & first) {
    const std::string difference = setting_differences(whole_info(first.folder->info()), whole_info(part.folder->info()));
    if (!difference.empty()) {
        return {ErrorCode::kInvalidArgument,
                "'" + part.folder->path() + "' is a part of another run than '" + first.folder->path() + "': " + difference};
    }
    const bool same =
        part.shard.count == first.shard.count && part.folder->info().shard->n_all == first.folder->info().shard->n_all;
    if (same) { return {}; }
    const auto told = [](const Part & one) {
        return std::to_string(one.shard.count) + " parts and " + std::to_string(one.folder->info().shard->n_all) + " answers";
    };
    return {ErrorCode::kInvalidArgument, "'" + part.folder->path() + "' is of a run of " + told(part) + ", '" +
                                             first.folder->path() + "' of one of " + told(first)};
}

// What lies in the folder already was put together from these parts, or from some of them.
Status check_same_answers(const RunFolder & before, const RunFolder & together, const std::string & path) {
    std::map<std::string, const Answer *> known;
    for (const Answer & answer : together.answers()) { known[answer.key()] = &answer; }
    for (const Answer & answer : before.answers()) {
        const auto at = known.find(answer.key());
        const bool same = at != known.end() && at->second->prediction == answer.prediction &&
                          at->second->score == answer.score && at->second->refused == answer.refused;
        if (same) { continue; }
        return {ErrorCode::kInvalidArgument, "'" + path + "' holds another answer to sample '" + answer.sample + "' of " +
                                                 answer.task + " than the parts: give a new folder, or remove that one"};
    }
    return {};
}

// The parts are sorted.
Status check_each_once(const std::vector<Part> & parts) {
    const int count = parts.front().shard.count;
    const auto name = [count](int index) { return std::to_string(index) + "/" + std::to_string(count); };
    int wanted = 1;
    for (size_t i = 0; i < parts.size(); ++i, ++wanted) {
        const int index = parts[i].shard.index;
        if (i > 0 && index == parts[i - 1].shard.index) {
            return {ErrorCode::kInvalidArgument, "part " + name(index) + " comes twice: '" + parts[i - 1].folder->path() +
                                                     "' and '" + parts[i].folder->path() + "'"};
        }
        if (index != wanted) { break; }
    }
    if (wanted > count) { return {}; }
    return {ErrorCode::kInvalidArgument,
            "part " + name(wanted) + " is missing: give the folders of all " + std::to_string(count)};
}

}  // namespace

Result<Shard> parse_shard(std::string_view text) {
    Shard shard;
    const size_t slash = text.find('/');
    const bool read = slash != std::string_view::npos && parse_integer(text.substr(0, slash), shard.index) &&
                      parse_integer(text.substr(slash + 1), shard.count);
    if (!read || shard.index < 1 || shard.index > shard.count || shard.count > kMostShards) {
        return {ErrorCode::kInvalidArgument,
                "'" + std::string(text) + "' is no part of a run: give 2/4 for the second of four"};
    }
    return shard;
}

void keep_shard(EvalPlan & plan, const Shard & shard) {
    plan.info.shard = RunInfo::ShardSize{0, plan.n_answers()};
    std::vector<EvalUnit> mine;
    int64_t n_prompts = 0;
    const EvalUnit * before = nullptr;
    std::vector<bool> is_mine;
    for (const EvalUnit & unit : plan.units) {
        // One prompt is one whether it is read once for all questions or not (EvalOptions::share).
        n_prompts += before == nullptr || before->compressed != unit.compressed ? 1 : 0;
        is_mine.push_back((n_prompts - 1) % shard.count == shard.index - 1);
        before = &unit;
    }
    for (size_t i = 0; i < is_mine.size(); ++i) {
        if (is_mine[i]) { mine.push_back(std::move(plan.units[i])); }
    }
    plan.units = std::move(mine);
    plan.info.shard->n_answers = plan.n_answers();
}

Result<std::unique_ptr<RunFolder>> merge_shards(const std::vector<std::string> & folders, const std::string & out) {
    if (folders.empty()) {
        return {ErrorCode::kInvalidArgument, "there is nothing to put together: give the folders of all parts"};
    }
    std::vector<Part> parts;
    for (const std::string & path : folders) {
        PITH_ASSIGN_OR_RETURN(Part part, read_part(path));
        parts.push_back(std::move(part));
        PITH_RETURN_IF_ERROR(check_same_run(parts.back(), parts.front()));
    }
    std::ranges::stable_sort(parts, {}, [](const Part & part) { return part.shard.index; });
    PITH_RETURN_IF_ERROR(check_each_once(parts));
    std::vector<Answer> answers;
    for (const Part & part : parts) {
        answers.insert(answers.end(), part.folder->answers().begin(), part.folder->answers().end());
    }
    // Before anything is written: all of them, in memory.
    const RunInfo info = whole_info(parts.front().folder->info());
    PITH_ASSIGN_OR_RETURN(const auto together, RunFolder::open("", info));
    PITH_RETURN_IF_ERROR(together->append(answers));
    const int n_all = parts.front().folder->info().shard->n_all;
    if (n_answered(*together) != n_all) {
        return {ErrorCode::kBadFile, "the parts have " + std::to_string(n_answered(*together)) +
                                         " different answers, the run has " + std::to_string(n_all) +
                                         ": they were not made by the same commands"};
    }
    PITH_ASSIGN_OR_RETURN(auto whole, RunFolder::open(out, info));
    PITH_RETURN_IF_ERROR(check_same_answers(*whole, *together, out));
    PITH_RETURN_IF_ERROR(whole->append(together->answers()));
    PITH_RETURN_IF_ERROR(whole->sync());
    return whole;
}

}  // namespace pith
