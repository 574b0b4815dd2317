// records.cpp - takes a file apart; see records.h.
#include "benchmarks/files/records.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/parse_integer.h"

namespace pith::benchmarks {
namespace {

using Json = nlohmann::json;

const Json & as_json(const std::shared_ptr<const void> & json) {
    return *static_cast<const Json *>(json.get());
}

// What a field holds, for a message: "a list", "the text 'no'", "the number 3".
std::string describe(const Json & value) {
    if (value.is_null()) { return "null"; }
    if (value.is_object()) { return "an object"; }
    if (value.is_array()) { return value.empty() ? "an empty list" : "a list"; }
    std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    constexpr size_t kShown = 40;
    if (text.size() > kShown) { return "a long text"; }
    return (value.is_string() ? "the text " : value.is_boolean() ? "" : "the number ") + text;
}

bool is_scalar(const Json & value) {
    return value.is_string() || value.is_number() || value.is_boolean();
}

std::string scalar_text(const Json & value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
}

Status bad_file(const std::string & where, std::string_view what) {
    return {ErrorCode::kBadFile, where + std::string(what)};
}

// Listens to a parse only for where it breaks.
struct ErrorPlace final : nlohmann::json_sax<Json> {
    size_t offset = 0;
    bool null() override { return true; }
    bool boolean(bool /*value*/) override { return true; }
    bool number_integer(number_integer_t /*value*/) override { return true; }
    bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
    bool number_float(number_float_t /*value*/, const string_t & /*text*/) override { return true; }
    bool string(string_t & /*value*/) override { return true; }
    bool binary(binary_t & /*value*/) override { return true; }
    bool start_object(size_t /*n*/) override { return true; }
    bool key(string_t & /*value*/) override { return true; }
    bool end_object() override { return true; }
    bool start_array(size_t /*n*/) override { return true; }
    bool end_array() override { return true; }
    bool parse_error(size_t position, const std::string & /*token*/, const Json::exception & /*error*/) override {
        offset = position;
        return false;
    }
};

// Offset of the byte at which the text stops being JSON, from 1; past the end where it is cut off.
size_t error_offset(std::string_view text) {
    ErrorPlace place;
    Json::sax_parse(text.begin(), text.end(), &place);
    return place.offset;
}

bool is_blank(std::string_view line) {
    return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

Status use_record(Json value, const std::string & where, int number, const std::function<Status(const Record &)> & use) {
    if (!value.is_object()) { return bad_file(where, ": holds " + describe(value) + " where a sample's JSON object belongs"); }
    return use(Record(std::make_shared<const Json>(std::move(value)), where, number));
}

Status each_in_array(std::string_view text, const std::string & file, int limit,
                     const std::function<Status(const Record &)> & use) {
    Json all = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
    if (all.is_discarded()) {
        const size_t end = std::min(error_offset(text), text.size());
        const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n');
        return bad_file("'" + file + "', line " + std::to_string(line),
                        ": the list is not whole JSON (cut off?): get the file again");
    }
    if (all.empty()) { return bad_file("'" + file + "'", " holds an empty list: no samples"); }
    int number = 0;
    for (Json & value : all) {
        if (limit > 0 && number == limit) { break; }
        ++number;
        PITH_RETURN_IF_ERROR(use_record(std::move(value), "'" + file + "', record " + std::to_string(number), number, use));
    }
    return {};
}

Status each_line(std::string_view text, const std::string & file, int limit,
                 const std::function<Status(const Record &)> & use) {
    for (int number = 1; !is_blank(text) && (limit == 0 || number <= limit); ++number) {
        const size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        const std::string where = "'" + file + "', line " + std::to_string(number);
        if (is_blank(line)) {
            return bad_file(where, " is empty between others (is a sample missing?): get the file again or delete the line");
        }
        Json value = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
        if (value.is_discarded()) {
            const size_t offset = error_offset(line);
            const std::string place = offset > line.size() ? "it is cut off after " + std::to_string(line.size()) + " bytes"
                                                           : "it breaks at byte " + std::to_string(offset);
            return bad_file(where, " is not whole JSON (" + place + "): get the file again or delete the line");
        }
        PITH_RETURN_IF_ERROR(use_record(std::move(value), where, number, use));
    }
    return {};
}

}  // namespace

Record::Record(std::shared_ptr<const void> json, std::string where, int number)
    : json_(std::move(json)), where_(std::move(where)), number_(number) {}

Status Record::bad(std::string_view field, std::string_view what) const {
    return bad_file(where_, ": the field '" + path_ + std::string(field) + "' " + std::string(what));
}

bool Record::has(std::string_view field) const {
    const Json & json = as_json(json_);
    const auto found = json.find(std::string(field));
    return found != json.end() && !found->is_null();
}

bool Record::holds_object(std::string_view field) const {
    return has(field) && as_json(json_)[std::string(field)].is_object();
}

namespace {

Status missing(const Record & record, std::string_view field) {
    return record.bad(field, "is missing: is this the benchmark's own file, of this task?");
}

Status wrong_kind(const Record & record, std::string_view field, const Json & value, std::string_view wanted) {
    return record.bad(field, "holds " + describe(value) + " where " + std::string(wanted) + " belongs");
}

Result<std::vector<std::string>> list_of(const Record & record, std::string_view field, const Json & value,
                                         bool (*fits)(const Json &), std::string_view wanted) {
    if (fits(value)) { return std::vector<std::string>{scalar_text(value)}; }
    if (!value.is_array()) { return wrong_kind(record, field, value, "a list of " + std::string(wanted) + "s"); }
    std::vector<std::string> out;
    for (size_t i = 0; i < value.size(); ++i) {
        if (!fits(value[i])) {
            return wrong_kind(record, std::string(field) + "[" + std::to_string(i) + "]", value[i], "a " + std::string(wanted));
        }
        out.push_back(scalar_text(value[i]));
    }
    return out;
}

}  // namespace

Result<std::string> Record::text(std::string_view field) const {
    if (!has(field)) { return missing(*this, field); }
    const Json & value = as_json(json_)[std::string(field)];
    if (!value.is_string()) { return wrong_kind(*this, field, value, "a text"); }
    return value.get<std::string>();
}

Result<std::string> Record::scalar(std::string_view field) const {
    if (!has(field)) { return missing(*this, field); }
    const Json & value = as_json(json_)[std::string(field)];
    if (!is_scalar(value)) { return wrong_kind(*this, field, value, "a text or a number"); }
    return scalar_text(value);
}

Result<int64_t> Record::integer(std::string_view field) const {
    if (!has(field)) { return missing(*this, field); }
    const Json & value = as_json(json_)[std::string(field)];
    const std::string digits = is_scalar(value) ? scalar_text(value) : "";
    int64_t number = 0;
    if (!parse_integer(digits, number)) { return wrong_kind(*this, field, value, "a whole number"); }
    return number;
}

Result<std::vector<std::string>> Record::texts(std::string_view field) const {
    if (!has(field)) { return missing(*this, field); }
    return list_of(
        *this, field, as_json(json_)[std::string(field)], [](const Json & value) { return value.is_string(); }, "text");
}

Result<std::vector<std::string>> Record::scalars(std::string_view field) const {
    if (!has(field)) { return missing(*this, field); }
    return list_of(*this, field, as_json(json_)[std::string(field)], is_scalar, "text or number");
}

Result<std::vector<std::string>> Record::flat_scalars(std::string_view field) const {
    if (!has(field)) { return missing(*this, field); }
    const Json & value = as_json(json_)[std::string(field)];
    const bool nested = value.is_array() && value.size() == 1 && value[0].is_array();
    return list_of(*this, field, nested ? value[0] : value, is_scalar, "text or number");
}

Result<std::vector<TitledTexts>> Record::titled_texts(std::string_view field) const {
    if (!has(field)) { return missing(*this, field); }
    const Json & value = as_json(json_)[std::string(field)];
    if (!value.is_array()) { return wrong_kind(*this, field, value, "a list of titles with texts"); }
    std::vector<TitledTexts> out;
    for (size_t i = 0; i < value.size(); ++i) {
        const Json & item = value[i];
        const std::string name = std::string(field) + "[" + std::to_string(i) + "]";
        if (!item.is_array() || item.size() != 2 || !item[0].is_string()) {
            return wrong_kind(*this, name, item, "a title with a list of texts");
        }
        const auto fits = [](const Json & text) { return text.is_string(); };
        PITH_ASSIGN_OR_RETURN(std::vector<std::string> texts, list_of(*this, name + "[1]", item[1], fits, "text"));
        out.push_back({item[0].get<std::string>(), std::move(texts)});
    }
    return out;
}

Result<Record> Record::object(std::string_view field) const {
    if (!has(field)) { return missing(*this, field); }
    const Json & value = as_json(json_)[std::string(field)];
    if (!value.is_object()) { return wrong_kind(*this, field, value, "an object"); }
    Record part(std::shared_ptr<const void>(json_, &value), where_, number_);
    part.path_ = path_ + std::string(field) + ".";
    return part;
}

Result<std::map<std::string, std::string>> Record::members(std::string_view field) const {
    PITH_RETURN_IF_ERROR(object(field).status());
    std::map<std::string, std::string> out;
    for (const auto & [name, value] : as_json(json_)[std::string(field)].items()) {
        if (!value.is_string()) { return wrong_kind(*this, std::string(field) + "." + name, value, "a text"); }
        out[name] = value.get<std::string>();
    }
    return out;
}

Result<std::vector<Record>> Record::objects(std::string_view field) const {
    if (!has(field)) { return missing(*this, field); }
    const Json & value = as_json(json_)[std::string(field)];
    if (!value.is_array() || value.empty()) { return wrong_kind(*this, field, value, "a list of objects"); }
    std::vector<Record> parts;
    for (size_t i = 0; i < value.size(); ++i) {
        const std::string name = std::string(field) + "[" + std::to_string(i) + "]";
        if (!value[i].is_object()) { return wrong_kind(*this, name, value[i], "an object"); }
        Record part(std::shared_ptr<const void>(json_, &value[i]), where_, number_);
        part.path_ = path_ + name + ".";
        parts.push_back(std::move(part));
    }
    return parts;
}

Status for_each_record(std::string_view text, const std::string & file, int limit,
                       const std::function<Status(const Record &)> & use) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text.starts_with(kByteOrderMark)) { text.remove_prefix(kByteOrderMark.size()); }
    if (is_blank(text)) { return bad_file("'" + file + "'", " is empty: no samples; get the file again"); }
    const bool is_array = text[text.find_first_not_of(" \t\r\n")] == '[';
    return is_array ? each_in_array(text, file, limit, use) : each_line(text, file, limit, use);
}

}  // namespace pith::benchmarks
