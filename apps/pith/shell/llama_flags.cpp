// llama_flags.cpp - the tables of llama.cpp's flags that Pith does not need or does not have. What it calls an option that Pith
// has, too, stands in the option's row (common/options); a flag that a command of Pith's has by the same name is not refused.
#include "app/shell/llama_flags.h"

#include <string_view>

namespace pith::app {
namespace {

// Where a row counts, and all such commands.
constexpr std::string_view kRun = "run";
constexpr std::string_view kChat = "chat";
constexpr std::string_view kServe = "serve";
constexpr std::string_view kCommands = "run chat serve compress ask";

constexpr TakenFlags kTaken[] = {
    {"-fa --flash-attn", "on auto 1 true enabled"},
    {"-co --color", "on off auto"},  // what Pith prints needs no colours to tell it apart
    {"--log-colors", "on off auto"},
    {"-sm --split-mode", "layer"},
    {"-fit --fit", "on off"},
    {"-s --seed", "-1"},  // Pith's default, too: a random one
    {"-lm --load-mode", "auto mmap"},
    {"-np --parallel", "1", kChat},
    {"-cb --cont-batching", "", kRun},
    {"-cb --cont-batching --slots --metrics --cache-prompt --prefill-assistant --webui --ui -e --escape --no-agent -no-ag "
     "--no-ui-mcp-proxy --no-webui-mcp-proxy --no-kv-unified -no-kvu",
     "", kServe},
    {"--keep", "0"},
    {"-lv --verbosity --log-verbosity", "0 1 2 3"},
    {"--jinja", ""},
    {"--mmap --no-warmup --no-perf --perf --repack --no-display-prompt --simple-io --log-disable --log-prefix --no-log-prefix "
     "--log-timestamps --no-log-timestamps --no-escape --context-shift --no-op-offload "
     "--no-host --no-mmproj --no-log-jsonl",
     ""},
    {"-st --single-turn", "", kRun},
    {"-cnv --conversation -i --interactive -if --interactive-first", "", kChat},
};

constexpr std::string_view kWholeLayers =
    "Pith places whole layers: -ngl N, --device and --tensor-split say which; leave it out";
constexpr std::string_view kOnlyTheHub = "Pith fetches from Hugging Face alone: -hf USER/REPO:QUANT, or -m FILE";
constexpr std::string_view kOneThreadCount = "-t sets the threads of everything";
constexpr std::string_view kPlacement = "Pith does not place its threads: start it with taskset, numactl or nice";
constexpr std::string_view kNoDraft = "of speculative decoding Pith has --draft-ngram N alone: use that, or leave it out";
constexpr std::string_view kRope = "Pith uses the positions that the model was trained with; leave it out";
constexpr std::string_view kTextOnly = "Pith reads text only; leave it out";
constexpr std::string_view kTalk = "`pith run` answers and ends: `pith chat` talks";
constexpr std::string_view kOrder = "Pith's samplers have one order, llama.cpp's default; leave it out";
constexpr std::string_view kMetadata = "Pith takes the model as its file says; leave it out";
constexpr RefusedFlags kRefused[] = {
    {"-sm --split-mode -mg --main-gpu -ot --override-tensor -cmoe --cpu-moe -ncmoe --n-cpu-moe --moe-cache-mib -ncffn "
     "--n-cpu-ffn --op-offload -fitt --fit-target -fitc --fit-ctx -fit --fit -bs --backend-sampling",
     kWholeLayers},
    {"-fa --flash-attn", "Pith's attention is always fused; leave it out"},
    {"-b --batch-size -ub --ubatch-size", "use --chunk N, the tokens read at once (and between two evictions)"},
    {"-mu --model-url -dr --docker-repo --gpt-oss-20b-default --gpt-oss-120b-default --vision-gemma-4b-default "
     "--vision-gemma-12b-default",
     kOnlyTheHub},
    {"-cl --cache-list", "use `pith models`"},
    {"-tb --threads-batch", kOneThreadCount},
    {"-C --cpu-mask -Cr --cpu-range --cpu-strict --prio --poll -Cb --cpu-mask-batch -Crb --cpu-range-batch --cpu-strict-batch "
     "--prio-batch --poll-batch --numa",
     kPlacement},
    {"--mlock", "Pith locks no memory: --no-mmap reads the weights into it"},
    {"-lm --load-mode -dio --direct-io -lzm --lazy-mode", "Pith maps the file, or reads it with --no-mmap"},
    {"--warmup", "Pith does not warm up; leave it out"},
    {"--keep", "use --pin-system with --system-prompt: it is never evicted"},
    {"--swa-full -dt --defrag-thold -ctxcp --ctx-checkpoints --swa-checkpoints -cram --cache-ram --kv-unified -kvu",
     "Pith's cache is its own: --budget bounds it; leave it out"},
    {"-np --parallel -cb --cont-batching", "one talks with `pith chat`: `pith run --parallel N` answers many", kChat},
    {"--no-cont-batching -nocb", "answers always share passes: --parallel 1 gives one at a time; leave it out", kServe},
    {"--no-cache-prompt", "--cache-ram 0 keeps no states; a request says \"cache_prompt\": false", kServe},
    {"--no-prefill-assistant", "a request says \"continue_final_message\": false", kServe},
    {"--cache-reuse --slot-prompt-similarity -sps --cache-idle-slots --no-cache-idle-slots",
     "any request goes on from any state that its prompt begins with; leave it out", kServe},
    {"--slot-save-path", "use --cache-dir FOLDER: what prompts have left there is found again by itself", kServe},
    {"--cors-origins", "use --cors-origin", kServe},
    {"--cors-methods --cors-headers --cors-credentials --no-cors-credentials",
     "what a page may send is fixed; --cors-origin says which page", kServe},
    {"--path --api-prefix --ui-config --ui-config-file --webui-config --webui-config-file",
     "Pith serves its own page, at /: --no-webui leaves it out, a proxy in front may serve another", kServe},
    {"--threads-http", "each connection has a thread: --max-connections bounds them", kServe},
    {"--sse-ping-interval", "streams give a sign of life every ten seconds; leave it out", kServe},
    {"--models-dir --models-preset --models-max --models-autoload --no-models-autoload --sleep-idle-seconds",
     "a server has one model, from its start to its end: start one for each, on a port of its own", kServe},
    {"--props", "what holds is said by flags when the server starts; leave it out", kServe},
    {"--reuse-port", "one process listens on a port; leave it out", kServe},
    {"--agent -ag --mcp-servers-config --mcp-servers-json --ui-mcp-proxy --webui-mcp-proxy --tools --tools-runtime",
     "Pith runs no functions: clients send them with their requests, and run what is called", kServe},
    {"--lora-init-without-apply", "an adapter holds for all requests: --lora FILE, or leave it out", kServe},
    {"--log-prompts-dir", "Pith writes no prompt to a file; leave it out", kServe},
    {"--spm-infill --fim-*", "Pith has no infill; leave it out", kServe},
    {"--lookup-cache-static -lcs --lookup-cache-dynamic -lcd", "Pith has no speculative decoding; leave it out", kServe},
    {"--embedding --embeddings --rerank --reranking --pooling", "Pith makes no embeddings; leave it out", kServe},
    {"--ssl-key-file --ssl-cert-file", "put a proxy that speaks TLS in front (docs/serving.md)", kServe},
    {"-ns --sequences", "give as many prompts, with -p or --prompts FILE: all are answered"},
    {"--no-cont-batching", "use --parallel 1, or leave it out: one answer after the other"},
    {"-bf --binary-file", "use -f FILE"},
    {"-o --output --output-file", "standard output holds the answer alone: > FILE"},
    {"--log-file", "messages go to standard error: 2> FILE"},
    {"--log-jsonl", "use --json"},
    {"-lv --verbosity --log-verbosity", "use --verbose"},
    {"--display-prompt", "standard output holds the answer alone; leave it out"},
    {"--verbose-prompt", "`pith tokenize` shows a text's tokens"},
    {"-ptc --print-token-count --show-timings", "the ledger counts tokens and times on standard error, or use --json"},
    {"-sp --special", "Pith leaves special tokens out of an answer; `--json` has all tokens' ids"},
    {"--prompt-cache --prompt-cache-all --prompt-cache-ro",
     "give several questions with -p: they share one reading of the text; --save-cache and --cache keep it in a file"},
    {"-cnv --conversation -i --interactive -if --interactive-first -ins --instruct -mli --multiline-input --in-prefix "
     "--in-prefix-bos --in-suffix",
     kTalk, kRun},
    {"-no-cnv --no-conversation -st --single-turn -p --prompt -f --file", "`pith chat` talks: `pith run` answers and ends",
     kChat},
    {"-ins --instruct -mli --multiline-input --in-prefix-bos",
     "end a line in \\ to go on in the next; the template says what stands around a message", kChat},
    {"-gan --grp-attn-n -gaw --grp-attn-w --rope-scaling --rope-scale --rope-freq-base --rope-freq-scale --yarn-orig-ctx "
     "--yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast",
     kRope},
    {"--override-kv --check-tensors", kMetadata},
    {"--lora-scaled", "use --lora FILE --lora-scale NUMBER"},
    {"--control-vector --control-vector-scaled --control-vector-layer-range", "Pith has no control vectors; leave it out"},
    {"--samplers --sampler-seq --sampling-seq", kOrder},
    {"--adaptive-target --adaptive-decay", "Pith does not have this sampler; leave it out"},
    {"--no-jinja", "use --chat-template NAME for libllama's own text of a template it knows"},
    {"--skip-chat-parsing --no-skip-chat-parsing", "use --reasoning-format none, or leave it out"},
    {"--reasoning-effort --reasoning-budget --reasoning-budget-message --reasoning-preserve --no-reasoning-preserve",
     "use --reasoning on|off, or --chat-template-kwargs for what the template reads"},
    {"-mm --mmproj -mmu --mmproj-url --mmproj-auto --mmproj-offload -mmdev --mmproj-device --image --audio --video "
     "--image-min-tokens --image-max-tokens",
     kTextOnly},
    {"-md --model-draft -hfd -hfrd --hf-repo-draft -td --threads-draft -tbd --threads-batch-draft -ngld --gpu-layers-draft "
     "--n-gpu-layers-draft -devd --device-draft -otd --override-tensor-draft -cmoed --cpu-moe-draft -ncmoed --n-cpu-moe-draft "
     "-ctkd --cache-type-k-draft -ctvd --cache-type-v-draft --draft-min --draft-n-min "
     "--draft-p-min --draft-p-split --spec-*",
     kNoDraft},
};

}  // namespace

LlamaFlags llama_flags() {
    return {kCommands, kTaken, kRefused};
}

}  // namespace pith::app
