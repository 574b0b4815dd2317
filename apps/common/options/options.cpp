// options.cpp - what an option makes of its value.
#include "common/options/options.h"

namespace pith::app {

CLI::Validator thousands() {
    return {[](std::string & text) {
                const bool is_count = text.size() > 1 && text.size() < 8 && text.ends_with('k') &&
                                      text.find_first_not_of("0123456789") == text.size() - 1;
                if (is_count) { text = std::to_string(1024 * std::stoll(text)); }
                return std::string();
            },
            ""};
}

}  // namespace pith::app
