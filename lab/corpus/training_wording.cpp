// training_wording.cpp - see training_wording.h.
#include "corpus/training_wording.h"

namespace pith::corpus::training {
namespace {

constexpr std::string_view kNeedleStatementForms[] = {
    "One of the special $ks for $K is: $V.", "One of the magic $ks for $K is: $V.", "A special $k for $K is $V.",
    "The secret $k for $K is: $V.",          "The magic $k of $K is: $V.",          "For $K one of the special $ks is: $V.",
    "Remember that the $k for $K is: $V.",   "The $k mentioned for $K is $V."};
constexpr std::string_view kNeedlePreambleForms[] = {
    "Some special $ks are hidden in the text below. Remember them. I will ask you about the $ks later.\n",
    "Certain magic $ks stand within the following text. Make sure to remember them: you will be asked about them afterwards.\n",
    "A secret $k is hidden within this text. Memorize it. I will quiz you about it.\n",
    "Read the provided text and memorize the $ks in it.\n"};
constexpr std::string_view kNeedleQuestionForms[] = {
    "\nWhat is the special $k for $K in the text above?", "\nWhat is the magic $k for $K mentioned in this text?",
    "\nWhich secret $k was given for $K?", "\nWhat is the $k of $K within the provided text?",
    "\nQuestion: What is the special $k for $K?"};
constexpr std::string_view kNeedlesQuestionForms[] = {
    "\nWhat are all the special $ks for $K in the text above?", "\nWhat are the magic $ks for $K mentioned in this text?",
    "\nWhich secret $ks were given for $K?", "\nWhat are all the $ks of $K within the provided text?",
    "\nQuestion: What are the special $ks for $K?"};
constexpr std::string_view kNeedlePrefixForms[] = {" The special $k for $K in the text is",
                                                   " The magic $k for $K mentioned above is", " The secret $k for $K is",
                                                   " In the provided text the $k for $K is", ""};
constexpr std::string_view kNeedlesPrefixForms[] = {" The special $ks for $K in the text are",
                                                    " The magic $ks for $K mentioned above are", " The secret $ks for $K are",
                                                    " In the provided text the $ks for $K are", ""};
constexpr std::string_view kShortQuestionForms[] = {"\nWhat is the $k for $K?", "\nThe $k for $K:", "\nQuestion: $K?"};

constexpr std::string_view kTrackingPreambleForms[] = {"Follow the chain(s) of variables in the text below.\n\n",
                                                       "Memorize the assignment of each variable in the following text.\n\n",
                                                       "The text below sets variables. Track all of them.\n\n",
                                                       "Variable assignment is hidden in this text. Track the chain(s).\n\n"};
constexpr std::string_view kTrackingQuestionForms[] = {
    "\nQuestion: Which variables have the value $V in the text above?",
    "\nQuestion: Find each variable that holds the value $V.",
    "\nQuestion: List all variables that are given the value $V in this text.", "\nQuestion: Which variables hold $V?"};
constexpr std::string_view kTrackingPrefixForms[] = {
    " Answer: In the text above, $n variables have the value $V:",
    " Answer: According to the chain(s) in this text, $n variables hold the value $V. They are:",
    " Answer: The $n variables that are given the value $V are:", " Answer:"};

constexpr std::string_view kCommonPreambleForms[] = {
    "Here is a numbered list of words. Some words appear in it more often than others. Remember these.\n",
    "Count the words of the list below. Memorize those that appear most often.\n",
    "The list that follows is numbered. In it some words appear often, others less often.\n"};
constexpr std::string_view kCommonQuestionForms[] = {"\nQuestion: Which $n words appear most often in this list?",
                                                     "\nQuestion: What are the $n words that are most common above?",
                                                     "\nQuestion: Find the $n most common words of the list."};
constexpr std::string_view kCommonPrefixForms[] = {
    " Answer: The $n most common words of the list are:", " Answer: The words that appear most often are:",
    " Answer: In the above list the top $n words are:"};

constexpr std::string_view kFrequentPreambleForms[] = {
    "Here is a coded text. Find the words that appeared in it most frequently.",
    "Count each coded word of the following text and find the most frequent ones.",
    "Track the coded words below: the frequency of each of them is asked for."};
constexpr std::string_view kFrequentQuestionForms[] = {
    "\nQuestion: Which three coded words appeared most frequently? Please ignore the dots '....'.",
    "\nQuestion: What are the three most frequent words of the text above? Do not count the dots '....'.",
    "\nQuestion: Find the three words of highest frequency in the coded text. Do not provide any explanation."};
constexpr std::string_view kFrequentPrefixForms[] = {
    " Answer: The three most frequent words of the coded text are:",
    " Answer: In the text above, the three words that appeared most are:", " Answer: The words of highest frequency are:"};

constexpr std::string_view kNoiseForms[] = {
    "The grass is tall.", "The sky is clear.",  "The sun is warm.",    "On we go.",         "Up and down again.",
    "The sea is blue.",   "The hill is green.", "The sand is yellow.", "Here and there.",   "And back we go.",
    "The road is long.",  "The night is dark.", "Round and round.",    "The wind is cold.", "There is the moon.",
    "The rain is soft.",  "Time goes by.",      "The snow is white.",  "So it goes.",       "The day is new."};

constexpr std::string_view kSystemForms[] = {
    "You know only what you are told. Answer in one short sentence.",
    "Answer questions about a small world. Say that you do not know what nobody told you.", "You are a helpful assistant."};
constexpr std::string_view kWorldOpeningForms[] = {"Here is what I know.", "Let me tell you about a small world.",
                                                   "Remember the following.", "Read this text. I will ask you about it."};
constexpr std::string_view kCorrectionForms[] = {"That has changed:", "I was wrong:", "Correction:", "Not any more:"};
constexpr std::string_view kAdditionForms[] = {"One more thing:", "Remember this too:", "I forgot to say:", "Also:"};
constexpr std::string_view kCopyForms[] = {
    "Repeat this passage word for word:", "Say the following text again, word for word:", "Copy this passage:"};

}  // namespace

const Forms kNeedleStatements = kNeedleStatementForms;
const Forms kNeedlePreambles = kNeedlePreambleForms;
const Forms kNeedleQuestions = kNeedleQuestionForms;
const Forms kNeedlesQuestions = kNeedlesQuestionForms;
const Forms kNeedlePrefixes = kNeedlePrefixForms;
const Forms kNeedlesPrefixes = kNeedlesPrefixForms;
const Forms kShortQuestions = kShortQuestionForms;
const Forms kTrackingPreambles = kTrackingPreambleForms;
const Forms kTrackingQuestions = kTrackingQuestionForms;
const Forms kTrackingPrefixes = kTrackingPrefixForms;
const Forms kCommonPreambles = kCommonPreambleForms;
const Forms kCommonQuestions = kCommonQuestionForms;
const Forms kCommonPrefixes = kCommonPrefixForms;
const Forms kFrequentPreambles = kFrequentPreambleForms;
const Forms kFrequentQuestions = kFrequentQuestionForms;
const Forms kFrequentPrefixes = kFrequentPrefixForms;
const Forms kNoiseSentences = kNoiseForms;
const Forms kSystemPrompts = kSystemForms;
const Forms kWorldOpenings = kWorldOpeningForms;
const Forms kCorrections = kCorrectionForms;
const Forms kAdditions = kAdditionForms;
const Forms kCopyRequests = kCopyForms;

}  // namespace pith::corpus::training
