#!/usr/bin/env python3
"""What PyPI's `openai`, `openai-agents` and `anthropic` read of `pith serve` on a real model: responses, structured answers, tools, errors.

  interfaces.py URL [WORD…]      only the checks whose names hold one of the words

A line per check; exit 1: something failed.
"""
import asyncio
import json
import os
import sys
from typing import Literal

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"  # no network but the server's

import agents  # noqa: E402
import anthropic  # noqa: E402
import openai  # noqa: E402
from pydantic import BaseModel, Field  # noqa: E402

MODEL = "the-model"
MOST_TOKENS = 200
WEATHER = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}}, "required": ["city"], "additionalProperties": False}
TOOL = {"type": "function", "name": "get_weather", "description": "Get the current weather in a city", "parameters": WEATHER, "strict": True}
ASKED = "What is the weather in Paris?"
FORCED = {"type": "function", "name": "get_weather"}


class City(BaseModel):
    name: str = Field(max_length=20)
    country: Literal["France", "Italy"]


def client(url):
    return openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0, timeout=600)


def ask(url, **more):
    return client(url).responses.create(model=MODEL, temperature=0, max_output_tokens=MOST_TOKENS, **more)


def responses_create(url):
    reply = ask(url, instructions="Answer in one word.", input="What is the capital of France?", store=False)
    assert reply.status == "completed", reply
    assert "Paris" in reply.output_text, reply.output_text
    assert reply.usage.total_tokens == reply.usage.input_tokens + reply.usage.output_tokens > 0
    assert reply.usage.input_tokens_details.cached_tokens >= 0 and reply.usage.output_tokens_details.reasoning_tokens == 0


def responses_go_on(url):
    first = ask(url, input="Remember the word 'lantern'. Answer: ok.")
    asked = [{"role": "user", "content": "Remember the word 'lantern'. Answer: ok."}, *[item.model_dump() for item in first.output],
             {"role": "user", "content": "Which word should you remember?"}]
    assert "lantern" in ask(url, input=asked).output_text.lower()


def responses_stream(url):
    text, kinds = "", []
    with client(url).responses.stream(model=MODEL, temperature=0, max_output_tokens=MOST_TOKENS, input="Count from 1 to 5.") as stream:
        for event in stream:
            kinds.append(event.type)
            if event.type == "response.output_text.delta":
                text += event.delta
        final = stream.get_final_response()
    assert final.output_text == text and "5" in text, (text, final)
    assert kinds[:2] == ["response.created", "response.in_progress"] and kinds[-1] == "response.completed", kinds
    assert final.output_text == ask(url, input="Count from 1 to 5.").output_text


def responses_parse(url):
    reply = client(url).responses.parse(model=MODEL, temperature=0, max_output_tokens=MOST_TOKENS, text_format=City,
                                        input="Which city is the capital of France?")
    assert reply.output_parsed == City(name="Paris", country="France"), reply.output_text


def responses_parse_streamed(url):
    with client(url).responses.stream(model=MODEL, temperature=0, max_output_tokens=MOST_TOKENS, text_format=City,
                                      input="Which city is the capital of France?") as stream:
        assert stream.get_final_response().output_parsed == City(name="Paris", country="France")


def responses_tools(url):
    reply = ask(url, input=ASKED, tools=[TOOL, {"type": "web_search"}], tool_choice=FORCED)
    (call,) = [item for item in reply.output if item.type == "function_call"]
    assert call.name == "get_weather" and json.loads(call.arguments) == {"city": "Paris"}, call
    asked = [{"role": "user", "content": ASKED}, *[item.model_dump() for item in reply.output],
             {"type": "function_call_output", "call_id": call.call_id, "output": json.dumps({"temperature_celsius": 31, "sky": "clear"})}]
    answer = ask(url, instructions="Answer the question in a sentence, from the function's result.", input=asked, tools=[TOOL])
    assert "31" in answer.output_text, answer.output


def responses_tools_streamed(url):
    arguments, done = "", None
    with client(url).responses.stream(model=MODEL, temperature=0, max_output_tokens=MOST_TOKENS, input=ASKED, tools=[TOOL],
                                      tool_choice=FORCED) as stream:
        for event in stream:
            if event.type == "response.function_call_arguments.delta":
                arguments += event.delta
            if event.type == "response.output_item.done":
                done = event.item
        final = stream.get_final_response()
    assert json.loads(arguments) == {"city": "Paris"} and done.arguments == arguments, (arguments, done)
    assert final.output[-1].call_id == done.call_id, final.output


def responses_custom_tools(url):
    tool = {"type": "custom", "name": "run_shell", "description": "Runs one shell command"}
    reply = ask(url, input="List the files of this folder with the shell.", tools=[tool], tool_choice={"type": "custom", "name": "run_shell"})
    (call,) = [item for item in reply.output if item.type == "custom_tool_call"]
    assert call.name == "run_shell" and "ls" in call.input and "{" not in call.input, call


def responses_incomplete(url):
    reply = client(url).responses.create(model=MODEL, input="Tell me a long story.", max_output_tokens=4)
    assert reply.status == "incomplete" and reply.incomplete_details.reason == "max_output_tokens", reply
    assert reply.usage.output_tokens == 4


