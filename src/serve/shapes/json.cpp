// json.cpp - bodies are checked before the JSON library sees them. Stage: serve.
#include "serve/shapes/json.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/json_syntax.h"
#include "text/utf8.h"

namespace pith::serve {
namespace {

// Far more than messages, functions and biases of all tokens are, and than a context has tokens; together some 50 MB.
constexpr JsonLimits kLimits{.most_values = int64_t{1} << 18, .most_numbers = int64_t{1} << 21};

// The four hexadecimal digits behind "\\u"; nothing: there are none.
std::optional<uint32_t> code_unit(std::string_view text, size_t at) {
    uint32_t unit = 0;
    if (at + 6 > text.size() || text.substr(at, 2) != "\\u") { return {}; }
    const auto [end, error] = std::from_chars(text.data() + at + 2, text.data() + at + 6, unit, 16);
    return error == std::errc() && end == text.data() + at + 6 ? std::optional(unit) : std::nullopt;
}

// Where half of a pair of UTF-16 stands by itself. REQUIRES: JSON.
std::optional<size_t> lone_surrogate(std::string_view body) {
    constexpr auto is_first = [](uint32_t unit) { return unit >= 0xD800 && unit < 0xDC00; };
    constexpr auto is_second = [](uint32_t unit) { return unit >= 0xDC00 && unit < 0xE000; };
    for (size_t at = body.find('\\'); at != std::string_view::npos; at = body.find('\\', at)) {
        const auto unit = code_unit(body, at);
        if (!unit) {
            at += 2;
            continue;
        }
        const auto next = code_unit(body, at + 6);
        if (is_second(*unit) || (is_first(*unit) && !(next && is_second(*next)))) { return at; }
        at += is_first(*unit) ? 12 : 6;
    }
    return {};
}

// REQUIRES: no deeper than a body may be. Needs no memory.
void take_apart(Json & value) {
    if (value.is_array()) {
        auto & all = value.get_ref<Json::array_t &>();
        while (!all.empty()) {
            take_apart(all.back());
            all.pop_back();
        }
    } else if (value.is_object()) {
        auto & all = value.get_ref<Json::object_t &>();
        for (auto & [name, member] : all) { take_apart(member); }
        all.clear();
    }
}

// Room for one member more. Left to itself an object that grows copies its members, with all that is in them, since their names
// are constant: nested ones would cost their size once for each level.
void make_room(Json::object_t & members) {
    if (members.size() < members.capacity()) { return; }
    Json::object_t larger;
    larger.reserve(std::max<size_t>(8, 2 * members.size()));
    for (auto & [name, value] : members) { larger.emplace_back(name, nullptr).second.swap(value); }
    members.swap(larger);
}

// Makes the tree in `root` as its text is read, so that what there is of it when memory ends is taken apart as a whole one is.
class TreeBuilder : public nlohmann::json_sax<Json> {
public:
    explicit TreeBuilder(Json & root) : root_(root) {}

    bool null() override { return add(nullptr); }
    bool boolean(bool value) override { return add(value); }
    bool number_integer(int64_t value) override { return add(value); }
    bool number_unsigned(uint64_t value) override { return add(value); }
    bool number_float(double value, const std::string & /*text*/) override { return add(value); }
    bool string(std::string & value) override { return add(std::move(value)); }
    bool binary(Json::binary_t & value) override { return add(std::move(value)); }
    bool start_object(size_t /*n*/) override { return open(Json::object()); }
    bool start_array(size_t /*n*/) override { return open(Json::array()); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(std::string & name) override {
        make_room(open_.back()->get_ref<Json::object_t &>());
        member_ = &(*open_.back())[name];
        take_apart(*member_);  // a name that is there twice: the last one counts
        return true;
    }
    bool parse_error(size_t /*at*/, const std::string & /*token*/, const Json::exception & /*error*/) override { return false; }

private:
    Json * put(Json value) {
        Json * place = open_.empty() ? &root_ : member_;
        if (!open_.empty() && open_.back()->is_array()) {
            auto & all = open_.back()->get_ref<Json::array_t &>();
            all.push_back(std::move(value));
            return &all.back();
        }
        *place = std::move(value);
        return place;
    }
    bool add(Json value) {
        put(std::move(value));
        return true;
    }
    bool open(Json value) {
        open_.push_back(put(std::move(value)));
        return true;
    }
    bool close() {
        open_.pop_back();
        return true;
    }

    Json & root_;
    std::vector<Json *> open_;  // from the outermost on
    Json * member_ = nullptr;   // of the innermost object, the one whose name was read last
};

}  // namespace

Body::~Body() {
    take_apart(value_);
}

std::string dump(const Json & value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json bytes_of(const std::string & text) {
    Json bytes = Json::array();
    for (const char c : text) { bytes.push_back(static_cast<unsigned char>(c)); }
    return bytes;
}

Result<Body> parse_body(std::string_view body) {
    if (const auto offset = invalid_utf8_offset(body)) {
        return {ErrorCode::kInvalidArgument, "the body is not UTF-8: byte " + std::to_string(*offset)};
    }
    if (const std::string problem = json_problem(body, kLimits); !problem.empty()) {
        return {ErrorCode::kInvalidArgument, "the body is not JSON: " + problem};
    }
    if (const auto at = lone_surrogate(body)) {
        return {ErrorCode::kInvalidArgument, "the body has half of a pair of UTF-16 at byte " + std::to_string(*at) + ": " +
                                                 std::string(body.substr(*at, 6)) + " stands for no character by itself"};
    }
    Body read;
    TreeBuilder builder(read.json());
    if (!Json::sax_parse(body, &builder)) { return {ErrorCode::kInvalidArgument, "the body holds a number that is too large"}; }
    if (!read.json().is_object()) {
        return {ErrorCode::kInvalidArgument, "the body is no JSON object: give {\"name\": value, …}"};
    }
    return read;
}

}  // namespace pith::serve
