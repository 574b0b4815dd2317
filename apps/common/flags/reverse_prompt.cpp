// reverse_prompt.cpp - the flag.
#include "common/flags/reverse_prompt.h"

#include "common/base/escapes.h"
#include "common/options/options.h"

namespace pith::app {

void ReversePromptFlags::add_to(CLI::App & command) {
    add(command, option("--reverse-prompt"), texts)->allow_extra_args(false);
}

Result<std::vector<std::string>> ReversePromptFlags::read(bool escape) const {
    std::vector<std::string> out;
    for (const std::string & text : texts) {
        if (text.empty()) {
            return {ErrorCode::kInvalidArgument, "--reverse-prompt is empty: give the text that ends an answer"};
        }
        out.push_back(escape ? unescaped(text) : text);
    }
    return out;
}

}  // namespace pith::app
