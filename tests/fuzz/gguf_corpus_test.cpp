// gguf_corpus_test.cpp - the files that the fuzzer found worth keeping (gguf_corpus.txt: a file a line, in hexadecimal), read
// again: those that once went wrong, and those that reach code no other file reaches.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "fuzz/read_gguf_headers.h"
#include "model/gguf_edit.h"

namespace pith::gguf_corpus_test {
namespace {

std::vector<char> from_hexadecimal(const std::string & text) {
    std::vector<char> bytes;
    for (size_t i = 0; i + 1 < text.size(); i += 2) {
        bytes.push_back(static_cast<char>(std::strtol(text.substr(i, 2).c_str(), nullptr, 16)));
    }
    return bytes;
}

TEST(GgufCorpus, IsReadOrRefusedByOneClearLine) {
    const testing::TempFolder folder;
    const std::string path = folder.file("corpus.gguf");
    const std::string list = PITH_SOURCE_DIR "/tests/fuzz/gguf_corpus.txt";
    std::ifstream in(list);
    int n = 0;
    for (std::string line; std::getline(in, line); ++n) {
        testing::write_file(path, from_hexadecimal(line));
        EXPECT_EQ(testing::read_gguf_headers(path), "") << "line " << n + 1;
    }
    EXPECT_GE(n, 50);
}

}  // namespace
}  // namespace pith::gguf_corpus_test
