// tasks.cpp - builds a sample as long as its limit allows: place the needles in ever more haystack, by bisection.
#include "tasks/tasks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "core/text.h"
#include "tasks/concat.h"
#include "tasks/wording.h"
#include "tasks/words.h"
#include "tasks/worlds.h"

namespace pith::corpus {
namespace {

constexpr int kNeedleAnswerTokens = 12;  // a number of 7 digits, the full stop, and room for other tokenisers
constexpr int kMaxUnits = 1 << 17;

constexpr std::array<TaskInfo, 6> kTasks = {{
    {"single", "one needle, one number", 128},
    {"multikey", "four needles with different keys, one asked", 192},
    {"multivalue", "four needles with one key, all four numbers asked", 192},
    {"vt", "variable tracking: one chain of five names", 256},
    {"cwe", "the ten most common words of a list", 512},
    {"facts", "eight facts of a small world, one asked", 160},
}};

// A sentence hidden in the haystack at `depth` (0 … 1).
struct Hidden {
    std::string text;
    double depth;
    bool asked = true;  // the question is about it
};

// Everything of a sample but the haystack.
struct Frame {
    Task task;
    std::string preamble;
    std::vector<Hidden> hidden;
};

// The haystack grows sentence by sentence; the same sample always draws the same sentences.
class HaystackSource {
public:
    HaystackSource(Haystack kind, Random & random) : kind_(kind), random_(random) {}

