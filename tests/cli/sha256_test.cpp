// sha256_test.cpp - published test vectors, in one piece and in several.
#include "common/models/sha256.h"

#include <gtest/gtest.h>

namespace pith::app::sha256_test {
namespace {

std::string sum(const std::string & text, size_t piece) {
    Sha256 sha;
    for (size_t at = 0; at < text.size(); at += piece) { sha.add(std::string_view(text).substr(at, piece)); }
    return sha.hex();
}

// NIST, "Examples with Intermediate Values" for SHA-256, and the million letters of FIPS 180-2, appendix B.3.
TEST(Sha256, GivesThePublishedSums) {
    const std::pair<std::string, std::string> cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {std::string(1000000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    };
    for (const auto & [text, expected] : cases) { EXPECT_EQ(sum(text, text.size() + 1), expected) << text.size(); }
}

TEST(Sha256, IsTheSameHoweverTheTextIsCut) {
    std::string text;
    for (int i = 0; i < 300; ++i) { text += static_cast<char>(i * 7); }
    for (size_t length : {55U, 56U, 63U, 64U, 65U, 119U, 120U, 128U, 300U}) {
        const std::string part = text.substr(0, length), whole = sum(part, length);
        for (size_t piece : {1U, 3U, 63U, 64U, 65U}) { EXPECT_EQ(sum(part, piece), whole) << length << " " << piece; }
    }
}

TEST(Sha256, BeginsAgainBehindASum) {
    Sha256 sha;
    sha.add("something else");
    sha.hex();
    sha.add("abc");
    EXPECT_EQ(sha.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace pith::app::sha256_test
