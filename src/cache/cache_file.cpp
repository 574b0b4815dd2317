// cache_file.cpp - header, table and sections, written and taken apart.
#include "cache/cache_file.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <filesystem>
#include <system_error>

#include "core/byte_stream.h"
#include "file/can_write.h"

namespace pith {
namespace {

using Header = std::array<uint8_t, CacheFileLayout::kHeaderBytes>;

constexpr std::array<uint8_t, CacheFileLayout::kAlign> kZeros{};
// The header is written last; until then there are zeros in its place.
constexpr NewFile::Beginning kBeginning{CacheFileLayout::kMagic, CacheFileLayout::kHeaderBytes};

uint64_t padding_behind(uint64_t size) {
    return (CacheFileLayout::kAlign - size % CacheFileLayout::kAlign) % CacheFileLayout::kAlign;
}

// Of the header with 0 in place of the hash.
uint64_t hash_of_header(Header header) {
    std::fill_n(header.begin() + CacheFileLayout::kHashAt, sizeof(uint64_t), uint8_t{0});
    return hash64(header);
}

bool begins_with_magic(std::span<const uint8_t> bytes) {
    constexpr std::string_view magic = CacheFileLayout::kMagic;
    return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
}

Header make_header(std::span<const CacheSection> sections, uint64_t file_size, uint64_t hash) {
    ByteWriter writer;
    for (const char c : CacheFileLayout::kMagic) { writer.number(c); }
    writer.number(kCacheFileVersion);
    writer.number(static_cast<uint32_t>(sections.size()));
    writer.number(file_size);
    writer.number(hash);
    for (const CacheSection & section : sections) {
        std::array<char, CacheSection::kMostName + 1> name{};
        std::ranges::copy(section.name, name.begin());
        for (const char c : name) { writer.number(c); }
        writer.number(section.offset);
        writer.number(section.size);
        writer.number(section.hash);
    }
    Header header{};
    std::ranges::copy(writer.bytes(), header.begin());
    return header;
}

}  // namespace

Result<CacheFileWriter> CacheFileWriter::create(const std::string & path) {
    PITH_ASSIGN_OR_RETURN(NewFile file, NewFile::create_private(path, kBeginning));
    CacheFileWriter writer(std::move(file));
    const Header nothing{};
    PITH_RETURN_IF_ERROR(writer.file_.write(nothing.data(), nothing.size()));
    writer.n_written_ = nothing.size();
    return writer;
}

void CacheFileWriter::end_section() {
    if (sections_.empty()) { return; }
    CacheSection & last = sections_.back();
    last.size = n_written_ - last.offset;
    last.hash = hash_.value();
}

Status CacheFileWriter::begin(std::string_view section) {
    assert(section.size() <= CacheSection::kMostName && sections_.size() < CacheFileLayout::kMostSections);
    end_section();
    const uint64_t padding = padding_behind(n_written_);
    PITH_RETURN_IF_ERROR(file_.write(kZeros.data(), static_cast<size_t>(padding)));
    n_written_ += padding;
    sections_.push_back({std::string(section), n_written_, 0, 0});
    hash_ = {};
    return {};
}

Status CacheFileWriter::write(std::span<const uint8_t> bytes) {
    if (bytes.empty()) { return {}; }
    PITH_RETURN_IF_ERROR(file_.write(bytes.data(), bytes.size()));
    hash_.add(bytes);
    n_written_ += bytes.size();
    return {};
}

Status CacheFileWriter::publish() {
    end_section();
    const uint64_t hash = hash_of_header(make_header(sections_, n_written_, 0));
    const Header header = make_header(sections_, n_written_, hash);
    PITH_RETURN_IF_ERROR(file_.rewind());
    PITH_RETURN_IF_ERROR(file_.write(header.data(), header.size()));
    return file_.publish();
}

Status CacheFileView::damaged(const std::string & what) const {
    return {ErrorCode::kBadFile, "cache file '" + path_ + "' is damaged: " + what};
}

Result<std::span<const uint8_t>> CacheFileView::read(uint64_t begin, uint64_t size, std::vector<uint8_t> & room) const {
    const auto there = bytes_.subspan(static_cast<size_t>(begin), static_cast<size_t>(size));
    if (!mapped_) { return there; }
    room.resize(there.size());
    if (const Status status = mapped_->copy(static_cast<size_t>(begin), room); !status.ok()) {
        return Status(status.code(), "cache file '" + path_ + "' cannot be read: " + status.message());
    }
    return std::span<const uint8_t>(room);
}

Result<uint64_t> CacheFileView::hash_of(uint64_t begin, uint64_t size, std::vector<uint8_t> & room) const {
    constexpr uint64_t kPiece = uint64_t{4} << 20U;
    Hash64 hash;
    for (uint64_t at = 0; at < size; at += kPiece) {
        PITH_ASSIGN_OR_RETURN(const auto piece, read(begin + at, std::min(kPiece, size - at), room));
        hash.add(piece);
    }
    return hash.value();
}

void CacheFileView::let_go(std::span<const uint8_t> bytes) const {
    if (mapped_) { mapped_->drop(static_cast<size_t>(bytes.data() - bytes_.data()), bytes.size()); }
}

Result<CacheFileView> CacheFileView::parse(std::span<const uint8_t> bytes, const std::string & path,
                                           std::shared_ptr<const MappedFile> mapped) {
    using Layout = CacheFileLayout;
    CacheFileView view;
    view.mapped_ = std::move(mapped);
    view.bytes_ = bytes;
    view.path_ = path;
    std::vector<uint8_t> room;
    PITH_ASSIGN_OR_RETURN(const auto start, view.read(0, std::min<uint64_t>(bytes.size(), Layout::kHeaderBytes), room));
    if (!begins_with_magic(start)) {
        return {ErrorCode::kBadFile, "'" + path + "' is no cache file: `pith compress` and `pith run` make these"};
    }
    if (bytes.size() < Layout::kHeaderBytes) { return view.damaged("it ends in its header"); }
    Header header{};
    std::copy_n(start.begin(), header.size(), header.begin());
    ByteReader reader(std::span<const uint8_t>(header).subspan(Layout::kMagic.size()));
    const auto version = reader.number<uint32_t>();
    if (version != kCacheFileVersion) {
        return {ErrorCode::kUnsupported, "cache file '" + path + "' has version " + std::to_string(version) +
                                             " of the format, this program reads version " + std::to_string(kCacheFileVersion) +
                                             ": save it again"};
    }
    const auto n_sections = reader.number<uint32_t>();
    const auto file_size = reader.number<uint64_t>();
    if (reader.number<uint64_t>() != hash_of_header(header)) {
        return view.damaged("its header does not have the bytes it was written with");
    }
    if (file_size != bytes.size()) {
        return view.damaged("it has " + std::to_string(bytes.size()) + " bytes, and should have " + std::to_string(file_size));
    }
    if (n_sections == 0 || n_sections > Layout::kMostSections) { return view.damaged("its table of sections makes no sense"); }
    uint64_t end = Layout::kHeaderBytes;
    for (uint32_t i = 0; i < n_sections; ++i) {
        const auto name = reader.raw(CacheSection::kMostName + 1);
        CacheSection section;
        section.name.assign(name.begin(), std::ranges::find(name, uint8_t{0}));
        section.offset = reader.number<uint64_t>();
        section.size = reader.number<uint64_t>();
        section.hash = reader.number<uint64_t>();
        const uint64_t begin = end + padding_behind(end);
        if (section.offset != begin || begin > file_size || section.size > file_size - begin) {
            return view.damaged("its table of sections makes no sense");
        }
        PITH_ASSIGN_OR_RETURN(const auto between, view.read(end, begin - end, room));
        if (std::ranges::any_of(between, [](uint8_t byte) { return byte != 0; })) {
            return view.damaged("there is something in front of its section '" + section.name + "'");
        }
        PITH_ASSIGN_OR_RETURN(const uint64_t hash, view.hash_of(begin, section.size, room));
        if (hash != section.hash) {
            return view.damaged("its section '" + section.name + "' does not have the bytes it was written with");
        }
        end = begin + section.size;
        view.sections_.push_back(std::move(section));
    }
    if (end != file_size) { return view.damaged("there is something behind its last section"); }
    return view;
}

Result<std::span<const uint8_t>> CacheFileView::section(std::string_view name) const {
    const auto found = std::ranges::find(sections_, name, &CacheSection::name);
    if (found == sections_.end()) { return damaged("it has no section '" + std::string(name) + "'"); }
    return bytes_.subspan(static_cast<size_t>(found->offset), static_cast<size_t>(found->size));
}

bool CacheFileView::has(std::string_view name) const {
    return std::ranges::find(sections_, name, &CacheSection::name) != sections_.end();
}

const CacheSection & CacheFileView::entry(std::string_view name) const {
    return *std::ranges::find(sections_, name, &CacheSection::name);
}

Status check_can_save(const std::string & path) {
    PITH_RETURN_IF_ERROR(check_can_write(path));
    PITH_RETURN_IF_ERROR(NewFile::check_private(path, kBeginning));
    std::error_code error;
    const auto what = std::filesystem::status(path, error);
    if (!std::filesystem::exists(what)) { return {}; }
    if (std::filesystem::is_regular_file(what)) {
        if (std::filesystem::file_size(path, error) == 0) { return {}; }
        PITH_ASSIGN_OR_RETURN(const MappedFile there, MappedFile::open(path, "cache"));
        if (begins_with_magic(there.bytes())) { return {}; }
    }
    return {ErrorCode::kInvalidArgument, "'" + path + "' is there, and is no cache file: name another file, or remove it"};
}

Result<CacheFile> CacheFile::open(const std::string & path) {
    PITH_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::open(path, "cache", /*keeps_open=*/true));
    const auto file = std::make_shared<const MappedFile>(std::move(mapped));
    PITH_ASSIGN_OR_RETURN(CacheFileView view, CacheFileView::parse(file->bytes(), path, file));
    return CacheFile(std::move(view));
}

}  // namespace pith
