// babilong_tasks.cpp - BABILong's first five tasks: bAbI's facts hidden in books. Stage: benchmarks.
// Pure C++.
//
// File:     <task>.json, one of the benchmark's lengths under the task's name, as JSON Lines or a list: input, question,
//           target. No ids: a sample is called by its number in the file.
// Prompt:   instruction, examples, how to answer, <context>…</context>, Question: …; the context and the whole are stripped at
//           both ends.
// Rules:    20 new tokens; a sample longer than the limit is refused, since the benchmark publishes each length and cuts
//           nothing.
// Differs:  a sample without a target is refused.
// Source:   BABILong, babilong/prompts.py, babilong/metrics.py, scripts/run_model_on_babilong.py.
#include <span>

#include "benchmarks/families.h"
#include "benchmarks/files/file_task.h"
#include "benchmarks/metrics/babilong_score.h"
#include "benchmarks/metrics/unicode.h"

namespace pith::benchmarks {
namespace {

struct Row {
    std::string_view name, about;
    std::span<const std::string_view> labels;
    std::string_view instruction, examples, how_to_answer;
};

constexpr std::string_view kPlaces[] = {"bathroom", "bedroom", "garden", "hallway", "kitchen", "office"};
constexpr std::string_view kPeopleAndThings[] = {"Bill", "Fred", "Jeff", "Mary", "apple", "football", "milk"};

constexpr Row kRows[] = {
    {"qa1", "one supporting fact", kPlaces,
     "I will give you context with the facts about positions of different persons hidden in some random text and a question. "
     "You need to "
     "answer the question based only on the information from the facts. If a person was in different locations, use the latest "
     "location to "
     "answer the question.",
     "<example>\nCharlie went to the hallway. Judith come back to the kitchen. Charlie travelled to balcony. Where is "
     "Charlie?\n"
     "Answer: The most recent location of Charlie is balcony.\n</example>\n\n"
     "<example>\nAlan moved to the garage. Charlie went to the beach. Alan went to the shop. Rouse travelled to balcony. Where "
     "is Alan?\n"
     "Answer: The most recent location of Alan is shop.\n</example>",
     "Always return your answer in the following format: The most recent location of ’person’ is ’location’. Do not write "
     "anything else "
     "after that."},
    {"qa2", "two supporting facts", kPlaces,
     "I give you context with the facts about locations and actions of different persons hidden in some random text and a "
     "question."
     "You need to answer the question based only on the information from the facts.\n"
     "If a person got an item in the first location and travelled to the second location the item is also in the second "
     "location. If a "
     "person dropped an item in the first location and moved to the second location the item remains in the first location.",
     "<example>\nCharlie went to the kitchen. Charlie got a bottle. Charlie moved to the balcony. Where is the bottle?\n"
     "Answer: The bottle is in the balcony.\n</example>\n"
     "<example>\nAlan moved to the garage. Alan got a screw driver. Alan moved to the kitchen. Where is the screw driver?\n"
     "Answer: The screw driver is in the kitchen.\n</example>",
     "Always return your answer in the following format: The ’item’ is in ’location’. Do not write anything else after that."},
    {"qa3", "three supporting facts", kPlaces,
     "I give you context with the facts about locations and actions of different persons hidden in some random text and a "
     "question. "
     "You need to answer the question based only on the information from the facts.\n"
     "If a person got an item in the first location and travelled to the second location the item is also in the second "
     "location. If a "
     "person dropped an item in the first location and moved to the second location the item remains in the first location.",
     "<example>\nJohn journeyed to the bedroom. Mary grabbed the apple. Mary went back to the bathroom. Daniel journeyed to "
     "the bedroom. "
     "Daniel moved to the garden. Mary travelled to the kitchen. Where was the apple before the kitchen?\n"
     "Answer: Before the kitchen the apple was in the bathroom.\n</example>\n"
     "<example>\nJohn went back to the bedroom. John went back to the garden. John went back to the kitchen. Sandra took the "
     "football. "
     "Sandra travelled to the garden. Sandra journeyed to the bedroom. Where was the football before the bedroom?\n"
     "Answer: Before the bedroom the football was in the garden.\n</example>",
     "Always return your answer in the following format: Before the $location_1$ the $item$ was in the $location_2$. Do not "
     "write anything "
     "else after that."},
    {"qa4", "relations of two things", kPlaces,
     "I will give you context with the facts about different people, their location and actions, hidden in some random text "
     "and a question. "
     "You need to answer the question based only on the information from the facts.",
     "<example>\nThe hallway is south of the kitchen. The bedroom is north of the kitchen. What is the kitchen south of?\n"
     "Answer: bedroom\n</example>\n"
     "<example>\nThe garden is west of the bedroom. The bedroom is west of the kitchen. What is west of the bedroom?\n"
     "Answer: garden\n</example>",
     "Your answer should contain only one word - location. Do not write anything else after that."},
    {"qa5", "relations of three things", kPeopleAndThings,
     "I will give you context with the facts about locations and their relations hidden in some random text and a question. "
     "You need to "
     "answer the question based only on the information from the facts.",
     "<example>\nMary picked up the apple there. Mary gave the apple to Fred. Mary moved to the bedroom. Bill took the milk "
     "there. Who did "
     "Mary give the apple to?\nAnswer: Fred\n</example>\n"
     "<example>\nJeff took the football there. Jeff passed the football to Fred. Jeff got the milk there. Bill travelled to "
     "the bedroom. "
     "Who gave the football?\nAnswer: Jeff\n</example>\n"
     "<example>\nFred picked up the apple there. Fred handed the apple to Bill. Bill journeyed to the bedroom. Jeff went back "
     "to the "
     "garden. What did Fred give to Bill?\nAnswer: apple\n</example>",
     "Your answer should contain only one word. Do not write anything else after that. Do not explain your answer."},
};

constexpr std::string_view kContext = "{instruction}\n\n{examples}\n\n{how_to_answer}\n\n<context>\n{context}\n</context>\n\n";

Result<Sample> make_sample(const Row & row, const Record & record) {
    Sample sample;
    PITH_ASSIGN_OR_RETURN(const std::string input, record.text("input"));
    PITH_ASSIGN_OR_RETURN(const std::string question, record.text("question"));
    PITH_ASSIGN_OR_RETURN(const std::string target, record.text("target"));
    PITH_RETURN_IF_ERROR(refuse_no_answers(record, "target", {target}));
    sample.context = fill(kContext, {{"instruction", row.instruction},
                                     {"examples", row.examples},
                                     {"how_to_answer", row.how_to_answer},
                                     {"context", strip(input)}});
    sample.fields["question"] = question;
    Turn turn;
    turn.question = strip(std::string_view("Question: " + question));
    turn.references = {target};
    turn.max_new_tokens = 20;
    sample.turns.push_back(std::move(turn));
    return sample;
}

}  // namespace

Tasks babilong_tasks() {
    Tasks tasks;
    for (const Row & row : kRows) {
        FileTask task;
        task.rules.name = row.name;
        task.rules.family = "babilong";
        task.rules.file = task.rules.name + ".json";
        task.rules.help = "BABILong's " + task.rules.name + " (" + std::string(row.about) + ") at one length, as " +
                          task.rules.file + ": input, question, target";
        task.rules.too_long = TooLong::kRefuse;
        task.rules.metric = "accuracy";
        task.rules.fields = {"question"};
        task.sample = [&row](const Record & record) { return make_sample(row, record); };
        task.score = [&row](const Sample & sample, const Turn & turn, std::string_view said) {
            return names_only_target(said, turn.references[0], sample.fields.at("question"), row.labels) ? 1.0 : 0.0;
        };
        tasks.push_back(make_file_task(std::move(task)));
    }
    return tasks;
}

}  // namespace pith::benchmarks
