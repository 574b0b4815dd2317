// read_text.cpp - reads a whole text and checks that it is one.
#include "read_text.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "text/utf8.h"

namespace pith::app {
namespace {

struct CloseFile {
    void operator()(std::FILE * file) const {
        if (file != stdin) { std::fclose(file); }
    }
};

}  // namespace

Result<std::string> read_text(const std::string & path) {
    const std::string name = path == "-" ? "standard input" : "'" + path + "'";
    const std::unique_ptr<std::FILE, CloseFile> file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"));
    if (!file) { return {ErrorCode::kNotFound, name + " cannot be opened: " + std::strerror(errno)}; }
    std::string text;
    std::vector<char> block(1U << 16U);
    size_t n = 0;
    errno = 0;
    while ((n = std::fread(block.data(), 1, block.size(), file.get())) > 0) { text.append(block.data(), n); }
    if (std::ferror(file.get()) != 0) { return {ErrorCode::kIo, name + " cannot be read: " + std::strerror(errno)}; }
    if (const auto bad = invalid_utf8_offset(text)) {
        return {ErrorCode::kInvalidArgument, name + " is not UTF-8: byte " + std::to_string(*bad) + " begins no character; " +
                                                 "convert it (iconv -t UTF-8)"};
    }
    return text;
}

}  // namespace pith::app
