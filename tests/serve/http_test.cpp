// http_test.cpp - HTTP itself, over sockets: which bytes are a request, how connections go on and end, who may call.
#include "serve/serving.h"

namespace pith::testing::http_test {
namespace {

class Http : public ::testing::Test {
protected:
    void SetUp() override {
        if (!std::filesystem::exists(kServedModel)) { GTEST_SKIP() << "no reference model"; }
    }
};

constexpr const char * kNever = "\r\n\r\n never";
const std::string kHealth = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
const std::string kLastHealth = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

std::string post_text(const std::string & path, const std::string & body, const std::string & fields = "") {
    return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "Content-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
}

int count(const std::string & text, const std::string & what) {
    int n = 0;
    for (size_t i = text.find(what); i != std::string::npos; i = text.find(what, i + 1)) { ++n; }
    return n;
}

// The codes of all replies, in order.
std::vector<int> codes_in(const std::string & came) {
    std::vector<int> codes;
    for (size_t i = came.find("HTTP/1.1 "); i != std::string::npos; i = came.find("HTTP/1.1 ", i + 1)) {
        codes.push_back(std::stoi(came.substr(i + 9, 3)));
    }
    return codes;
}

struct Outcome {
    std::vector<int> codes;
    bool is_closed = false;
    std::string came;
};

// What comes of a text until the other side closes, or says nothing for so long.
Outcome send_raw(int port, const std::string & text, int wait_ms = 3000) {
    Connection connection(port);
    EXPECT_TRUE(connection.open());
    connection.send(text);
    Outcome outcome;
    outcome.came = connection.read_until(kNever, wait_ms);
    outcome.codes = codes_in(outcome.came);
    outcome.is_closed = connection.closed();
    return outcome;
}

using Codes = std::vector<int>;

TEST_F(Http, TakesHeadersAsTheyAreWritten) {
    ServingOptions options;
    options.api.keys = {"a%41+b"};
    const Serving serving(options);
    EXPECT_EQ(get(serving.port(), "/v1/models", "Authorization: Bearer a%41+b\r\n").status, 200);
    EXPECT_EQ(get(serving.port(), "/v1/models", "X-Api-Key: a%41+b\r\n").status, 200);
    for (const char * wrong : {"aA+b", "aA b", "a%2541+b", "a%41 b"}) {
        EXPECT_EQ(get(serving.port(), "/v1/models", std::string("Authorization: Bearer ") + wrong + "\r\n").status, 401)
            << wrong;
        EXPECT_EQ(get(serving.port(), "/v1/models", std::string("X-Api-Key: ") + wrong + "\r\n").status, 401) << wrong;
    }
}

TEST_F(Http, AnswersRequestsThatComeTogetherOneAfterTheOther) {
    const Serving serving;
    const std::string tokens = post_text("/tokenize", R"({"content":"the"})");
    const Outcome all =
        send_raw(serving.port(), kHealth + tokens + kHealth + post_text("/nothing", "{}") + tokens + kLastHealth);
    EXPECT_EQ(all.codes, (Codes{200, 200, 200, 404, 200, 200})) << all.came;
    EXPECT_TRUE(all.is_closed);
    EXPECT_EQ(count(all.came, "{\"status\":\"ok\"}"), 3);
    EXPECT_EQ(count(all.came, "{\"tokens\":["), 2);
    // The same, a byte at a time.
    Connection slow(serving.port());
    for (const char c : kHealth + tokens + kLastHealth) { ASSERT_TRUE(slow.send(std::string(1, c))); }
    EXPECT_EQ(codes_in(slow.read_until(kNever)), (Codes{200, 200, 200}));
    // Behind a stream, too.
    const Json body = {{"prompt", "the"}, {"max_tokens", 3}, {"ignore_eos", true}, {"stream", true}};
    const Outcome stream = send_raw(serving.port(), post_text("/v1/completions", body.dump()) + kLastHealth);
    EXPECT_EQ(stream.codes, (Codes{200, 200})) << stream.came;
    EXPECT_NE(stream.came.find("data: [DONE]\n\n\r\n0\r\n\r\nHTTP/1.1 200 OK"), std::string::npos) << stream.came;
}

TEST_F(Http, ReadsNoBodyAsARequest) {
    ServingOptions options;
    options.api.keys = {"k"};
    const Serving serving(options);
    const std::string key = "X-Api-Key: k\r\n";
    struct Row {
        std::string text;
        Codes codes;
    };
    const std::vector<Row> rows = {
        {post_text("/tokenize", kHealth + kHealth, key) + kLastHealth, {400, 200}},  // it is no JSON
        {post_text("/nothing", kHealth, key) + kLastHealth, {404, 200}},
        {post_text("/tokenize", kHealth), {401}},  // nobody reads it, so the connection ends
        {"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(kHealth.size()) + "\r\n\r\n" + kHealth,
         {400}},
        {"OPTIONS / HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(kHealth.size()) + "\r\n\r\n" + kHealth,
         {400}},
        {"DELETE /x HTTP/1.1\r\nHost: localhost\r\n" + key + "Content-Length: " + std::to_string(kHealth.size()) + "\r\n\r\n" +
             kHealth + kLastHealth,
         {404, 200}},
        {"FOO /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(kHealth.size()) + "\r\n\r\n" + kHealth,
         {405}},
        {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\n" + key +
             "Content-Encoding: gzip\r\nContent-Length: " + std::to_string(kHealth.size()) + "\r\n\r\n" + kHealth,
         {415}},
    };
    for (const Row & row : rows) {
        const Outcome outcome = send_raw(serving.port(), row.text);
        EXPECT_EQ(outcome.codes, row.codes) << row.text << "\n" << outcome.came;
        EXPECT_TRUE(outcome.is_closed) << row.text;
    }
}

// One reply, whatever follows, and the end of the connection.
TEST_F(Http, EndsAConnectionThatTwoMightReadInTwoWays) {
    const Serving serving;
    const std::string post = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n";
    const std::string get = "GET /health HTTP/1.1\r\nHost: localhost\r\n";
    const std::string chunked = post + "Transfer-Encoding: chunked\r\n";
    struct Row {
        std::string text;
        int code;
    };
    const std::vector<Row> rows = {
        {chunked + "Content-Length: 6\r\n\r\n0\r\n\r\n", 400},
        {post + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        {post + "Content-Length: 6\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400},
        {post + "Content-Length: -1\r\n\r\n", 400},
        {post + "Content-Length: 18446744073709551616\r\n\r\n", 400},
        {post + "Content-Length: 18446744073709551615\r\n\r\n", 413},
        {post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400},
        {chunked + "\r\nFFFFFFFFFFFFFFFF\r\nhello", 413},
        {chunked + "\r\nFFFFFFFFFFFFFFFFF\r\nhello", 400},
        {chunked + "\r\n-5\r\nhello\r\n0\r\n\r\n", 400},
        {chunked + "\r\n5\nhello\n0\n\n", 400},
        {chunked + "\r\n5;" + std::string(10'000, 'x') + "\r\nhello\r\n0\r\n\r\n", 400},
        {get + "X: a\r\n folded\r\n\r\n", 400},
        {get + "X: a\n\n", 400},
        {get + std::string("X: a\0b\r\n\r\n", 10), 400},
        {"GET /health HTTP/1.1\r\n\r\n", 400},
        {get + "Host: evil.example\r\n\r\n", 400},
        {"GET /health HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
        {"GET ftp://localhost/health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
        {"GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
        {"GET /" + std::string(10'000, 'x') + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 414},
        {get + "X: " + std::string(10'000, 'x') + "\r\n\r\n", 431},
        {"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n", 400},
        {post + "Expect: 200-maybe\r\nContent-Length: 2\r\n\r\n{}", 417},
        {std::string("\x16\x03\x01\x00\xA5\x01\x00\x00\xA1\x03\x03", 11), 400},  // TLS
    };
    for (const Row & row : rows) {
        const Outcome outcome = send_raw(serving.port(), row.text + kHealth + kHealth);
        EXPECT_EQ(outcome.codes, Codes{row.code}) << row.text.substr(0, 200) << "\n" << outcome.came;
        EXPECT_TRUE(outcome.is_closed) << row.text.substr(0, 200);
        EXPECT_NE(outcome.came.find("\"error\""), std::string::npos) << outcome.came;
    }
    EXPECT_EQ(send_raw(serving.port(), "GET http://localhost/health HTTP/1.1\r\nHost: other\r\n\r\n" + kLastHealth).codes,
              (Codes{200, 200}))
        << "the whole address counts";
    EXPECT_EQ(
        send_raw(serving.port(), "GET http://evil.example/health HTTP/1.1\r\nHost: localhost\r\n\r\n" + kLastHealth).codes,
        (Codes{403, 200}));
}

TEST_F(Http, KeepsAConnectionForAsLongAsTheClientWants) {
    ServingOptions options;
    options.http.keep_alive_s = 1;
    const Serving serving(options);
    {
        Connection connection(serving.port());
        for (int i = 1; i <= 5; ++i) {
            ASSERT_TRUE(connection.send(kHealth));
            std::string came;
            ASSERT_TRUE(comes_true([&] { return count(came = connection.read_until(kNever, 20), "{\"status\":\"ok\"}") == i; }))
                << came;
        }
        connection.read_until(kNever, 3000);
        EXPECT_TRUE(connection.closed()) << "nothing came for a second";
    }
    const std::string old = "GET /health HTTP/1.0\r\n";
    EXPECT_EQ(send_raw(serving.port(), old + "\r\n" + kHealth).codes, Codes{200});
    EXPECT_EQ(send_raw(serving.port(), old + "Connection: keep-alive\r\n\r\n" + kLastHealth).codes, (Codes{200, 200}));
    EXPECT_EQ(send_raw(serving.port(), kLastHealth + kHealth).codes, Codes{200});
}

TEST_F(Http, AsksForABodyThatTheClientHoldsBack) {
    ServingOptions options;
    options.api.keys = {"k"};
    options.http.most_body_bytes = 1000;
    const Serving serving(options);
    const auto head = [](const std::string & path, int n, const std::string & fields) {
        return "POST " + path +
               " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: " +
               std::to_string(n) + "\r\n" + fields + "\r\n";
    };
    Connection connection(serving.port());
    ASSERT_TRUE(connection.send(head("/tokenize", 17, "X-Api-Key: k\r\n")));
    EXPECT_EQ(codes_in(connection.read_until("\r\n\r\n")), Codes{100});
    ASSERT_TRUE(connection.send(R"({"content":"the"})"));
    EXPECT_EQ(codes_in(connection.read_until(kNever)), (Codes{100, 200}));
    // Not for one that is not read.
    EXPECT_EQ(send_raw(serving.port(), head("/tokenize", 17, "")).codes, Codes{401});
    EXPECT_EQ(send_raw(serving.port(), head("/tokenize", 1001, "X-Api-Key: k\r\n")).codes, Codes{413});
}

TEST_F(Http, TakesBodiesInChunks) {
    const Serving serving;
    const std::string chunked = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    const std::string whole = "9\r\n{\"content\r\n8;x=\"y\"\r\n\":\"the\"}\r\n0\r\nX-Trailer: z\r\n\r\n";
    const Outcome outcome = send_raw(serving.port(), chunked + whole + chunked + whole + kLastHealth);
    EXPECT_EQ(outcome.codes, (Codes{200, 200, 200})) << outcome.came;
    EXPECT_EQ(count(outcome.came, Json{{"tokens", *served_tokenizer().encode("the", false, true)}}.dump()), 2);
}

TEST_F(Http, AnswersAClientThatWritesNoMore) {
    Serving serving;
    for (const bool stream : {false, true}) {
        const Json body = {
            {"prompt", "the sky"}, {"max_tokens", 1500}, {"ignore_eos", true}, {"temperature", 0}, {"stream", stream}};
        Connection connection(serving.port());
        ASSERT_TRUE(connection.send(post_text("/v1/completions", body.dump())));
        connection.end();
        const std::string came = connection.read_until(kNever);
        const size_t reply = came.find("HTTP/1.1 200 OK");
        ASSERT_NE(reply, std::string::npos) << came;
        for (const int code : codes_in(came.substr(0, reply))) { EXPECT_EQ(code, 100); }
        const HttpAnswer answer = answer_of(came.substr(reply));
        if (stream) {
            EXPECT_EQ(answer.events().back(), "[DONE]");
        } else {
            EXPECT_EQ(answer.json()["usage"]["completion_tokens"], 1500) << answer.body;
        }
        EXPECT_TRUE(connection.closed());
    }
    EXPECT_EQ(serving.generator().state().metrics.n_cancelled, 0);
    Connection half(serving.port());
    ASSERT_TRUE(half.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"));
    half.end();
    EXPECT_EQ(codes_in(half.read_until(kNever)), Codes{400}) << "there is no more of it";
}

TEST_F(Http, AnswersHeadAsGetWithoutABody) {
    const Serving serving;
    const Outcome head = send_raw(serving.port(), "HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n" + kLastHealth);
    EXPECT_EQ(head.codes, (Codes{200, 200}));
    EXPECT_EQ(count(head.came, "Content-Length: 15\r\n"), 2);
    EXPECT_EQ(count(head.came, "{\"status\":\"ok\"}"), 1);
    EXPECT_EQ(send_raw(serving.port(), "HEAD /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n" + kLastHealth).codes,
              (Codes{404, 200}));
    const Outcome other = send_raw(serving.port(), "TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n" + kLastHealth);
    EXPECT_EQ(other.codes, (Codes{405, 200}));
    EXPECT_NE(other.came.find("Allow: GET"), std::string::npos) << other.came;
    EXPECT_EQ(send_raw(serving.port(), "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n" + kLastHealth).codes, (Codes{204, 200}));
}

TEST_F(Http, ServesTwoHundredClientsAtOnce) {
    const Serving serving;
    std::vector<std::unique_ptr<Connection>> clients;
    const std::string request = post_text("/tokenize", R"({"content":"the"})");
    for (int i = 0; i < 200; ++i) {
        clients.push_back(std::make_unique<Connection>(serving.port()));
        ASSERT_TRUE(clients.back()->send(request.substr(0, request.size() - 1)));  // all are being served
    }
    for (const auto & client : clients) { ASSERT_TRUE(client->send(request.substr(request.size() - 1))); }
    for (const auto & client : clients) { EXPECT_EQ(answer_of(client->read_until("]}")).status, 200); }
}

TEST_F(Http, TellsOneConnectionMoreThanItMayHave) {
    ServingOptions options;
    options.http.most_connections = 8;  // and one that waits
    const Serving serving(options);
    std::vector<std::unique_ptr<Connection>> held;
    const auto begin = [&] {
        held.push_back(std::make_unique<Connection>(serving.port()));
        ASSERT_TRUE(held.back()->send("GET /health HTTP/1.1\r\n"));
    };
    for (int i = 0; i < 9; ++i) { begin(); }
    const auto one_more = [&] { return send_raw(serving.port(), kLastHealth, 300).codes; };
    EXPECT_TRUE(comes_true([&] { return one_more() == Codes{503}; }));
    held.clear();
    EXPECT_TRUE(comes_true([&] { return one_more() == Codes{200}; }));
}

TEST_F(Http, AnswersToItsOwnNamesAlone) {
    ServingOptions options;
    options.http.allowed_hosts = {"pith.example", ".inner.example"};
    const Serving serving(options);
    const auto code = [&](const std::string & fields) {
        return send_raw(serving.port(), "GET /health HTTP/1.1\r\nConnection: close\r\n" + fields + "\r\n").codes.at(0);
    };
    for (const char * host : {"localhost", "127.0.0.1:8080", "[::1]:1", "192.0.2.1", "pith.example", "a.inner.example:80"}) {
        EXPECT_EQ(code(std::string("Host: ") + host + "\r\n"), 200) << host;
    }
    for (const char * host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "xpith.example"}) {
        EXPECT_EQ(code(std::string("Host: ") + host + "\r\n"), 403) << host;
    }
    const HttpAnswer anthropic = answer_of(
        send_raw(serving.port(), "POST /v1/messages HTTP/1.1\r\nConnection: close\r\nHost: evil.example\r\n\r\n").came);
    EXPECT_EQ(anthropic.json()["error"]["type"], "permission_error") << anthropic.body;
}

// Whose pages may call. Those of another name are refused before anything is done for them, not only kept from reading replies.
TEST_F(Http, LetsNoOtherPageCallWhereItIsToldSo) {
    for (const char * allowed : {"", "https://page.example"}) {
        ServingOptions options;
        options.http.cors_origin = allowed;
        const Serving serving(options);
        const auto ask_from = [&](const std::string & origin) {
            return post(serving.port(), "/tokenize", {{"content", "the"}}, "Origin: " + origin + "\r\n");
        };
        EXPECT_EQ(ask_from("http://evil.example").status, 403);
        EXPECT_EQ(ask_from("null").status, 403);
        EXPECT_EQ(ask_from("http://localhost").status, 200) << "its own";
        EXPECT_EQ(ask_from("http://localhost").headers.find("Access-Control-Allow-Origin: *"), std::string::npos);
        const HttpAnswer named = ask_from("https://page.example");
        EXPECT_EQ(named.status, *allowed == '\0' ? 403 : 200);
        EXPECT_EQ(named.headers.find("Access-Control-Allow-Origin: https://page.example") != std::string::npos,
                  *allowed != '\0');
    }
    const Serving open;
    EXPECT_EQ(post(open.port(), "/tokenize", {{"content", "the"}}, "Origin: http://evil.example\r\n").status, 200);
}

}  // namespace
}  // namespace pith::testing::http_test
