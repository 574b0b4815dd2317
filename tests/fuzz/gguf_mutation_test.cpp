// gguf_mutation_test.cpp - thousands of GGUF files with something wrong in them: each is read, or refused by one clear line;
// none ends the process, takes longer than five seconds, or asks for memory because a number in it says so. Every file is read
// in a process of its own group of fifty: what ends it is told with the file's seed, and the rest goes on.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>

#include "fuzz/gguf_mutation.h"
#include "fuzz/read_gguf.h"
#include "model/architectures.h"
#include "model/gguf_edit.h"
#include "model/random/random_model.h"

namespace {

size_t largest_request = 0;  // bytes asked of operator new at once, in this process

void * allocate(size_t size) {
    if (size > largest_request) { largest_request = size; }
    void * memory = std::malloc(size == 0 ? 1 : size);
    if (memory == nullptr) { throw std::bad_alloc(); }
    return memory;
}

}  // namespace

void * operator new(size_t size) {
    return allocate(size);
}
void * operator new[](size_t size) {
    return allocate(size);
}
void operator delete(void * memory) noexcept {
    std::free(memory);
}
void operator delete[](void * memory) noexcept {
    std::free(memory);
}
void operator delete(void * memory, size_t) noexcept {
    std::free(memory);
}
void operator delete[](void * memory, size_t) noexcept {
    std::free(memory);
}

namespace pith::gguf_mutation_test {
namespace {

using testing::find_marks;
using testing::MarkedFile;
using testing::mutate;
using testing::Mutation;

constexpr int kFilesAProcess = 50;
constexpr size_t kMostAtOnce = size_t{64} << 20U;  // bytes; a file has at most 8 MiB
constexpr size_t kMostMemory = size_t{2} << 30U;   // address space beyond what was mapped before
constexpr int kSecondsAFile = 5;

int n_files() {
    const char * text = std::getenv("PITH_MUTATIONS");
    return text == nullptr ? 2000 : std::atoi(text);
}

struct Base {
    std::string name;
    RandomModelSpec spec;
    std::function<void(gguf_context *)> edit = {};  // of the metadata, behind what the spec says
};

std::ostream & operator<<(std::ostream & out, const Base & base) {
    return out << base.name;
}

std::vector<Base> bases() {
    std::vector<Base> all;
    const auto add = [&](const std::string & name, const std::function<void(RandomModelSpec &)> & change) {
        RandomModelSpec spec;
        spec.n_embd = 32;
        spec.n_ff = 64;
        spec.head_dim = 8;
        spec.n_vocab = 384;
        spec.n_ctx_train = 128;
        change(spec);
        all.push_back({name, spec});
    };
    const auto set_states = [](RandomModelSpec & s, uint32_t inner, uint32_t rank) {
        s.keys = {{"ssm.conv_kernel", 4U},
                  {"ssm.state_size", 16U},
                  {"ssm.group_count", 2U},
                  {"ssm.inner_size", inner},
                  {"ssm.time_step_rank", rank}};
    };
    const RandomKey every_other{"attention.head_count_kv", RandomList<int32_t>{{0, 2}}};
    add("Llama", [](auto &) {});
    add("Quantised", [](auto & s) { s.n_embd = s.n_ff = 64, s.head_dim = 16, s.weight_type = "q4_0"; });
    add("Experts", [](auto & s) { testing::set_experts(s, "qwen3moe"), s.n_ff_expert = 32; });
    add("LongRope", [](auto & s) { s.arch = "phi3"; });
    add("Windows", [](auto & s) { s.arch = "gemma3", s.n_layers = 6, s.window = 16; });
    add("Sinks", [](auto & s) { testing::set_experts(s, "gpt-oss"), s.n_ff_expert = 32, s.window = 16; });
    add("Split", [](auto & s) { s.n_splits = 2; });
    add("Mamba", [&](auto & s) { s.arch = "granitehybrid", set_states(s, 64, 4), s.keys.push_back(every_other); });
    add("DeltaNet", [&](auto & s) {
        s.arch = "qwen35";
        set_states(s, 64, 4);
        s.keys.emplace_back("full_attention_interval", 2U);
        s.keys.emplace_back("rope.dimension_sections", std::vector<int32_t>{2, 1, 1, 0});
    });
    add("ShortConvolution", [&](auto & s) { s.arch = "lfm2", s.keys = {{"shortconv.l_cache", 3U}, every_other}; });
    add("UnlikeHeads", [](auto & s) {
        s.arch = "gemma4";
        s.n_layers = 6;
        s.window = 16;
        s.keys = {{"attention.sliding_window_pattern", RandomList<bool>{{true, true, false}}},
                  {"attention.head_count_kv", RandomList<int32_t>{{4, 4, 2}}},
                  {"attention.key_length_swa", 4U},
                  {"attention.value_length_swa", 4U},
                  {"attention.shared_kv_layers", 3U}};
    });
    add("Chunks", [](auto & s) {
        testing::set_experts(s, "llama4");
        s.n_layers = 4;
        s.n_experts_used = 1;
        s.n_ff_expert = 32;
        s.keys = {{"interleave_moe_layer_step", 2U}};
    });
    add("Sections", [](auto & s) {
        s.arch = "qwen3vl", s.keys = {{"rope.dimension_sections", std::vector<int32_t>{2, 1, 1, 0}}};
    });
    add("Merges", [](auto & s) { s.arch = "qwen3"; });
    all.back().edit = [](gguf_context * gguf) {
        const char * merges[] = {"t h", "th e", "i n", "e r", "\xC4\xA0 t"};
        const std::vector<int32_t> types(384, 1);
        gguf_set_val_str(gguf, "tokenizer.ggml.model", "gpt2");
        gguf_set_val_str(gguf, "tokenizer.ggml.pre", "qwen2");
        gguf_set_arr_str(gguf, "tokenizer.ggml.merges", merges, std::size(merges));
        gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), types.size());
        gguf_remove_key(gguf, "tokenizer.ggml.scores");
    };
    return all;
}

