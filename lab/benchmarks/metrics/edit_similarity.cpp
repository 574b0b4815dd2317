// edit_similarity.cpp - the longest matching runs, found as difflib finds them (of equally long ones the first in a, then in
// b).
#include "benchmarks/metrics/edit_similarity.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <unordered_map>
#include <vector>

#include "benchmarks/metrics/unicode.h"
#include "core/text.h"

namespace pith::benchmarks {
namespace {

using Places = std::unordered_map<char32_t, std::vector<size_t>>;

// Where each character of b is, ascending; the popular ones of a long b left out.
Places places_in(std::u32string_view b) {
    Places places;
    for (size_t j = 0; j < b.size(); ++j) { places[b[j]].push_back(j); }
    constexpr size_t kLong = 200;
    if (b.size() >= kLong) {
        const size_t most = b.size() / 100 + 1;
        std::erase_if(places, [&](const auto & entry) { return entry.second.size() > most; });
    }
    return places;
}

struct Span {
    size_t a_first, a_end, b_first, b_end;
};
struct Block {
    size_t a, b, size;
};

Block longest_block(std::u32string_view a, std::u32string_view b, const Places & places, const Span & span) {
    Block best{span.a_first, span.b_first, 0};
    std::vector<size_t> run(b.size() + 1);  // [j + 1]: length of the run that ends at a[i − 1], b[j]
    std::vector<size_t> next(b.size() + 1);
    for (size_t i = span.a_first; i < span.a_end; ++i) {
        std::fill(next.begin(), next.end(), 0);
        if (const auto found = places.find(a[i]); found != places.end()) {
            for (const size_t j : found->second) {
                if (j < span.b_first || j >= span.b_end) { continue; }
                const size_t size = next[j + 1] = run[j] + 1;
                if (size > best.size) { best = {i + 1 - size, j + 1 - size, size}; }
            }
        }
        run.swap(next);
    }
    // Popular characters start no block, but lengthen one.
    while (best.a > span.a_first && best.b > span.b_first && a[best.a - 1] == b[best.b - 1]) {
        --best.a, --best.b, ++best.size;
    }
    while (best.a + best.size < span.a_end && best.b + best.size < span.b_end &&
           a[best.a + best.size] == b[best.b + best.size]) {
        ++best.size;
    }
    return best;
}

}  // namespace

double sequence_ratio(std::u32string_view a, std::u32string_view b) {
    if (a.empty() && b.empty()) { return 1; }
    const Places places = places_in(b);
    size_t matched = 0;
    std::vector<Span> todo = {{0, a.size(), 0, b.size()}};
    while (!todo.empty()) {
        const Span span = todo.back();
        todo.pop_back();
        const Block block = longest_block(a, b, places, span);
        if (block.size == 0) { continue; }
        matched += block.size;
        if (block.a > span.a_first && block.b > span.b_first) {
            todo.push_back({span.a_first, block.a, span.b_first, block.b});
        }
        const size_t a_after = block.a + block.size;
        const size_t b_after = block.b + block.size;
        if (a_after < span.a_end && b_after < span.b_end) { todo.push_back({a_after, span.a_end, b_after, span.b_end}); }
    }
    return 2.0 * static_cast<double>(matched) / static_cast<double>(a.size() + b.size());
}

int fuzz_ratio(std::string_view a, std::string_view b) {
    if (a == b) { return 100; }
    if (a.empty() || b.empty()) { return 0; }
    return static_cast<int>(std::lrint(100 * sequence_ratio(code_points(a), code_points(b))));
}

double code_similarity(std::string_view prediction, std::string_view reference) {
    while (!prediction.empty() && prediction.front() == '\n') { prediction.remove_prefix(1); }
    const auto is_code = [](std::string_view line) {
        return line.find_first_of("`#") == std::string_view::npos && line.find("//") == std::string_view::npos;
    };
    for (const std::string_view line : split(prediction, '\n')) {
        if (is_code(line)) { return fuzz_ratio(line, reference) / 100.0; }
    }
    return fuzz_ratio("", reference) / 100.0;
}

}  // namespace pith::benchmarks
