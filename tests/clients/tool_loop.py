#!/usr/bin/env python3
"""Question, call, result, answer: the loop that agents make, with the clients of PyPI against `pith serve` on a real model.

  tool_loop.py URL [CLIENT…]      openai, anthropic, litellm, openai-agents; none named: all

The prompts and functions of tool_loop.json, temperature 0, tool_choice auto. Beside each first answer stands the text that the model
writes to the same prompt when nobody reads calls out of it (/apply-template, then /v1/completions); calls are looked for in it in the
simplest way. Where it holds calls to functions that there are, the client must have been told these, and else none. Nothing of a call
may be left in what is said, every loop must end in words, and at least seven of ten prompts must hold a call, or nothing was tried.
openai and openai-agents ask for whole answers, anthropic and litellm for streams. A line per client and prompt; exit 1: something failed.
"""
import asyncio
import json
import os
import pathlib
import sys
import urllib.request

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no network but the server's
os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

import agents  # noqa: E402
import anthropic  # noqa: E402
import litellm  # noqa: E402
import openai  # noqa: E402

litellm.suppress_debug_info = True

DATA = json.loads((pathlib.Path(__file__).parent / "tool_loop.json").read_text())
RESULTS = {tool["function"]["name"]: json.dumps(tool["result"]) for tool in DATA["tools"]}
SCHEMAS = [tool["function"]["parameters"] for tool in DATA["tools"]]
TOOLS = [{"type": "function", "function": tool["function"]} for tool in DATA["tools"]]
MOST_TOKENS = 250
MOST_TURNS = 3
FEWEST_CALLS = 7
MODEL = "the-model"
KEY = "none"


class Loop:
    """What one conversation came to."""

    def __init__(self):
        self.calls = []  # of the first answer: (name, arguments)
        self.said = ""  # beside them
        self.answer = ""
        self.n_turns = 0
        self.body = None  # of the first request

    def saw(self, request):
        if self.body is None:
            self.body = json.loads(request.content)

    def turn(self, calls, said):
        if self.n_turns == 0:
            self.calls, self.said = calls, said
        self.n_turns += 1
        self.answer = said
        return bool(calls) and self.n_turns < MOST_TURNS


def system_of(prompt):
    """Without DATA's system prompt, Qwen2.5-Coder-1.5B calls the same function again when it has been told the result."""
    return " ".join([DATA["system"], prompt.get("system", "")]).strip()


def messages_of(prompt):
    return [{"role": "system", "content": system_of(prompt)}, {"role": "user", "content": prompt["user"]}]


def openai_client(url, loop):
    return openai.OpenAI(base_url=url + "/v1", api_key=KEY, max_retries=0, timeout=600,
                         http_client=openai.DefaultHttpxClient(event_hooks={"request": [loop.saw]}))


def by_completions(prompt, loop, create):
    """The loop with OpenAI's chat completions; create(messages) gives the answer's message."""
    messages = messages_of(prompt)
    while True:
        message = create(messages)
        calls = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or []]
        if not loop.turn(calls, message.content or ""):
            return
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": RESULTS[call.function.name]})


def with_openai(url, prompt, loop):
    client = openai_client(url, loop)
    by_completions(prompt, loop, lambda messages: client.chat.completions.create(
        model=MODEL, messages=messages, tools=TOOLS, tool_choice="auto", temperature=0, max_tokens=MOST_TOKENS).choices[0].message)


def with_litellm(url, prompt, loop):
    client = openai_client(url, loop)

    def create(messages):
        chunks = list(litellm.completion(model="openai/" + MODEL, client=client, api_base=url + "/v1", api_key=KEY, messages=messages, tools=TOOLS,
                                         tool_choice="auto", temperature=0, max_tokens=MOST_TOKENS, stream=True))
        return litellm.stream_chunk_builder(chunks, messages=messages).choices[0].message

    by_completions(prompt, loop, create)


def with_anthropic(url, prompt, loop):
    client = anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0, timeout=600,
                                 http_client=anthropic.DefaultHttpxClient(event_hooks={"request": [loop.saw]}))
    tools = [{"name": tool["function"]["name"], "description": tool["function"]["description"],
              "input_schema": tool["function"]["parameters"]} for tool in TOOLS]
    messages = [{"role": "user", "content": prompt["user"]}]
    while True:
        with client.messages.stream(model=MODEL, max_tokens=MOST_TOKENS, messages=messages, tools=tools, tool_choice={"type": "auto"},
                                    system=system_of(prompt), extra_body={"temperature": 0}) as stream:
            message = stream.get_final_message()
        calls = [block for block in message.content if block.type == "tool_use"]
        said = "".join(block.text for block in message.content if block.type == "text")
        if not loop.turn([(call.name, call.input) for call in calls], said):
            return
        assert message.stop_reason == "tool_use", message.stop_reason
        messages.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in message.content]})
        messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": RESULTS[call.name]}
                                                     for call in calls]})