// What the child leaves for the parent, also when it is killed.
struct Report {
    int at = 0;  // the file that is being read
    size_t largest = 0;
    bool has_fault = false;
    char fault[4096] = {};
};

class GgufMutations : public ::testing::TestWithParam<Base> {
protected:
    void SetUp() override {
        const std::string path = folder_.file("good.gguf");
        const Status written = write_random_model(GetParam().spec, path);
        ASSERT_TRUE(written.ok()) << written.message();
        if (GetParam().edit) {
            const std::string plain = folder_.file("plain.gguf");
            std::filesystem::rename(path, plain);
            ASSERT_TRUE(testing::edit_gguf(plain, path, {GetParam().edit, {}}));
        }
        path_ = random_model_files(GetParam().spec, path).back();  // of a split model the last part, read through the first
        first_ = random_model_files(GetParam().spec, path).front();
        const std::vector<char> bytes = testing::read_file(path_);
        good_.bytes.assign(bytes.begin(), bytes.end());
        good_.marks = find_marks(good_.bytes);
        report_ =
            static_cast<Report *>(mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
        ASSERT_NE(report_, MAP_FAILED);
    }
    void TearDown() override { munmap(report_, sizeof(Report)); }

    void write(const std::vector<uint8_t> & bytes) const { testing::write_file(path_, {bytes.begin(), bytes.end()}); }

    [[noreturn]] void read_some(int begin, int end) {
        rlimit limit{};
        getrlimit(RLIMIT_AS, &limit);
        limit.rlim_cur = mapped_bytes() + kMostMemory;
        setrlimit(RLIMIT_AS, &limit);
        const rlimit no_core{0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        for (int i = begin; i < end; ++i) {
            report_->at = i;
            write(mutate(good_, static_cast<uint64_t>(i)).bytes);
            alarm(kSecondsAFile);
            largest_request = 0;
            // Which part names the others is the reader's business: both are handed in.
            std::string fault = testing::read_gguf(path_);
            if (first_ != path_) { fault += testing::read_gguf(first_); }
            report_->largest = largest_request;
            alarm(0);
            if (!fault.empty() || report_->largest > kMostAtOnce) {
                report_->has_fault = true;
                fault.copy(report_->fault, sizeof(report_->fault) - 1);
                break;
            }
        }
        _exit(0);
    }

    static size_t mapped_bytes() {
        size_t pages = 0;
        std::ifstream("/proc/self/statm") >> pages;
        return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
    }

    // The file after the last one that was read without fault or with one that has been told.
    int read_in_a_process(int begin, int end) {
        *report_ = {};
        const pid_t child = fork();
        if (child == 0) { read_some(begin, end); }
        int status = 0;
        waitpid(child, &status, 0);
        const int at = report_->at;
        const std::string which = "file " + std::to_string(at) + " (" + mutate(good_, static_cast<uint64_t>(at)).what + "): ";
        if (WIFSIGNALED(status)) {
            const int signal = WTERMSIG(status);
            ADD_FAILURE() << which << (signal == SIGALRM ? "no end after five seconds" : strsignal(signal));
            return at + 1;
        }
        if (report_->has_fault) {
            ADD_FAILURE() << which << report_->fault << " (at most " << report_->largest << " bytes asked for at once)";
            return at + 1;
        }
        EXPECT_EQ(WEXITSTATUS(status), 0) << which;
        return WEXITSTATUS(status) == 0 ? end : at + 1;
    }

    testing::TempFolder folder_;
    std::string path_;
    std::string first_;
    MarkedFile good_;
    Report * report_ = nullptr;
};

TEST_P(GgufMutations, AreReadOrRefusedByOneClearLine) {
    const int n = n_files() / static_cast<int>(bases().size());
    int n_faults = 0;
    for (int i = 0; i < n && n_faults < 20;) {
        const int next = read_in_a_process(i, std::min(n, i + kFilesAProcess));
        n_faults += HasFailure() && next != std::min(n, i + kFilesAProcess) ? 1 : 0;
        i = next;
    }
}

TEST_P(GgufMutations, ReadTheGoodFileItself) {
    EXPECT_EQ(testing::read_gguf(first_), "");
    EXPECT_GT(good_.marks.entries.size(), 2U);
    EXPECT_GT(good_.marks.tensors.size(), 5U);
}

std::string name_of(const ::testing::TestParamInfo<Base> & info) {
    return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Of, GgufMutations, ::testing::ValuesIn(bases()), name_of);

}  // namespace
}  // namespace pith::gguf_mutation_test