    const std::string & sentence(int i) {
        while (static_cast<int>(sentences_.size()) <= i) {
            const int next = static_cast<int>(sentences_.size());
            sentences_.push_back(kind_ == Haystack::kNoise ? std::string(noise_sentence(next)) : filler_sentence(random_));
        }
        return sentences_[static_cast<size_t>(i)];
    }
    // Needles stand between lines: a line of noise, or one sentence of a story.
    int line_length() const { return kind_ == Haystack::kNoise ? kNoiseSentences : 1; }
    bool own_lines() const { return kind_ == Haystack::kNoise; }

private:
    Haystack kind_;
    Random & random_;
    std::vector<std::string> sentences_;
};

// The context, of n_units sentences and some short ones, with the hidden sentences between their lines.
void assemble(Frame & frame, HaystackSource & source, int n_units, std::span<const std::string> closers) {
    const int step = source.line_length();
    const int n_slots = n_units / step + 1;  // places between lines
    // In a story the first sentence is haystack: a hidden one would start without a space, as other pieces than in the
    // question.
    const int first = source.own_lines() ? 0 : std::min(1, n_slots - 1);
    std::vector<int> slots;
    for (const auto & hidden : frame.hidden) {
        slots.push_back(std::max(static_cast<int>(std::lround(hidden.depth * (n_slots - 1))), first));
    }
    std::string out = frame.preamble;
    frame.task.needles.clear();
    bool line_start = true;
    const auto append = [&](std::string_view text, bool new_line) {
        if (!line_start) { out += new_line ? "\n" : " "; }
        out += text;
        line_start = false;
    };
    for (int unit = 0; unit <= n_units; ++unit) {
        const bool between = unit % step == 0;
        if (between) {
            for (size_t h = 0; h < slots.size(); ++h) {
                if (slots[h] != unit / step) { continue; }
                append(frame.hidden[h].text, source.own_lines());
                const size_t n_bytes = frame.hidden[h].text.size();
                if (frame.hidden[h].asked) { frame.task.needles.push_back({out.size() - n_bytes, out.size()}); }
            }
        }
        if (unit < n_units) { append(source.sentence(unit), between && source.own_lines()); }
    }
    for (const auto & closer : closers) { append(closer, false); }
    frame.task.context = std::move(out);
}

std::string too_small(std::string_view id, int needs, int n_tokens) {
    return concat({"task '", id, "' needs at least ", std::to_string(needs), " tokens, but n_tokens is ",
                   std::to_string(n_tokens), ": raise it"});
}

// The most units that keep the sample inside its limit, then short sentences in the gap.
Result<Task> fit(Frame frame, HaystackSource & source, Random & random, int n_tokens, const CountTokens & count) {
    const int limit = n_tokens - 1 - frame.task.max_new_tokens;
    const auto tokens = [&](int n_units, std::span<const std::string> closers) {
        assemble(frame, source, n_units, closers);
        return count(frame.task.prompt());
    };
    const int empty = tokens(0, {});
    if (empty > limit) {
        return {ErrorCode::kInvalidArgument, too_small(frame.task.id, empty + 1 + frame.task.max_new_tokens, n_tokens)};
    }
    int low = 0;
    int high = 1;
    while (high < kMaxUnits && tokens(high, {}) <= limit) {
        low = high;
        high *= 2;
    }
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        (tokens(middle, {}) <= limit ? low : high) = middle;
    }
    std::vector<std::string> closers;
    while (source.line_length() == 1) {  // noise is fine-grained already
        closers.push_back(closer_sentence(random));
        if (tokens(low, closers) > limit) {
            closers.pop_back();
            break;
        }
    }
    tokens(low, closers);
    return std::move(frame.task);
}

double draw_depth(Random & random, const TaskOptions & options, bool first) {
    const double drawn = random.uniform();
    return first && options.depth >= 0 ? std::min(options.depth, 1.0) : drawn;
}

struct DrawnNeedles {
    std::vector<std::string> keys;
    std::vector<std::string> values;  // of the first key, of the next, …
};

DrawnNeedles draw_needles(std::string_view id, Random & random) {
    const int n_keys = id == "multikey" ? 4 : 1;
    const int n_values = id == "multivalue" ? 4 : 1;
    DrawnNeedles drawn;
    drawn.keys = draw_needle_keys(random, n_keys);
    drawn.values = draw_needle_values(random, n_keys * n_values);
    return drawn;
}

Frame needle_frame(std::string_view id, Random & random, const TaskOptions & options) {
    const auto [keys, values] = draw_needles(id, random);
    const int n_keys = static_cast<int>(keys.size());
    const int n_values = static_cast<int>(values.size()) / n_keys;
    const bool plural = n_values > 1;
    Frame frame;
    frame.preamble = needle_preamble(plural);
    for (int i = 0; i < n_keys * n_values; ++i) {
        frame.hidden.push_back({needle_sentence(keys[static_cast<size_t>(i / n_values)], values[static_cast<size_t>(i)]),
                                draw_depth(random, options, i == 0), i < n_values});
    }
    // The first key is the one asked for: its depth is the option's. Answers stand in the order of the text.
    std::vector<std::pair<double, std::string>> asked;
    for (size_t i = 0; i < static_cast<size_t>(n_values); ++i) { asked.emplace_back(frame.hidden[i].depth, values[i]); }
    std::stable_sort(asked.begin(), asked.end(), [](const auto & a, const auto & b) { return a.first < b.first; });
    for (const auto & [depth, value] : asked) { frame.task.answers.push_back(value); }
    std::stable_sort(frame.hidden.begin(), frame.hidden.end(),
                     [](const auto & a, const auto & b) { return a.depth < b.depth; });
    frame.task.question = needle_question(keys[0], plural);
    frame.task.answer_prefix = needle_prefix(keys[0], plural);
    frame.task.max_new_tokens = kNeedleAnswerTokens * n_values;
    return frame;
}

// Samples of different tasks share nothing: 4 bits of the stream's 40 are the task.
Random stream_of(const TaskInfo & task, const TaskOptions & options) {
    return {options.space, options.seed, options.index << 4 | static_cast<uint64_t>(&task - kTasks.data())};
}

Frame tracking_frame(Random & random, const TaskOptions & options) {
    constexpr int kNames = 5;
    const auto names = draw_variable_names(random, kNames);
    const std::string value = std::to_string(random.between(10000, 99998));
    std::vector<double> depths;
    for (int i = 0; i < kNames; ++i) { depths.push_back(draw_depth(random, options, i == 0)); }
    std::sort(depths.begin(), depths.end());  // a name is used after it is set
    Frame frame;
    frame.preamble = kTrackingPreamble;
    for (size_t i = 0; i < names.size(); ++i) {
        frame.hidden.push_back(
            {concat({"VAR ", names[i], i == 0 ? " = " : " = VAR ", i == 0 ? value : names[i - 1]}), depths[i]});
    }
    frame.task.answers = names;
    frame.task.question = tracking_question(value);
    frame.task.answer_prefix = tracking_prefix(kNames, value);
    frame.task.max_new_tokens = 8 * kNames;
    return frame;
}

Frame facts_frame(Random & random, const TaskOptions & options) {
    constexpr int kFacts = 8;
    const auto facts = make_world(random, kFacts);
    Frame frame;
    frame.preamble = kFactsPreamble;
    for (size_t i = 0; i < facts.size(); ++i) {
        const auto & said = facts[i].statements;
        const auto other = random.pick(said);
        frame.hidden.push_back({i == 0 ? said[kHeldOutStatement] : other, draw_depth(random, options, i == 0), i == 0});
    }
    std::stable_sort(frame.hidden.begin(), frame.hidden.end(),
                     [](const auto & a, const auto & b) { return a.depth < b.depth; });
    frame.task.answers = {facts[0].answer};
    frame.task.question = fact_question(facts[0].questions[kHeldOutQuestion]);
    frame.task.answer_prefix = kFactPrefix;
    frame.task.max_new_tokens = 6;
    return frame;
}

// Ten common words and others, numbered and shuffled; no haystack: the list itself grows.
Result<Task> common_words(Random & random, const TaskOptions & options, const CountTokens & count) {
    constexpr int kCommon = 10;
    int common_times = options.n_tokens >= 4096 ? 30 : 6;
    const auto & pool = words::single_words();
    const auto order = random.draw(static_cast<int>(pool.size()), static_cast<int>(pool.size()));
    Task task;
    task.id = "cwe";
    task.question = common_question(kCommon);
    task.answer_prefix = common_prefix(kCommon);
    task.max_new_tokens = 6 * kCommon;
    const int limit = options.n_tokens - 1 - task.max_new_tokens;
    const uint64_t shuffle_seed = random.next();
    std::vector<std::string_view> list;
    const auto build = [&](int n_others) {
        list.clear();
        const auto word = [&](int i) { return pool[static_cast<size_t>(order[static_cast<size_t>(i)])]; };
        const int n_other_words = static_cast<int>(pool.size()) - kCommon;
        for (int i = 0; i < kCommon * common_times; ++i) { list.push_back(word(i % kCommon)); }
        for (int i = 0; i < n_others; ++i) { list.push_back(word(kCommon + i % n_other_words)); }
        Random shuffler(shuffle_seed);
        shuffler.shuffle(list);
        task.context = std::string(kCommonPreamble) + numbered_list(list);
        return count(task.prompt());
    };
    if (const int empty = build(0); empty > limit) {
        return {ErrorCode::kInvalidArgument, too_small("cwe", empty + 1 + task.max_new_tokens, options.n_tokens)};
    }
    // Others must stay rarer: at most half as often as the common ones. The word list is short, so a long sample
    // repeats the common ones more often than RULER's 6 or 30 times.
    const auto most = [&] { return (static_cast<int>(pool.size()) - kCommon) * common_times / 2; };
    while (build(most()) <= limit) { common_times *= 2; }
    int low = 0;
    int high = most();
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        (build(middle) <= limit ? low : high) = middle;
    }
    build(low);
    for (const auto word : list) {  // in the order of first appearance
        const auto common = std::span(order).first(kCommon);
        const bool is_common =
            std::any_of(common.begin(), common.end(), [&](int w) { return pool[static_cast<size_t>(w)] == word; });
        if (is_common && std::find(task.answers.begin(), task.answers.end(), word) == task.answers.end()) {
            task.answers.emplace_back(word);
        }
    }
    task.completion = completion_of(task.answers);
    return task;
}

}  // namespace

