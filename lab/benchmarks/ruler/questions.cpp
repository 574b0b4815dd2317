// questions.cpp - RULER's question answering (qa_1: SQuAD, qa_2: HotpotQA): documents that hold the answer among others. Stage:
// benchmarks. Pure C++; see ruler.h. Reads the datasets as published: dev-v2.0.json, hotpot_dev_distractor_v1.json.
//
// Sample i asks question i (SQuAD: of those that have an answer). Its own documents come first into the sample, then, for
// SQuAD, those of the same article, then any others, until the limit; all are shuffled.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "benchmarks/files/records.h"
#include "benchmarks/generate/fit.h"
#include "benchmarks/ruler/ruler.h"
#include "tasks/concat.h"

namespace pith::benchmarks {
namespace {

using corpus::concat;
using corpus::Random;

constexpr std::string_view kQuestionMarks[] = {"Answer the question based on the given documents"};
constexpr RulerForm kForm = {kQuestionMarks, "Answer:", 32, true};
constexpr std::string_view kInstruction =
    "Answer the question based on the given documents. Only give me the answer and do not output any other words.";
constexpr size_t kGapCandidates = 256;  // documents looked at to fill the last gap

struct Question {
    std::string text;
    std::vector<std::string> answers;
    size_t group;  // whose documents come first: SQuAD's article, HotpotQA's question
    int own;       // of the group: the one that belongs to the question; -1: all do
};

struct Dataset {
    std::vector<std::vector<std::string>> groups;
    std::vector<Question> questions;
};

// The different documents of a data set, sorted; RULER draws from this list.
class Documents {
public:
    explicit Documents(const Dataset & data) {
        for (const auto & group : data.groups) { all_.insert(all_.end(), group.begin(), group.end()); }
        std::sort(all_.begin(), all_.end());
        all_.erase(std::unique(all_.begin(), all_.end()), all_.end());
    }
    int size() const { return static_cast<int>(all_.size()); }
    std::string_view text(int i) const { return all_[static_cast<size_t>(i)]; }
    int place(std::string_view text) const {
        return static_cast<int>(std::lower_bound(all_.begin(), all_.end(), text) - all_.begin());
    }

private:
    std::vector<std::string_view> all_;
};

// Refuses ids that come twice and answers that are empty.
class Checks {
public:
    Status id(const Record & record, std::string_view field) {
        PITH_ASSIGN_OR_RETURN(const std::string id, record.scalar(field));
        if (!seen_.insert(id).second) {
            return record.bad(field, "'" + id + "' comes twice: a question would count twice; delete one");
        }
        return {};
    }
    static Status answers(const Record & record, std::string_view field, const std::vector<std::string> & answers) {
        const bool empty = std::any_of(answers.begin(), answers.end(), [](const auto & answer) { return answer.empty(); });
        if (!answers.empty() && !empty) { return {}; }
        return record.bad(field, "is empty: a question without an answer cannot be scored; delete it");
    }

private:
    std::set<std::string> seen_;
};

Status read_squad_questions(const Record & paragraph, int own, Checks & checks, Dataset & out) {
    if (const auto none = paragraph.texts("qas"); none.ok() && none->empty()) {
        return {};
    }  // a document that nobody asks about
    PITH_ASSIGN_OR_RETURN(const std::vector<Record> items, paragraph.objects("qas"));
    for (const Record & item : items) {
        PITH_ASSIGN_OR_RETURN(const std::string impossible, item.scalar("is_impossible"));
        PITH_RETURN_IF_ERROR(checks.id(item, "id"));
        if (impossible == "true") { continue; }
        Question question{{}, {}, out.groups.size() - 1, own};
        PITH_ASSIGN_OR_RETURN(question.text, item.text("question"));
        PITH_ASSIGN_OR_RETURN(const std::vector<Record> answers, item.objects("answers"));
        for (const Record & answer : answers) {
            PITH_ASSIGN_OR_RETURN(std::string text, answer.text("text"));
            question.answers.push_back(std::move(text));
        }
        PITH_RETURN_IF_ERROR(Checks::answers(item, "answers", question.answers));
        out.questions.push_back(std::move(question));
    }
    return {};
}

Result<Dataset> read_squad(std::string_view text, const std::string & file) {
    Dataset out;
    Checks checks;
    const auto use = [&](const Record & whole) -> Status {
        PITH_ASSIGN_OR_RETURN(const std::vector<Record> articles, whole.objects("data"));
        for (const Record & article : articles) {
            PITH_ASSIGN_OR_RETURN(const std::vector<Record> paragraphs, article.objects("paragraphs"));
            out.groups.emplace_back();
            for (const Record & paragraph : paragraphs) {
                PITH_ASSIGN_OR_RETURN(std::string document, paragraph.text("context"));
                out.groups.back().push_back(std::move(document));
                PITH_RETURN_IF_ERROR(
                    read_squad_questions(paragraph, static_cast<int>(out.groups.back().size()) - 1, checks, out));
            }
        }
        return {};
    };
    PITH_RETURN_IF_ERROR(for_each_record(text, file, 0, use));
    return out;
}

Result<Dataset> read_hotpot(std::string_view text, const std::string & file) {
    Dataset out;
    Checks checks;
    const auto use = [&](const Record & record) -> Status {
        PITH_RETURN_IF_ERROR(checks.id(record, "_id"));
        Question question{{}, {}, out.groups.size(), -1};
        PITH_ASSIGN_OR_RETURN(question.text, record.text("question"));
        PITH_ASSIGN_OR_RETURN(std::string answer, record.text("answer"));
        question.answers = {std::move(answer)};
        PITH_RETURN_IF_ERROR(Checks::answers(record, "answer", question.answers));
        PITH_ASSIGN_OR_RETURN(const std::vector<TitledTexts> documents, record.titled_texts("context"));
        if (documents.empty()) { return record.bad("context", "is an empty list: the question has no documents"); }
        out.groups.emplace_back();
        for (const auto & document : documents) {
            out.groups.back().push_back(document.title + "\n" +
                                        std::accumulate(document.texts.begin(), document.texts.end(), std::string()));
        }
        out.questions.push_back(std::move(question));
        return {};
    };
    PITH_RETURN_IF_ERROR(for_each_record(text, file, 0, use));
    return out;
}

// One question; contexts of any number of documents are beginnings of one order.
class Builder {
public:
    Builder(const Documents & documents, const Question & question, const std::vector<std::string> & group, Random random)
        : documents_(documents), question_(question), shuffle_(random.next()) {
        std::vector<int> near;
        std::vector<bool> taken(static_cast<size_t>(documents.size()), false);
        for (size_t i = 0; i < group.size(); ++i) {
            const int place = documents.place(group[i]);
            const bool own = question.own < 0 || group[i] == group[static_cast<size_t>(question.own)];
            if (!taken[static_cast<size_t>(place)]) { (own ? order_ : near).push_back(place); }
            taken[static_cast<size_t>(place)] = true;
        }
        n_own_ = static_cast<int>(order_.size());
        random.shuffle(near);
        order_.insert(order_.end(), near.begin(), near.end());
        for (const int d : random.draw(documents.size(), documents.size())) {
            if (!taken[static_cast<size_t>(d)]) { order_.push_back(d); }
        }
    }

