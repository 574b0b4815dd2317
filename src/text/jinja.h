// jinja.h - a Jinja template's text, by minja, inside limits. Stage: text.
//
// A template comes with a model, so it is somebody else's program: it runs in a process of its own (contained_work.h).
// What every template finds beside the given values: raise_exception(), strftime_now(), tojson as Hugging Face's, and a range()
// of a million numbers at most.
// Threads: const-safe.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "pith/status.h"

namespace pith {

// false: the build has no minja (-DPITH_MINJA=OFF).
bool has_jinja();

// values: an object; its keys are the template's variables. "messages" and "tools" as OpenAI writes them; they are fitted to
// what the template can do:
//   a call's arguments, given as text or as an object, become what the template writes as JSON
//   contents become lists of parts where it shows no others
//   a system prompt that it cannot show goes in front of the first user message, and a line break between them
// Errors: kInvalidArgument: the template refuses these messages, in its own words; kUnsupported: why it cannot be rendered,
// "took more than 2 s of processor time"; one line each, for a sentence that begins "the chat template".
Result<std::string> render_jinja(const std::string & source, const nlohmann::ordered_json & values);

}  // namespace pith
