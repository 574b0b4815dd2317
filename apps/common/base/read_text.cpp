// read_text.cpp - reads a whole text and checks that it is one.
#include "common/base/read_text.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

#include "file/read_file.h"
#include "text/utf8.h"

namespace pith::app {
namespace {

struct CloseFile {
    void operator()(std::FILE * file) const {
        if (file != stdin) { std::fclose(file); }
    }
};

std::string name_of(const std::string & path) {
    return path == "-" ? "standard input" : "'" + path + "'";
}

}  // namespace

Result<std::string> read_text(const std::string & path) {
    const std::string name = name_of(path);
    const std::unique_ptr<std::FILE, CloseFile> file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"));
    if (!file) { return {ErrorCode::kNotFound, name + " cannot be opened: " + std::strerror(errno)}; }
    PITH_ASSIGN_OR_RETURN(std::string text, read_file(file.get(), name));
    if (const Status valid = check_utf8(name, text); !valid) {
        return {valid.code(), valid.wording() + "; convert it (iconv -t UTF-8)"};
    }
    return text;
}

Result<std::string> read_plain_text(const std::string & path) {
    PITH_ASSIGN_OR_RETURN(std::string text, read_text(path));
    drop_byte_order_mark(text);
    if (text.find('\r') == std::string::npos) { return text; }
    std::string plain;
    plain.reserve(text.size());
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\r' || i + 1 == text.size() || text[i + 1] != '\n') { plain += text[i]; }
    }
    return plain;
}

void drop_byte_order_mark(std::string & text) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text.starts_with(kByteOrderMark)) { text.erase(0, kByteOrderMark.size()); }
}

Status check_utf8(const std::string & name, const std::string & text) {
    const auto bad = invalid_utf8_offset(text);
    if (!bad) { return {}; }
    return {ErrorCode::kInvalidArgument, name + " is not UTF-8: byte " + std::to_string(*bad) + " begins no character"};
}

Result<std::string> read_system_prompt(const std::string & path, const std::string & given) {
    std::string text = given;
    if (!path.empty()) {
        PITH_ASSIGN_OR_RETURN(text, read_plain_text(path));
        if (text.ends_with('\n')) { text.pop_back(); }
    }
    PITH_RETURN_IF_ERROR(check_utf8("the system prompt", text));
    return text;
}

Result<std::vector<int32_t>> read_token_ids(const std::string & path) {
    PITH_ASSIGN_OR_RETURN(const std::string text, read_text(path));
    constexpr std::string_view kBetween = " \t\r\n,[]";
    std::vector<int32_t> ids;
    for (size_t begin = text.find_first_not_of(kBetween); begin != std::string::npos;) {
        const size_t end = std::min(text.find_first_of(kBetween, begin), text.size());
        int32_t id = -1;
        const auto [rest, error] = std::from_chars(text.data() + begin, text.data() + end, id);
        if (error != std::errc() || rest != text.data() + end || id < 0) {
            return {ErrorCode::kInvalidArgument,
                    name_of(path) + ": '" + text.substr(begin, std::min<size_t>(end - begin, 40)) + "', number " +
                        std::to_string(ids.size() + 1) +
                        ", is no token id: give whole numbers of 0 or more, as `pith tokenize` prints them"};
        }
        ids.push_back(id);
        begin = text.find_first_not_of(kBetween, end);
    }
    if (ids.empty()) { return {ErrorCode::kInvalidArgument, name_of(path) + " has no token ids"}; }
    return ids;
}

Status check_token_ids(const std::vector<int32_t> & ids, int n_vocab) {
    for (size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] < n_vocab) { continue; }
        return {ErrorCode::kInvalidArgument, "token id " + std::to_string(ids[i]) + ", number " + std::to_string(i + 1) +
                                                 " of --token-ids, is not in the model's vocabulary: its ids end at " +
                                                 std::to_string(n_vocab - 1)};
    }
    return {};
}

}  // namespace pith::app
