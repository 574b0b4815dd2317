// xml_check.h - whether a text is well-formed XML of the simple kind that figures use: elements, attributes, text, entities.
#pragma once

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace pith::testing {

// Empty when it is; else what is wrong, and where.
inline std::string xml_fault(std::string_view text) {
    std::vector<std::string> open;
    bool had_root = false;
    size_t i = 0;
    const auto fault = [&i](const std::string & what) { return what + " at byte " + std::to_string(i); };
    const auto entity_ends = [&](size_t at) {
        for (const std::string_view entity : {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"}) {
            if (text.substr(at, entity.size()) == entity) { return at + entity.size(); }
        }
        return std::string_view::npos;
    };
    const auto read_name = [&] {
        const size_t begin = i;
        while (i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '-' || text[i] == ':')) {
            ++i;
        }
        return std::string(text.substr(begin, i - begin));
    };
    while (i < text.size()) {
        const char c = text[i];
        if (c == '&') {
            i = entity_ends(i);
            if (i == std::string_view::npos) { return "unknown entity"; }
        } else if (c != '<') {
            if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') { return fault("control character"); }
            if (open.empty() && !std::isspace(static_cast<unsigned char>(c))) { return fault("text outside the root"); }
            ++i;
        } else if (text.substr(i, 2) == "</") {
            i += 2;
            const std::string name = read_name();
            if (open.empty() || open.back() != name || i >= text.size() || text[i] != '>') {
                return fault("wrong end of " + name);
            }
            open.pop_back();
            ++i;
        } else {
            ++i;
            const std::string name = read_name();
            if (name.empty()) { return fault("tag without a name"); }
            if (open.empty() && had_root) { return fault("second root"); }
            had_root = true;
            std::vector<std::string> attributes;
            while (i < text.size() && text[i] == ' ') {
                ++i;
                const std::string attribute = read_name();
                for (const std::string & other : attributes) {
                    if (other == attribute) { return fault("attribute " + attribute + " twice"); }
                }
                attributes.push_back(attribute);
                if (attribute.empty() || text.substr(i, 2) != "=\"") { return fault("attribute without a value"); }
                for (i += 2; i < text.size() && text[i] != '"';) {
                    if (text[i] == '<') { return fault("'<' in an attribute"); }
                    i = text[i] == '&' ? entity_ends(i) : i + 1;
                    if (i == std::string_view::npos) { return "unknown entity in an attribute"; }
                }
                ++i;
            }
            if (text.substr(i, 2) == "/>") {
                i += 2;
            } else if (i < text.size() && text[i] == '>') {
                open.push_back(name);
                ++i;
            } else {
                return fault("tag " + name + " does not end");
            }
        }
    }
    if (!open.empty()) { return "never closed: " + open.back(); }
    return had_root ? "" : "no element";
}

}  // namespace pith::testing
