"""mistral.rs or OpenVINO GenAI in a process of its own, for scripts/measure_peers: reads one prompt, generates behind it, says how long both took.

  peer_child.py mistral.rs|openvino --packages FOLDER --model FILE --text FILE --prompt N --generate N --threads N

The packages are what `pip install --target FOLDER` put there. The prompt is ordinary text, cut so that the program's own tokeniser counts
exactly N tokens. A line of JSON says "ready" when the model is loaded and 128 other tokens have been read (as scripts/measure_peers lets
the others do); a line on standard input starts what is timed, and a second line of JSON has the result. Nothing that was read earlier is
reused. The first token comes with the prompt: of N generated tokens N - 1 are timed.
"""
import argparse
import importlib.metadata
import json
import os
import pathlib
import sys

N_WARM_UP = 128  # tokens


class MistralRs:
    PACKAGE = "mistralrs"

    def __init__(self, options):
        os.environ["RAYON_NUM_THREADS"] = str(options.threads)
        import mistralrs

        self.module = mistralrs
        file = pathlib.Path(options.model).resolve()
        which = mistralrs.Which.GGUF(quantized_model_id=str(file.parent), quantized_filename=file.name)
        self.runner = mistralrs.Runner(which, max_seqs=1, prefix_cache_n=0, token_source="none")

    def count(self, text):
        return len(self.runner.tokenize_text(text, False, None))

    def prompt(self, text, n):
        """A text of n tokens: cut in tokens, and again where the cut's ends melt together or fall apart."""
        ids = self.runner.tokenize_text(text, False, None)
        for at in range(len(ids) - n + 1):
            cut = self.runner.detokenize_text(ids[at:at + n], False)
            if self.count(cut) == n:
                return cut
        raise SystemExit(f"no {n} tokens of the text stay {n} when they are read again")

    def generate(self, prompt, n):
        request = self.module.CompletionRequest(prompt=prompt, model="default", max_tokens=n, temperature=0.0, top_k=1, ignore_eos=True)
        usage = self.runner.send_completion_request(request).usage
        return {"n_prompt": usage.prompt_tokens, "n_generated": usage.completion_tokens, "prompt_s": usage.total_prompt_time_sec,
                "generate_s": usage.total_completion_time_sec}

    def isa(self):
        return "instructions chosen at run time"


class OpenVino:
    PACKAGE = "openvino-genai"

    def __init__(self, options):
        import numpy
        import openvino
        import openvino_genai

        self.numpy, self.openvino, self.genai = numpy, openvino, openvino_genai
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.enable_prefix_caching = False
        scheduler.max_num_batched_tokens = 1 << 20  # the prompt as a whole: what LLMPipeline takes where it is given no scheduler
        self.pipeline = openvino_genai.LLMPipeline(options.model, "CPU", scheduler_config=scheduler, INFERENCE_NUM_THREADS=options.threads)
        self.tokenizer = self.pipeline.get_tokenizer()

    def prompt(self, text, n):
        ids, step = [], 16384  # characters: the tokenizer cuts a text after 8,192 tokens
        for at in range(0, len(text), step):
            ids.extend(self.tokenizer.encode(text[at:at + step], add_special_tokens=False).input_ids.data[0])
            if len(ids) >= n:
                break
        return ids[:n]

    def generate(self, prompt, n):
        ids = self.numpy.array([prompt], dtype=self.numpy.int64)
        inputs = self.genai.TokenizedInputs(self.openvino.Tensor(ids), self.openvino.Tensor(self.numpy.ones_like(ids)))
        config = self.genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = n, True, False
        metrics = self.pipeline.generate(inputs, config).perf_metrics
        made = metrics.get_num_generated_tokens()
        return {"n_prompt": metrics.get_num_input_tokens(), "n_generated": made, "prompt_s": metrics.get_ttft().mean / 1000,
                "generate_s": metrics.get_tpot().mean * (made - 1) / 1000}

    def isa(self):
        can = self.openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        return f"instructions chosen at run time, {' '.join(sorted(set(can) & {'BF16', 'FP16', 'FP32', 'INT8'}))}"


PROGRAMS = {"mistral.rs": MistralRs, "openvino": OpenVino}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--packages", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--prompt", type=int, required=True)
    parser.add_argument("--generate", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    # What these packages print goes to standard error: standard output has the two lines alone.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.path.insert(0, options.packages)

    def say(what):
        out.write(json.dumps(what) + "\n")
        out.flush()

    program = PROGRAMS[options.program](options)
    text = pathlib.Path(options.text).read_text()
    prompt = program.prompt(text, options.prompt)
    program.generate(program.prompt(text[-20000:], N_WARM_UP), 2)
    say({"ready": True, "version": importlib.metadata.version(program.PACKAGE), "isa": program.isa()})
    sys.stdin.readline()
    result = program.generate(prompt, options.generate)
    if result["n_prompt"] != options.prompt or result["n_generated"] != options.generate:
        raise SystemExit(f"{result['n_prompt']} tokens were read and {result['n_generated']} generated, not {options.prompt} and {options.generate}")
    say(result)


if __name__ == "__main__":
    main()
