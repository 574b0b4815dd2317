// study_part.cpp - fits a part's settings to what is there.
#include "app/eval/study_part.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "benchmarks/benchmark.h"
#include "core/text.h"
#include "policy/named_policy.h"

namespace pith::app {
namespace {

std::vector<std::string> strings_of(std::string_view list) {
    std::vector<std::string> out;
    for (const std::string_view piece : list_of(list)) { out.emplace_back(piece); }
    return out;
}

std::vector<int> numbers_of(std::string_view list) {
    std::vector<int> out;
    for (const std::string & piece : strings_of(list)) { out.push_back(std::atoi(piece.c_str())); }
    return out;
}

bool has_file(const std::string & folder, const std::string & file) {
    std::error_code error;
    return !file.empty() && std::filesystem::exists(folder + "/" + file, error);
}

class PartPlanner {
public:
    PartPlanner(const EvalFlags & given, const StudyPart & part, const StudyModel & model)
        : given_(given),
          part_(part),
          model_(model),
          stands_in_(part.needs_data && given.data.empty()),
          size_(model.is_reference || stands_in_ ? part.reference : part.paper) {}

    Result<PartPlan> plan() {
        plan_.stands_in = stands_in_;
        if (stands_in_ && !part_.stand_in) { return passed_over("it needs --data"); }
        PITH_RETURN_IF_ERROR(choose_policies());
        if (plan_.policies.empty()) { return passed_over("none of its policies can run"); }
        const std::vector<int> lengths = choose_lengths();
        if (lengths.empty()) { return passed_over("the model takes none of its lengths; give others with --context"); }
        if (part_.kind == StudyKind::kEfficiency) {
            PITH_RETURN_IF_ERROR(plan_speed(lengths));
            return std::move(plan_);
        }
        std::string tasks(stands_in_ ? "" : part_.tasks);
        if (part_.needs_data && !stands_in_) {
            tasks = join(tasks_with_data(), ",");
            if (tasks.empty()) { return passed_over("'" + given_.data + "' (--data) has none of its files"); }
        }
        plan_runs(lengths, tasks);
        return std::move(plan_);
    }

private:
    PartPlan passed_over(std::string why) {
        plan_.passed_over = std::move(why);
        return std::move(plan_);
    }

    // What divides the budget by head runs where somebody measured the heads; what asks gates, where there are some.
    Status choose_policies() {
        std::vector<std::string> without_heads;
        std::vector<std::string> without_gates;
        const std::string_view preset = cake_preset_of(model_.info);
        const std::string list = with_cake_preset(part_.policies, preset);
        if (list != part_.policies) { plan_.notes.push_back("cake: its authors' constants for " + std::string(preset)); }
        for (const std::string & name : strings_of(list)) {
            PolicyChoice choice(name);
            PITH_ASSIGN_OR_RETURN(const Policy policy, named_policy(choice));
            const bool no_heads = policy.wants_importance() && !model_.has_heads;
            const bool no_gates = policy.needs_gate() && given_.model.gate.empty();
            if (no_heads || no_gates) {
                (no_heads ? without_heads : without_gates).push_back(name);
            } else {
                plan_.policies.push_back(std::move(choice));
            }
        }
        if (!without_heads.empty()) {
            plan_.notes.push_back(join(without_heads, ",") +
                                  " left out: no head importances; `pith calibrate heads` makes them");
        }
        if (!without_gates.empty()) {
            plan_.notes.push_back(join(without_gates, ",") + " left out: name gates with --gate; `pith train gate` makes them");
        }
        return {};
    }

    // {0}: as the data is.
    std::vector<int> choose_lengths() {
        std::vector<int> lengths = given_.lengths;
        if (lengths.empty()) { lengths = numbers_of(size_.lengths); }
        const int most = given_.n_ctx > 0 ? given_.n_ctx : model_.info.n_ctx_train;
        if (lengths.empty() || most == 0) { return lengths.empty() ? std::vector<int>{0} : lengths; }
        std::erase_if(lengths, [&](int length) {
            if (length <= most) { return false; }
            plan_.notes.push_back("--context " + std::to_string(length) + " passed over: the model takes " +
                                  std::to_string(most) + " tokens (--ctx-size N to try it all the same)");
            return true;
        });
        return lengths;
    }