std::span<const TaskInfo> task_list() {
    return kTasks;
}

Result<Task> make_task(std::string_view id, const TaskOptions & options, const CountTokens & count) {
    const auto known = std::find_if(kTasks.begin(), kTasks.end(), [id](const TaskInfo & info) { return info.id == id; });
    if (known == kTasks.end()) {
        std::string names;
        for (const auto & info : kTasks) { names += concat({names.empty() ? "" : ", ", info.id}); }
        return {ErrorCode::kInvalidArgument, concat({"unknown task '", id, "': use one of ", names})};
    }
    if (options.n_tokens < known->min_tokens) {
        return {ErrorCode::kInvalidArgument, too_small(id, known->min_tokens, options.n_tokens)};
    }
    Random random = stream_of(*known, options);
    if (id == "cwe") { return common_words(random, options, count); }
    Frame frame = id == "vt"      ? tracking_frame(random, options)
                  : id == "facts" ? facts_frame(random, options)
                                  : needle_frame(id, random, options);
    frame.task.id = id;
    frame.task.completion = id == "vt" ? names_of(frame.task.answers) : completion_of(frame.task.answers);
    const Haystack haystack = id == "facts" ? Haystack::kWorld : id == "vt" ? Haystack::kNoise : options.haystack;
    HaystackSource source(haystack, random);
    return fit(std::move(frame), source, random, options.n_tokens, count);
}

Result<std::vector<Task>> make_multikey_tasks(const TaskOptions & options, const CountTokens & count) {
    static constexpr std::string_view kId = "multikey";
    PITH_ASSIGN_OR_RETURN(const Task first, make_task(kId, options, count));
    Random random =
        stream_of(*std::find_if(kTasks.begin(), kTasks.end(), [](const TaskInfo & one) { return one.id == kId; }), options);
    const auto [keys, values] = draw_needles(kId, random);
    std::vector<Task> tasks;
    for (size_t i = 0; i < keys.size(); ++i) {
        const std::string hidden = needle_sentence(keys[i], values[i]);
        const size_t begin = first.context.find(hidden);
        Task & task = tasks.emplace_back(first);
        task.needles = {{begin, begin + hidden.size()}};
        task.question = needle_question(keys[i], false);
        task.answer_prefix = needle_prefix(keys[i], false);
        task.answers = {values[i]};
        task.completion = completion_of(task.answers);
    }
    return tasks;
}

double score(const Task & task, std::string_view output) {
    if (task.answers.empty()) { return 0; }
    const std::string said = to_lower(output);
    const auto found = std::count_if(task.answers.begin(), task.answers.end(),
                                     [&](const auto & answer) { return said.find(to_lower(answer)) != std::string::npos; });
    return static_cast<double>(found) / static_cast<double>(task.answers.size());
}

}  // namespace pith::corpus
