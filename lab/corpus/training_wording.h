// training_wording.h - how training documents say and ask what the tasks say and ask in RULER's words (wording.h).
// Pure C++: no I/O.
//
// The tasks' own sentences are held out: no training document holds one of them, so that what a model scores is not a
// template learnt by heart. Their words all occur here, in other sentences.
//   $k, $ks  what is asked for ("number", "numbers")     $K  the key, or several     $V  the value     $n  how many
#pragma once

#include <span>
#include <string_view>

namespace pith::corpus::training {

using Forms = std::span<const std::string_view>;

extern const Forms kNeedleStatements;  // $k or $ks, $K, $V
extern const Forms kNeedlePreambles;   // $k, $ks
extern const Forms kNeedleQuestions;   // of one value; $k, $K
extern const Forms kNeedlesQuestions;  // of several; $ks, $K
extern const Forms kNeedlePrefixes;    // $k, $K; one is empty
extern const Forms kNeedlesPrefixes;   // $ks, $K; one is empty
extern const Forms kShortQuestions;    // $k, $K: few tokens, for short documents
extern const Forms kTrackingPreambles;
extern const Forms kTrackingQuestions;  // $V
extern const Forms kTrackingPrefixes;   // $n, $V
extern const Forms kCommonPreambles;    // of a numbered list
extern const Forms kCommonQuestions;    // $n
extern const Forms kCommonPrefixes;     // $n
extern const Forms kFrequentPreambles;  // of a coded text
extern const Forms kFrequentQuestions;
extern const Forms kFrequentPrefixes;
extern const Forms kNoiseSentences;  // short and dull
extern const Forms kSystemPrompts;
extern const Forms kWorldOpenings;  // a conversation begins: what the user tells
extern const Forms kCorrections;    // before a statement that replaces an earlier one
extern const Forms kAdditions;      // before a new statement
extern const Forms kCopyRequests;   // before a passage that is to be repeated

}  // namespace pith::corpus::training
