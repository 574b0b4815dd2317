// options.cpp - what an option makes of its value.
#include "common/options/options.h"

#include <algorithm>

namespace pith::app {

CLI::Validator thousands() {
    return {[](std::string & text) {
                const bool is_negative = text.starts_with('-');
                std::string digits = text.substr(is_negative ? 1 : 0);
                digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));  // CLI11 takes 010 for octal
                const bool is_count = digits.size() > 1 && digits.size() < 8 &&
                                      (digits.ends_with('k') || digits.ends_with('K')) &&
                                      digits.find_first_not_of("0123456789") == digits.size() - 1;
                if (is_count) {
                    digits = std::to_string(1024 * std::stoll(digits));
                } else if (digits.find_first_not_of("0123456789") != std::string::npos) {
                    return std::string();  // CLI11 says what is wrong
                }
                text = (is_negative ? "-" : "") + digits;
                return std::string();
            },
            ""};
}

}  // namespace pith::app
