// token_history.h - the tokens of a sequence, in blocks that copies share. Stage: engine.
//
// A copy costs two words for each kBlock tokens, so snapshots and ways back do not hold their tokens once more. What is added
// to a block that others share goes behind what they look at; only a copy that was cut back and goes on otherwise copies a
// block. Threads: all copies of one history one at a time; they may be dropped on other threads.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace pith {

class TokenHistory {
public:
    static constexpr size_t kBlock = 1024;

    size_t size() const { return size_; }

    // All of them or, on std::bad_alloc, none. Allocates once in kBlock tokens.
    void append(std::span<const int32_t> tokens) {
        const size_t before = size_;
        try {
            while (!tokens.empty()) {
                Block & block = last_for_writing();
                const size_t begin = size_ % kBlock;
                const size_t n = std::min(tokens.size(), kBlock - begin);
                std::copy_n(tokens.data(), n, block.tokens.data() + begin);
                block.n_used = begin + n;
                size_ += n;
                tokens = tokens.subspan(n);
            }
        } catch (...) {
            truncate(before);
            throw;
        }
    }
    void truncate(size_t n) noexcept {
        size_ = std::min(size_, n);
        blocks_.resize((size_ + kBlock - 1) / kBlock);
    }

    // The tokens, block by block.
    template <class Visit>
    void for_each_block(Visit && visit) const {
        for (size_t i = 0; i < blocks_.size(); ++i) {
            visit(std::span<const int32_t>(blocks_[i]->tokens).first(std::min(kBlock, size_ - i * kBlock)));
        }
    }
    std::vector<int32_t> all() const {
        std::vector<int32_t> tokens;
        tokens.reserve(size_);
        for_each_block([&](std::span<const int32_t> block) { tokens.insert(tokens.end(), block.begin(), block.end()); });
        return tokens;
    }
    // Those from `begin` up to `end`. REQUIRES: begin <= end <= size().
    std::vector<int32_t> range(size_t begin, size_t end) const {
        std::vector<int32_t> tokens;
        tokens.reserve(end - begin);
        while (begin < end) {
            const size_t in_block = begin % kBlock;
            const size_t n = std::min(end - begin, kBlock - in_block);
            const auto from = blocks_[begin / kBlock]->tokens.begin() + static_cast<std::ptrdiff_t>(in_block);
            tokens.insert(tokens.end(), from, from + static_cast<std::ptrdiff_t>(n));
            begin += n;
        }
        return tokens;
    }
    size_t size_bytes() const {  // of blocks that are shared its part
        size_t n = blocks_.capacity() * sizeof(blocks_[0]);
        for (const auto & block : blocks_) { n += sizeof(Block) / static_cast<size_t>(block.use_count()); }
        return n;
    }

private:
    struct Block {
        std::array<int32_t, kBlock> tokens;
        size_t n_used = 0;  // by any copy
    };

    // The block that the next token goes to.
    Block & last_for_writing() {
        const size_t begin = size_ % kBlock;
        if (begin == 0) {
            blocks_.push_back(std::make_shared<Block>());
            return *blocks_.back();
        }
        std::shared_ptr<Block> & last = blocks_.back();
        if (last->n_used > begin && last.use_count() > 1) { last = std::make_shared<Block>(*last); }
        return *last;
    }

    std::vector<std::shared_ptr<Block>> blocks_;
    size_t size_ = 0;
};

}  // namespace pith