    std::vector<std::string> budgets() const { return given_.budgets.empty() ? strings_of(size_.budgets) : given_.budgets; }
    std::vector<int> chunks() const { return given_.chunk > 0 ? std::vector<int>{given_.chunk} : numbers_of(size_.chunks); }
    int evict_every() const { return given_.evict_every == kStudysOwn ? part_.evict_every : given_.evict_every; }

    // Those whose data is in the folder; the others are named.
    std::vector<std::string> tasks_with_data() {
        std::vector<std::string> there;
        std::vector<std::string> missing;
        for (const std::string & name : tasks_of_part(part_)) {
            const benchmarks::TaskRules & rules = benchmarks::find_task(part_.family, name)->rules();
            const bool is_there = rules.file.empty() || has_file(given_.data, rules.file) || has_file(given_.data, rules.ready);
            (is_there ? there : missing).push_back(name);
        }
        if (!there.empty() && !missing.empty()) {
            plan_.notes.push_back(join(missing, ",") + " passed over: '" + given_.data + "' (--data) lacks their files");
        }
        return there;
    }

    void plan_runs(const std::vector<int> & lengths, const std::string & tasks) {
        EvalFlags run = given_;
        run.policies.clear();
        run.family = stands_in_ ? "ruler" : std::string(part_.family);
        run.tasks = tasks;
        for (const PolicyChoice & policy : plan_.policies) {
            run.policies += (run.policies.empty() ? "" : ",") + policy.name();  // flags of a run are texts
        }
        run.budgets = budgets();
        run.lengths = lengths == std::vector<int>{0} ? std::vector<int>() : lengths;
        if (run.n_samples == 0 && !run.all_samples) { run.n_samples = size_.n_samples; }
        const bool perplexity = run.family == "perplexity";
        run.question_aware = part_.question_aware && !perplexity;
        run.prefill = part_.chunked ? "chunked" : "one-shot";
        run.evict_every = evict_every();
        if (perplexity) {
            run.data.clear();
            run.haystack.clear();
        } else {
            run.texts.clear();
        }
        const std::vector<int> sizes = chunks();
        for (const int chunk : sizes) {
            run.chunk = chunk;
            if (!given_.out.empty()) {
                run.out = given_.out + "/" + std::string(part_.name) +
                          (sizes.size() > 1 ? "-chunk" + std::to_string(chunk) : std::string());
            }
            plan_.runs.push_back(run);
        }
    }

    Status plan_speed(const std::vector<int> & lengths) {
        PolicySpeedOptions & speed = plan_.speed;
        speed.policies = plan_.policies;
        speed.lengths = lengths;
        speed.chunks = chunks();
        for (const std::string & text : budgets()) {
            PITH_ASSIGN_OR_RETURN(const Budget budget, Budget::parse(text));
            speed.budgets.push_back(budget);
        }
        speed.n_repetitions = given_.n_samples > 0 ? given_.n_samples : size_.n_samples > 0 ? size_.n_samples : 3;
        speed.seed = static_cast<uint32_t>(given_.seed);
        PITH_RETURN_IF_ERROR(given_.cache.set(speed.session));
        speed.session.prefill = part_.chunked ? PrefillSchedule::kChunked : PrefillSchedule::kOneShot;
        speed.session.evict_every = evict_every();
        speed.session.heads_file = given_.heads;
        speed.session.n_threads = given_.n_threads;
        return {};
    }

    const EvalFlags & given_;
    const StudyPart & part_;
    const StudyModel & model_;
    bool stands_in_;
    const StudySize & size_;
    PartPlan plan_;
};

}  // namespace

Result<PartPlan> plan_part(const EvalFlags & given, const StudyPart & part, const StudyModel & model) {
    return PartPlanner(given, part, model).plan();
}

}  // namespace pith::app
