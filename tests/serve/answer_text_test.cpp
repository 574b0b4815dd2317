// answer_text_test.cpp - pieces of an answer, keys, and fields of a body.
#include "serve/answer_text.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>

#include "core/items.h"
#include "serve/connection_threads.h"
#include "serve/constant_time.h"
#include "serve/events.h"
#include "serve/metrics.h"
#include "serve/shapes/api_error.h"
#include "serve/shapes/fields.h"
#include "serve/shapes/kv_map.h"

namespace pith::serve::answer_text_test {
namespace {

TEST(AnswerText, ShowsWhatNoStopTextCanBeginWith) {
    AnswerText text({"\n\nUser:", "END"});
    EXPECT_EQ(text.add("Hello\n"), "Hello");
    EXPECT_EQ(text.add("\nUs"), "");
    EXPECT_EQ(text.add("ual EN"), "\n\nUsual ");
    EXPECT_EQ(text.add("TRY"), "ENTRY");
    EXPECT_EQ(text.finish(), "");
    EXPECT_FALSE(text.stopped());
}

TEST(AnswerText, CutsInFrontOfTheFirstStopText) {
    AnswerText text({"END", "."});
    EXPECT_EQ(text.add("one E"), "one ");
    EXPECT_EQ(text.add("ND. two"), "");
    EXPECT_TRUE(text.stopped());
    EXPECT_EQ(text.add("more"), "");
    AnswerText both({"abc", "b"});
    EXPECT_EQ(both.add("xxabc"), "xx");
}

TEST(AnswerText, HoldsBackCharactersThatAreNotWhole) {
    AnswerText text({});
    EXPECT_EQ(text.add("caf\xC3"), "caf");
    EXPECT_EQ(text.add("\xA9\xF0\x9F"), "\xC3\xA9");
    EXPECT_EQ(text.finish(), "\xF0\x9F");
}

// Whatever the pieces are, together they are the text in front of the stop text.
TEST(AnswerText, SaysTheSameHoweverTheTextIsCut) {
    const std::string whole = "ababab\xC3\xA9 abac STOP tail";
    for (const std::string & stop : {std::string("abac"), std::string("STOP"), std::string("absent")}) {
        const std::string wanted = whole.substr(0, whole.find(stop));
        for (size_t n = 1; n < whole.size(); ++n) {
            AnswerText text({stop});
            std::string said;
            for (size_t at = 0; at < whole.size(); at += n) { said += text.add(whole.substr(at, n)); }
            said += text.finish();
            EXPECT_EQ(said, wanted) << stop << " in pieces of " << n;
        }
    }
}

TEST(ConnectionThreads, AreAsManyAsJobsThatComeTogether) {
    constexpr int kJobs = 40;
    ConnectionThreads threads(kJobs);
    std::mutex mutex;
    std::condition_variable came;
    int n_here = 0;
    // Each waits for all others: fewer threads would never be done.
    for (int i = 0; i < kJobs; ++i) {
        ASSERT_TRUE(threads.enqueue([&] {
            std::unique_lock lock(mutex);
            ++n_here;
            came.notify_all();
            came.wait_for(lock, std::chrono::seconds(20), [&] { return n_here == kJobs; });
        }));
    }
    {
        std::unique_lock lock(mutex);
        EXPECT_TRUE(came.wait_for(lock, std::chrono::seconds(20), [&] { return n_here == kJobs; }));
    }
    threads.shutdown();
    EXPECT_EQ(n_here, kJobs);
    EXPECT_FALSE(threads.enqueue([] {}));
}

TEST(ConnectionThreads, DoWhatWaitsBeforeTheyEndAndRefuseMoreThanMayWait) {
    ConnectionThreads threads(2);
    std::mutex mutex;
    int n_done = 0;
    int n_taken = 0;
    {
        const std::lock_guard hold(mutex);  // two run and stand here; two wait
        for (int i = 0; i < 100; ++i) {
            n_taken += threads.enqueue([&] {
                const std::lock_guard lock(mutex);
                ++n_done;
            })
                           ? 1
                           : 0;
        }
        EXPECT_GE(n_taken, 2);
        EXPECT_LE(n_taken, 4);
    }
    threads.shutdown();
    EXPECT_EQ(n_done, n_taken);
}

TEST(ConstantTime, TellsKeysApart) {
    EXPECT_TRUE(equal_in_constant_time("secret", "secret"));
    for (const char * wrong : {"", "secre", "secrets", "Secret", "secretsecret"}) {
        EXPECT_FALSE(equal_in_constant_time("secret", wrong)) << wrong;
    }
    EXPECT_FALSE(equal_in_constant_time("", "x"));
}

TEST(Fields, NameTheFieldItsValueAndWhatItMayBe) {
    const Json body = {{"temperature", "x"}, {"n", 0}, {"top_k", 2.5}, {"seed", nullptr}, {"stop", {"a", 5}}};
    Fields fields(body);
    float temperature = 1;
    EXPECT_EQ(fields.read("temperature", temperature).message(), "'temperature' is \"x\": give a number");
    EXPECT_EQ(temperature, 1);
    int n = 3;
    EXPECT_EQ(fields.read("n", n, 1, 16).message(), "'n' is 0: give a whole number from 1 to 16");
    EXPECT_FALSE(fields.read("top_k", n, 0, 10).ok());
    EXPECT_TRUE(fields.read("seed", n, 0, 10).ok());  // null: as if it were not there
    EXPECT_TRUE(fields.read("missing", n, 0, 10).ok());
    EXPECT_EQ(n, 3);
    std::vector<std::string> stop = {"kept"};
    EXPECT_FALSE(fields.read("stop", stop).ok());
    EXPECT_EQ(stop, std::vector<std::string>{"kept"});
}

TEST(Fields, AskWhatAMisspeltNameMeans) {
    const Json body = {{"temprature", 1}, {"something_else", 2}};
    Fields fields(body);
    float temperature = 0;
    ASSERT_TRUE(fields.read("temperature", temperature).ok());
    EXPECT_EQ(fields.check_spelling().message(), "there is no field 'temprature': did you mean 'temperature'?");
    const Json good = {{"temperature", 1}, {"something_else", 2}};
    Fields others(good);
    ASSERT_TRUE(others.read("temperature", temperature).ok());
    EXPECT_TRUE(others.check_spelling().ok());
}

TEST(Body, IsTheTreeThatItsTextSays) {
    std::string nested = "[1, -2, 3.5, true, null, \"text\"]";
    for (int level = 0; level < 100; ++level) {  // objects that grow behind what they hold
        std::string members;
        for (int i = 0; i < 20; ++i) { members += ", \"m" + std::to_string(i) + "\": {\"n\": [" + std::to_string(i) + "]}"; }
        nested = "{\"x\": " + nested + members + "}";
    }
    for (const std::string & text : {nested, std::string(R"({"a": {"b": [1, {"c": 2}]}, "d": 1, "a": {"e": []}, "f": {}})")}) {
        const auto read = parse_body(text);
        ASSERT_TRUE(read.ok()) << read.status().message();
        EXPECT_EQ(read->json(), Json::parse(text));
        EXPECT_EQ(dump(read->json()), dump(Json::parse(text))) << "in the order of the text";
    }
}

TEST(Body, IsUtf8AndAnObject) {
    EXPECT_TRUE(parse_body("{}").ok());
    EXPECT_NE(parse_body("{\"a\": \"\xFF\"}").status().message().find("byte 7"), std::string::npos);
    EXPECT_FALSE(parse_body("").ok());
    EXPECT_FALSE(parse_body("[]").ok());
    EXPECT_FALSE(parse_body("{\"a\": 1").ok());
    EXPECT_FALSE(parse_body(std::string(100'000, '[')).ok());  // no stack is used up
}

TEST(Bodies, WithHalfOfAPairOfUtf16SaySo) {
    for (const char * half :
         {R"({"a": "\ud83d"})", R"({"a": "\ud83dx"})", R"({"a": "\ud83d\u0041"})", R"({"a": "\ude00\ud83d"})"}) {
        const Status status = parse_body(half).status();
        EXPECT_NE(status.message().find("half of a pair of UTF-16 at byte 7: \\u"), std::string::npos) << status.message();
    }
    EXPECT_EQ(parse_body(R"({"a": "\ud83d\ude00"})")->json()["a"], "\xF0\x9F\x98\x80");
    EXPECT_EQ(parse_body(R"({"a": "\\ud83d"})")->json()["a"], "\\ud83d") << "no escape: a backslash of its own stands in front";
    EXPECT_NE(parse_body(R"({"a": 1e999})").status().message().find("too large"), std::string::npos);
}

TEST(Fields, HoldEveryWholeNumberOf64BitsAndNoOther) {
    const Json body =
        Json::parse(R"({"most": 9223372036854775807, "least": -9223372036854775808, "whole": 5.0, "beyond": 9223372036854775808,
                                      "large": 9223372036854775808.0, "half": 0.5, "huge": 18446744073709551615})");
    Fields fields(body);
    constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    for (const auto & [name, wanted] : std::map<std::string, int64_t>{{"most", kMost}, {"least", kLeast}, {"whole", 5}}) {
        int64_t number = 0;
        EXPECT_TRUE(fields.read(name, number, kLeast, kMost).ok()) << name;
        EXPECT_EQ(number, wanted);
    }
    for (const char * name : {"beyond", "large", "half", "huge"}) {
        int64_t number = 1;
        EXPECT_FALSE(fields.read(name, number, kLeast, kMost).ok()) << name;
        EXPECT_EQ(number, 1);
    }
}

TEST(KvMaps, TellTheShareOfEachRunOfPositions) {
    KvMap small(5, 1, 2);
    const std::vector<int32_t> some = {0, 3};
    small.set_lane(0, 0, some);
    small.set_pinned({{0, 2}});
    EXPECT_EQ(small.json(), (Json{{"n_tokens", 5},
                                  {"bin_tokens", 1},
                                  {"layers", Json::array({Json::array({"90090", ""})})},
                                  {"pinned", Json::array({Json::array({0, 2})})}}));
    KvMap large(1001, 1, 1);
    std::vector<int32_t> many;
    for (int32_t i = 0; i < 1001; ++i) {
        if (i >= 6 && i != 20) { many.push_back(i); }
    }
    large.set_lane(0, 0, many);
    const Json json = large.json();
    EXPECT_EQ(json["bin_tokens"], 6);
    const std::string lane = json["layers"][0][0];
    EXPECT_EQ(lane.size(), 167U);
    EXPECT_TRUE(lane.starts_with("09979"));  // all of the first six gone, one of 18 to 23
    EXPECT_EQ(lane.back(), '9');             // the last run is shorter
}

// A client that reads a byte a second makes no heap of them.
TEST(KvMaps, ThatNobodyHasReadGiveWayToNewerOnes) {
    Events events;
    for (int i = 1; i <= 3; ++i) {
        for (const int index : {0, 1}) {
            events.push({index, KvMap(i, 1, 1)});
            events.push({index, Progress{0, i, 0}});
        }
    }
    std::vector<int64_t> lengths;
    int n_others = 0;
    while (const auto event = events.pop(0)) {
        if (const auto * map = std::get_if<KvMap>(&event->what)) {
            lengths.push_back(map->json()["n_tokens"]);
        } else {
            ++n_others;
        }
    }
    EXPECT_EQ(lengths, (std::vector<int64_t>{3, 3}));
    EXPECT_EQ(n_others, 6);
}

// Clients name policies, and may name thousands: each would be a series of its own.
TEST(EvictedEntries, AreToldApartByAFewDozenPolicies) {
    Metrics metrics;
    AnswerCosts costs;
    costs.n_generated = 1;
    costs.ledger.evicted_entries = 3;
    for (int i = 0; i < 1000; ++i) {
        costs.ledger.policy = "snapkv:window=" + std::to_string(i);
        metrics.add(costs);
    }
    costs.ledger.policy = "snapkv:window=0";
    metrics.add(costs);
    EXPECT_EQ(metrics.evicted.size(), Metrics::kMostPolicies + 1);
    EXPECT_EQ(metrics.evicted["snapkv:window=0"], 6);
    EXPECT_EQ(metrics.evicted["other"], 3 * (1000 - static_cast<int64_t>(Metrics::kMostPolicies)));
}

TEST(Errors, HaveOpenAisShape) {
    const Json json = too_long(10, 5).json();
    EXPECT_EQ(json["error"]["code"], 400);
    EXPECT_EQ(json["error"]["type"], "exceed_context_size_error");
    EXPECT_EQ(json["error"]["n_prompt_tokens"], 10);
    EXPECT_EQ(json["error"]["n_ctx"], 5);
    EXPECT_EQ(error_of(Status(ErrorCode::kUnsupported, "x")).code, 400);
    EXPECT_EQ(error_of(Status(ErrorCode::kInternal, "x")).code, 500);
    EXPECT_EQ(error_of(Status(ErrorCode::kBudget, "x")).type, "invalid_request_error");
    EXPECT_FALSE(error_of(Status(ErrorCode::kBudget, "x")).json()["error"].contains("param"));
}

TEST(Errors, NameTheFieldOfTheRequest) {
    const Json of_budget =
        error_of(Status(ErrorCode::kBudget, "use a larger " + item::kBudget + " or a smaller " + item::kChunk)).json()["error"];
    EXPECT_EQ(of_budget["message"], "use a larger kv_budget or a smaller chunk");
    EXPECT_EQ(of_budget["param"], "kv_budget");
    const Json of_chunk = error_of(Status(ErrorCode::kOutOfMemory, "use a smaller " + item::kChunk)).json()["error"];
    EXPECT_FALSE(of_chunk.contains("param")) << "no request has one: " << of_chunk;
    EXPECT_EQ(error_of(wrong_field("temperature", "hot", "a number")).param, "temperature");
}

}  // namespace
}  // namespace pith::serve::answer_text_test