    int n_own() const { return n_own_; }
    // Documents that the first n leave out.
    std::span<const int> rest(int n) const {
        return std::span(order_).subspan(std::min(static_cast<size_t>(n), order_.size()));
    }

    // Beyond the last document they start again. `extra`: one more.
    RulerText text(int n, int extra = -1) const {
        std::vector<int> chosen;
        for (int i = 0; i < n; ++i) { chosen.push_back(order_[static_cast<size_t>(i) % order_.size()]); }
        if (extra >= 0) { chosen.push_back(extra); }
        Random(shuffle_).shuffle(chosen);
        std::string context;
        for (size_t i = 0; i < chosen.size(); ++i) {
            context += concat({i > 0 ? "\n\n" : "", "Document ", std::to_string(i + 1), ":\n", documents_.text(chosen[i])});
        }
        return {concat({kInstruction, "\n\nThe following are given documents.\n\n", context, "\n\n", kInstruction,
                        "\n\nQuestion: ", question_.text}),
                " Answer:", question_.answers};
    }

private:
    const Documents & documents_;
    const Question & question_;
    uint64_t shuffle_;
    int n_own_ = 0;
    std::vector<int> order_;
};

using ReadDataset = Result<Dataset> (*)(std::string_view text, const std::string & file);

class QuestionTask final : public RulerTask {
public:
    QuestionTask(std::string_view name, std::string_view help, std::string_view file, ReadDataset read)
        : RulerTask(name, help, kForm, file), read_(read) {}

protected:
    Result<std::vector<RulerText>> generate(const SampleRequest & request, int n_samples) const override {
        PITH_ASSIGN_OR_RETURN(const Dataset data, read_(request.file, request.path_or(rules().file)));
        const Documents documents(data);
        std::vector<RulerText> texts;
        Status too_long;  // of the first that does not fit
        for (size_t i = 0; i < data.questions.size() && i < static_cast<size_t>(n_samples); ++i) {
            const Question & question = data.questions[i];
            const Builder builder(documents, question, data.groups[question.group], random(request, static_cast<int>(i)));
            auto text = fit(builder, documents, static_cast<int>(i), request);
            if (text.ok()) {
                texts.push_back(std::move(*text));
            } else if (text.status().code() != ErrorCode::kBudget) {
                return text.status();
            } else if (too_long.ok()) {
                too_long = text.status();
            }
        }
        return texts.empty() && !too_long.ok() ? Result<std::vector<RulerText>>(too_long) : std::move(texts);
    }

private:
    Result<RulerText> fit(const Builder & builder, const Documents & documents, int index,
                          const SampleRequest & request) const {
        const int limit = request.n_tokens - form().max_new_tokens;
        const auto count = [&](const RulerText & text) { return request.count(text.input + text.answer_prefix); };
        const Fit found = most_that_fit(builder.n_own(), std::max(builder.n_own(), request.n_tokens), limit,
                                        [&](int n) { return count(builder.text(n)); });
        if (found.n_units < 0) {
            return too_small(concat({rules().name, " (question ", std::to_string(index), ")"}),
                             found.n_tokens + form().max_new_tokens, request.n_tokens);
        }
        if (limit - found.n_tokens <= request.n_tokens / 50) { return builder.text(found.n_units); }
        // The longest of some other documents that still fits.
        int best = -1;
        int best_tokens = 0;
        const auto rest = builder.rest(found.n_units);
        for (const int d : rest.first(std::min(rest.size(), kGapCandidates))) {
            const int n = request.count(concat({"\n\nDocument 10:\n", documents.text(d)}));
            if (n > best_tokens && found.n_tokens + n <= limit && count(builder.text(found.n_units, d)) <= limit) {
                best = d;
                best_tokens = n;
            }
        }
        return builder.text(found.n_units, best);
    }

    ReadDataset read_;
};

}  // namespace

Tasks ruler_question_tasks() {
    Tasks tasks;
    tasks.push_back(
        std::make_unique<QuestionTask>("qa_1", "one question of SQuAD on many of its paragraphs", "dev-v2.0.json", read_squad));
    tasks.push_back(std::make_unique<QuestionTask>("qa_2", "one question of HotpotQA on many of its documents",
                                                   "hotpot_dev_distractor_v1.json", read_hotpot));
    return tasks;
}

}  // namespace pith::benchmarks
