// read_body.h - any bytes as what a client or a model may send: bodies, schemas, grammars, answers. For the fuzzer and for
// mutations.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pith/text.h"

namespace pith::testing {

// What the fuzzer and the mutations begin with: bodies of every endpoint, a schema, grammars, answers in several forms.
const std::vector<std::string> & body_examples();

// Reads the bytes as a body of every endpoint, as a grammar under which some tokens are said (the body's own, too), and as an
// answer in every form of tool calls. Returns what is wrong with what came of it: an error that says nothing, a grammar of ours
// that cannot be read, an answer whose pieces depend on how it was cut.
// Empty: nothing.
std::string read_body_fault(const Tokenizer & tokenizer, std::string_view bytes);

}  // namespace pith::testing
