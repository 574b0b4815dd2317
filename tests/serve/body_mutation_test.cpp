// body_mutation_test.cpp - bodies, schemas, grammars and answers with something wrong in them, by seed: each is read, or
// refused by one line.
#include <cstdlib>
#include <random>

#include "serve/read_body.h"
#include "serve/serving.h"

namespace pith::testing::body_mutation_test {
namespace {

// One to three edits: bytes changed, taken out, doubled, moved in from another text.
std::string mutated(uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto below = [&random](size_t n) { return static_cast<size_t>(random() % n); };
    const std::vector<std::string> & bodies = body_examples();
    std::string text = bodies[below(bodies.size())];
    for (size_t n = 1 + below(3); n > 0 && !text.empty(); --n) {
        const size_t at = below(text.size());
        const size_t length = 1 + below(std::min<size_t>(12, text.size() - at));
        const std::string & other = bodies[below(bodies.size())];
        switch (below(5)) {
            case 0:
                text[at] = static_cast<char>(below(256));
                break;
            case 1:
                text.erase(at, length);
                break;
            case 2:
                text.insert(at, text.substr(at, length));
                break;
            case 3:
                text.insert(at, other.substr(below(other.size()), length));
                break;
            default:
                text.resize(at);
        }
    }
    return text;
}

TEST(Bodies, WithSomethingWrongAreReadOrRefused) {
    if (!std::filesystem::exists(kServedModel)) { GTEST_SKIP() << "no reference model"; }
    for (const std::string & body : body_examples()) { EXPECT_EQ(read_body_fault(served_tokenizer(), body), "") << body; }
    const char * asked = std::getenv("PITH_MUTATIONS");
    const uint64_t n = asked != nullptr ? std::strtoull(asked, nullptr, 10) : 2000;
    for (uint64_t seed = 0; seed < n; ++seed) {
        const std::string body = mutated(seed);
        ASSERT_EQ(read_body_fault(served_tokenizer(), body), "") << "seed " << seed << ": " << body;
    }
}

}  // namespace
}  // namespace pith::testing::body_mutation_test