def responses_count(url):
    counted = client(url).responses.input_tokens.count(model=MODEL, input=ASKED, tools=[TOOL])
    assert counted.input_tokens == ask(url, input=ASKED, tools=[TOOL]).usage.input_tokens


def responses_errors(url):
    for more, word in (({"input": "x", "previous_response_id": "resp_1"}, "previous_response_id"),
                       ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:,", "detail": "auto"}]}]}, "text only"),
                       ({"input": "word " * 9000}, "exceeds the available context size")):
        try:
            ask(url, **more)
        except openai.BadRequestError as error:
            assert word in str(error), error
        else:
            raise AssertionError(f"{word}: no error")
    # Agents know this error in a stream.
    events = list(client(url).responses.create(model=MODEL, input="word " * 9000, stream=True))
    assert events[-1].type == "response.failed" and events[-1].response.error.code == "context_length_exceeded", events[-1]


def responses_agents(url):
    """openai-agents speaks responses unless it is told otherwise."""
    asked = []

    @agents.function_tool
    def get_weather(city: str) -> str:
        """Get the current weather in a city"""
        asked.append(city)
        return json.dumps({"temperature_celsius": 31, "sky": "clear"})

    async def run(streamed):
        connection = openai.AsyncOpenAI(base_url=url + "/v1", api_key="none", max_retries=0, timeout=600)
        agent = agents.Agent(name="agent", instructions="Call the function once, and then answer the question in a sentence, from its result.",
                             tools=[get_weather], model=agents.OpenAIResponsesModel(model=MODEL, openai_client=connection),
                             model_settings=agents.ModelSettings(temperature=0, max_tokens=MOST_TOKENS))
        if not streamed:
            return await agents.Runner.run(agent, ASKED, max_turns=3)
        result = agents.Runner.run_streamed(agent, ASKED, max_turns=3)
        async for _ in result.stream_events():
            pass
        return result

    for streamed in (False, True):
        asked.clear()
        answer = asyncio.run(run(streamed)).final_output
        assert asked and "Paris" in asked[0] and "31" in answer, (streamed, asked, answer)


def chat_allowed_tools(url):
    tools = [{"type": "function", "function": {"name": name, "parameters": WEATHER}} for name in ("get_weather", "get_news")]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "get_news"}}]}}
    reply = client(url).chat.completions.create(model=MODEL, temperature=0, max_tokens=MOST_TOKENS, tools=tools, tool_choice=choice,
                                                messages=[{"role": "user", "content": ASKED}])
    assert reply.choices[0].message.tool_calls[0].function.name == "get_news", reply


def claude(url):
    return anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=600)


def messages_parse(url):
    reply = claude(url).messages.parse(model=MODEL, max_tokens=MOST_TOKENS, output_format=City, extra_body={"temperature": 0},
                                       messages=[{"role": "user", "content": "Which city is the capital of France?"}])
    assert reply.parsed_output == City(name="Paris", country="France"), reply


def messages_tool_runner(url):
    """The runner asks the server to keep the conversation first; told that it does not, it sends all of it."""
    asked = []

    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Get the current weather in a city.

        Args:
            city: Name of the city
        """
        asked.append(city)
        return json.dumps({"temperature_celsius": 31, "sky": "clear"})

    runner = claude(url).beta.messages.tool_runner(
        model=MODEL, max_tokens=MOST_TOKENS, tools=[get_weather], messages=[{"role": "user", "content": ASKED}], max_iterations=3,
        extra_body={"temperature": 0},
        system="Call the function once, and then answer the question in a sentence, from its result.")
    last = runner.until_done()
    assert asked and "Paris" in asked[0], asked
    assert "31" in "".join(block.text for block in last.content if block.type == "text"), last


def messages_errors(url):
    for more, word in (({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}, "context_management"),
                       ({"mcp_servers": [{"type": "url", "url": "https://example.com", "name": "x"}]}, "mcp_servers")):
        try:
            claude(url).messages.create(model=MODEL, max_tokens=5, messages=[{"role": "user", "content": "x"}], extra_body=more)
        except anthropic.BadRequestError as error:
            assert word in str(error), error
        else:
            raise AssertionError(f"{word}: no error")


def models_of_both(url):
    ours = client(url).models.list().data[0]
    theirs = claude(url).models.list().data[0]
    assert ours.id == theirs.id == theirs.display_name, (ours, theirs)
    assert theirs.created_at.year > 2000 and claude(url).models.retrieve(ours.id).max_input_tokens == 4096


CHECKS = [value for name, value in list(globals().items()) if name.startswith(("responses_", "chat_", "messages_", "models_"))]


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: interfaces.py URL [WORD…]")
    url = sys.argv[1].rstrip("/")
    n_failed = 0
    for check in CHECKS:
        if sys.argv[2:] and not any(word in check.__name__ for word in sys.argv[2:]):
            continue
        try:
            check(url)
            print(f"ok      {check.__name__}", flush=True)
        except Exception as error:  # the client's own complaint is the finding
            n_failed += 1
            print(f"FAILED  {check.__name__}: {type(error).__name__}: {error}", flush=True)
    sys.exit(1 if n_failed else 0)


if __name__ == "__main__":
    main()
