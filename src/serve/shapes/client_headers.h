// client_headers.h - what a client writes in front of its system prompt for its own server, other text in every request: left
// out, or no two of its prompts would begin alike, and each would be read anew. Stage: serve.
#pragma once

#include <string>

namespace pith::serve {

// Takes lines with such headers off a system prompt's beginning; only those that are known by name. Logged once.
void leave_out_client_headers(std::string & system);

}  // namespace pith::serve
