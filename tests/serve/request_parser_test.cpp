// request_parser_test.cpp - which bytes are a request, which are none, and where each ends.
#include "serve/request_parser.h"

#include <gtest/gtest.h>

#include "serve/request_target.h"

namespace pith::serve::request_parser_test {
namespace {

struct Parsed {
    int status = 0;  // of the fault; 0: none
    bool is_done = false;
    std::string method;
    std::string target;
    std::string body;
    std::string rest;  // what is not the request's
};

// As it comes from a connection, so many bytes at a time.
Parsed parse(const std::string & text, size_t step, size_t most_body = 1000) {
    RequestParser parser;
    Parsed parsed;
    std::string came;
    size_t at = 0;
    bool reads_body = false;
    for (;;) {
        size_t n_used = 0;
        const auto fault = parser.put(came, n_used);
        came.erase(0, n_used);
        if (fault) {
            parsed.status = fault->status;
            break;
        }
        if (parser.has_head() && !reads_body) {
            reads_body = true;
            parser.read_body(most_body, [&](std::string_view piece) {
                parsed.body += piece;
                return true;
            });
            continue;
        }
        if (parser.is_done() || at == text.size()) { break; }
        came += text.substr(at, step);
        at += std::min(step, text.size() - at);
    }
    parsed.is_done = parser.is_done();
    if (parser.has_head()) {
        parsed.method = parser.head().method;
        parsed.target = parser.head().target;
    }
    parsed.rest = came + text.substr(at);
    return parsed;
}

constexpr const char * kGet = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";

std::string post(const std::string & fields, const std::string & body) {
    return "POST /a HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n" + body;
}
const std::string kChunked = "Transfer-Encoding: chunked\r\n";

TEST(RequestParser, EndsARequestWhereItsLengthSaysHoweverItComes) {
    struct Row {
        std::string text;
        std::string body;
    };
    const std::vector<Row> rows = {
        {kGet, ""},
        {std::string("\r\n\r\n") + kGet, ""},
        {post("Content-Length: 5\r\n", "hello"), "hello"},
        {post("Content-Length: 28\r\n", kGet), kGet},  // a body that looks like a request
        {post("Content-Length: 0\r\n", ""), ""},
        {post("", ""), ""},
        {post(kChunked, "5\r\nhello\r\n0\r\n\r\n"), "hello"},
        {post(kChunked, "3\r\nhel\r\n02\r\nlo\r\n000\r\n\r\n"), "hello"},
        {post(kChunked, "5;a=b;c=\"d\"\r\nhello\r\n0;last\r\nContent-Language: en\r\nX: y\r\n\r\n"), "hello"},
        {post("transfer-encoding: ChunKed\r\n", "0\r\n\r\n"), ""},
    };
    for (const Row & row : rows) {
        ASSERT_TRUE(row.text.size() < 1000);
        for (const size_t step : {size_t{1}, size_t{2}, size_t{7}, size_t{1000}}) {
            const Parsed parsed = parse(row.text + "GET /next", step);
            EXPECT_EQ(parsed.status, 0) << row.text;
            EXPECT_TRUE(parsed.is_done) << row.text << " by " << step;
            EXPECT_EQ(parsed.target, "/a");
            EXPECT_EQ(parsed.body, row.body) << row.text << " by " << step;
            EXPECT_EQ(parsed.rest, "GET /next") << row.text << " by " << step;
        }
    }
}

TEST(RequestParser, RefusesWhatCanBeReadInTwoWays) {
    const std::string line = "GET /a HTTP/1.1\r\n";
    const std::string host = "Host: x\r\n";
    std::string many = line + host;
    for (int i = 0; i < 100; ++i) { many += "X-" + std::to_string(i) + ": y\r\n"; }
    const std::vector<std::pair<std::string, int>> rows = {
        {post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400},
        {post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), 400},
        {post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!"), 400},
        {post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), 400},
        {post("Content-Length: 5, 5\r\n", "hello"), 400},
        {post("Content-Length: -5\r\n", "hello"), 400},
        {post("Content-Length: +5\r\n", "hello"), 400},
        {post("Content-Length: 0x5\r\n", "hello"), 400},
        {post("Content-Length: 5 5\r\n", "hello"), 400},
        {post("Content-Length:\r\n", "hello"), 400},
        {post("Content-Length: 99999999999999999999999999\r\n", "hello"), 400},
        {post("Content-Length: 1001\r\n", ""), 0},  // whoever reads the body says that it is too long
        {post("Content-Length : 5\r\n", "hello"), 400},
        {post("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"), 400},
        {post("Transfer-Encoding: chunked\r\n", "5;a=\"\n\"\r\nhello\r\n0\r\n\r\n"), 400},
        {post("Transfer-Encoding: chunked\r\n", "0;a=\"\n\"\r\n\r\n"), 400},
        {post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), 400},
        {post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), 400},
        {post("Transfer-Encoding: identity\r\n", ""), 400},
        {post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n"), 400},
        {"POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        {post(kChunked, "FFFFFFFFFFFFFFFFF\r\n"), 400},
        {post(kChunked, "FFFFFFFFFFFFFFF0\r\n"), 413},
        {post(kChunked, "3e9\r\n"), 413},
        {post(kChunked, "-1\r\n"), 400},
        {post(kChunked, "0x5\r\nhello\r\n0\r\n\r\n"), 400},
        {post(kChunked, "5\nhello\n0\n\n"), 400},
        {post(kChunked, "5\r\nhelloX\r\n0\r\n\r\n"), 400},
        {post(kChunked, "5 \r\nhello\r\n0\r\n\r\n"), 400},
        {post(kChunked, "5;\nx\r\nhello\r\n0\r\n\r\n"), 400},
        {post(kChunked, "5;" + std::string(20'000, 'x')), 400},
        {post(kChunked, "5;" + std::string(20'000, 'x') + "\r\nhello\r\n0\r\n\r\n"), 400},
        {post(kChunked, "0\r\nX: " + std::string(20'000, 'x')), 400},
        {line + "Host: x\r\nX: a\r\n b\r\n\r\n", 400},
        {line + "Host: x\r\n\tX: a\r\n\r\n", 400},
        {line + " Host: x\r\n\r\n", 400},
        {line + "Host: x\n\r\n", 400},
        {"GET /a HTTP/1.1\nHost: x\n\n", 400},
        {line + "Host: x\rX: y\r\n\r\n", 400},
        {line + std::string("Host: x\0y\r\n\r\n", 12), 400},
        {line + std::string("Ho\0st: x\r\n\r\n", 12), 400},
        {std::string("GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n", 28), 400},
        {line + host + "X: \x7F\r\n\r\n", 400},
        {line + "\r\n", 400},
        {line + host + host + "\r\n", 400},
        {line + host + "no colon\r\n\r\n", 400},
        {line + host + ": no name\r\n\r\n", 400},
        {many + "\r\n", 431},
        {line + host + "X: " + std::string(9000, 'x'), 431},
        {"GET /" + std::string(9000, 'x'), 414},
        {"GET /a HTTP/9.9\r\nHost: x\r\n\r\n", 400},
        {"GET /a HTTP/1.2\r\nHost: x\r\n\r\n", 400},
        {"GET /a\r\nHost: x\r\n\r\n", 400},
        {"GET  /a HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {"G@T /a HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
        {std::string("\x16\x03\x01\x02\0", 5), 400},
    };
    for (const auto & [text, status] : rows) {
        for (const size_t step : {size_t{1}, size_t{13}, size_t{100'000}}) {
            EXPECT_EQ(parse(text, step).status, status) << text.substr(0, 200) << " by " << step;
        }
    }
}

TEST(RequestParser, HasARoomForAHeadAndNoMore) {
    std::string text = "GET /a HTTP/1.1\r\nHost: x\r\n";
    for (int i = 0; i < 90; ++i) { text += "X-" + std::to_string(i) + ": " + std::string(800, 'x') + "\r\n"; }
    EXPECT_EQ(parse(text, 5000).status, 431) << "of 72 KB";
}

TEST(RequestTargets, ArePathsOrWholeAddresses) {
    struct Row {
        const char * target;
        const char * path;
        const char * authority;
    };
    for (const Row & row : std::vector<Row>{{"/a/b?c=d", "/a/b", ""},
                                            {"/a%20b%2Fc", "/a b/c", ""},
                                            {"//x/y", "//x/y", ""},
                                            {"*", "*", ""},
                                            {"http://localhost:80/a?b", "/a", "localhost:80"},
                                            {"HTTPS://x", "/", "x"},
                                            {"http://x?a", "/", "x"}}) {
        const auto found = target_of(row.target);
        ASSERT_TRUE(found) << row.target;
        EXPECT_EQ(found->path, row.path);
        EXPECT_EQ(found->authority, row.authority);
    }
    for (const char * target : {"", "a", "x:80", "ftp://x/a", "http:///a", "/%", "/%4", "/%4g", "/%+1", "http:/a"}) {
        EXPECT_FALSE(target_of(target)) << target;
    }
}

TEST(AllowedHosts, AreThisMachineAddressesAndWhatIsNamed) {
    const AllowedHosts hosts({"pith.example", ".inner.example"}, "box");
    for (const char * name :
         {"localhost", "localhost:80", "LOCALHOST.", "a.localhost", "127.0.0.1:1", "[::1]:80", "192.0.2.7", "[2001:db8::1]",
          "box:8080", "pith.example", "Pith.Example:1", "inner.example", "a.inner.example"}) {
        EXPECT_TRUE(hosts.has_host(name)) << name;
    }
    for (const char * name : {"", "evil.example", "localhost.evil.example", "xlocalhost", "127.0.0.1.evil.example",
                              "127.evil.example", "x.pith.example", "evilinner.example", "a b", "x@localhost",
                              "localhost:80:80", "localhost:x", "[::1", "[::1]x", "localhost/", "1.2.3"}) {
        EXPECT_FALSE(hosts.has_host(name)) << name;
    }
    EXPECT_TRUE(AllowedHosts({"*"}, "box").has_host("any.example"));
    EXPECT_FALSE(AllowedHosts({"*"}, "box").has_host("no name"));
    EXPECT_FALSE(AllowedHosts({"*"}, "box").has_origin("http://any.example", "127.0.0.1"));
    EXPECT_TRUE(hosts.has_origin("http://192.0.2.7:80", "192.0.2.7:80")) << "its own page";
    EXPECT_TRUE(hosts.has_origin("https://a.example", "A.example")) << "behind a proxy with TLS";
    EXPECT_TRUE(hosts.has_origin("http://localhost:3000", "127.0.0.1:8080"));
    EXPECT_TRUE(hosts.has_origin("https://pith.example", "127.0.0.1:8080"));
    for (const char * origin :
         {"null", "", "http://evil.example", "http://192.0.2.8", "file://", "http://localhost.evil.example"}) {
        EXPECT_FALSE(hosts.has_origin(origin, "127.0.0.1:8080")) << origin;
    }
}

}  // namespace
}  // namespace pith::serve::request_parser_test