def with_openai_agents(url, prompt, loop):
    async def saw(request):
        loop.saw(request)

    def tool(function):
        async def invoke(_context, _arguments):
            return RESULTS[function["name"]]
        return agents.FunctionTool(name=function["name"], description=function["description"], params_json_schema=function["parameters"],
                                   on_invoke_tool=invoke, strict_json_schema=False)

    async def run():
        client = openai.AsyncOpenAI(base_url=url + "/v1", api_key=KEY, max_retries=0, timeout=600,
                                    http_client=openai.DefaultAsyncHttpxClient(event_hooks={"request": [saw]}))
        agent = agents.Agent(name="agent", instructions=system_of(prompt), tools=[tool(one["function"]) for one in TOOLS],
                             model=agents.OpenAIChatCompletionsModel(model=MODEL, openai_client=client),
                             model_settings=agents.ModelSettings(temperature=0, tool_choice="auto", max_tokens=MOST_TOKENS))
        return await agents.Runner.run(agent, prompt["user"], max_turns=MOST_TURNS)

    result = asyncio.run(run())
    for response in result.raw_responses:
        calls = [(item.name, json.loads(item.arguments)) for item in response.output if item.type == "function_call"]
        said = "".join(part.text for item in response.output if item.type == "message" for part in item.content)
        loop.turn(calls, said)


CLIENTS = {"openai": with_openai, "anthropic": with_anthropic, "litellm": with_litellm, "openai-agents": with_openai_agents}


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=600))


def raw_text(url, body, known):
    """What the model writes where the client's first request is asked as a bare text. known: of prompts that were asked before."""
    tools = [tool if "function" in tool else {"type": "function", "function": {
        "name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}} for tool in body["tools"]]
    messages = body["messages"]
    if "system" in body:  # Anthropic's
        messages = [{"role": "system", "content": body["system"]}] + messages
    prompt = post(url + "/apply-template", {"messages": messages, "tools": tools})["prompt"]
    if prompt not in known:
        asked = {"prompt": prompt, "temperature": 0, "max_tokens": MOST_TOKENS}
        known[prompt] = post(url + "/v1/completions", asked)["choices"][0]["text"]
    return known[prompt]


def calls_in(text):
    """Every JSON object in it that names a function and has an object of arguments: one that repeats what the function takes, as the
    prompt tells it, is no call."""
    decoder = json.JSONDecoder()
    calls = []
    at = text.find("{")
    while at >= 0:
        end = at + 1
        try:
            value, past = decoder.raw_decode(text, at)
        except ValueError:
            value = None
        if isinstance(value, dict) and value.get("name") in RESULTS:
            arguments = value.get("arguments", value.get("parameters"))
            if isinstance(arguments, dict) and arguments not in SCHEMAS:
                calls.append((value["name"], arguments))
                end = past
        at = text.find("{", end)
    return calls


def shown(calls):
    return ", ".join(f"{name}({json.dumps(arguments)})" for name, arguments in calls) or "no call"


def main():
    if len(sys.argv) < 2 or any(name not in CLIENTS for name in sys.argv[2:]):
        sys.exit(f"usage: tool_loop.py URL [{'|'.join(CLIENTS)}]…")
    url = sys.argv[1].rstrip("/")
    known = {}
    n_failed = 0
    for name in sys.argv[2:] or CLIENTS:
        n_hold = n_told = 0
        for i, prompt in enumerate(DATA["prompts"], 1):
            loop = Loop()
            problems = []
            try:
                CLIENTS[name](url, prompt, loop)
            except Exception as error:  # the client's own complaint is the finding
                problems.append(f"{type(error).__name__}: {error}")
            raw = raw_text(url, loop.body, known) if loop.body else ""
            wanted = calls_in(raw)
            n_hold += bool(wanted)
            n_told += bool(loop.calls)
            if loop.calls != wanted:
                problems.append(f"the text holds {shown(wanted)}")
            if calls_in(loop.said):
                problems.append(f"a call is said: {loop.said!r}")
            if not wanted and loop.said != raw:
                problems.append(f"said is {loop.said!r}")
            if not loop.answer.strip():
                problems.append("no answer")
            n_failed += bool(problems)
            said = f", says {loop.said!r}" if loop.calls and loop.said else ""
            print(f"{name:13} {i:2}  {'FAILED' if problems else 'ok':6} {prompt['user']!r}: {shown(loop.calls)}{said} -> {' '.join(loop.answer.split())[:120]!r}",
                  *problems, sep="\n               ", flush=True)
            if problems:
                print(f"               the model writes {raw!r}", flush=True)
        n_failed += n_hold < FEWEST_CALLS
        print(f"{name:13} {n_told} of {len(DATA['prompts'])} answers call a function, {n_hold} texts hold a call", flush=True)
    sys.exit(1 if n_failed else 0)


if __name__ == "__main__":
    main()
