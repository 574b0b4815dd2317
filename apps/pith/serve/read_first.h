// read_first.h - prompts that a server reads before it listens, so that no client waits for them.
#pragma once

#include <string>
#include <vector>

#include "serve/api.h"

namespace pith::app {

// Each file is the body of a chat completion. Its prompt is read and nothing is answered; what is read stays where states of
// prompts do, for whoever brings one of these keys (none: for all), and requests that begin alike go on from it.
// Errors: those of read_text(); kInvalidArgument: what the endpoint would reply, and the file's name.
Status read_first(serve::Api & api, const std::vector<std::string> & files, std::vector<std::string> keys);

}  // namespace pith::app
