#!/usr/bin/env python3
"""What PyPI's `openai`, `anthropic`, `litellm`, `langchain-openai` and `openai-agents` read of `pith serve` on a real model: answers, streams,
structured answers, tools, errors.

  interfaces.py URL [--seconds N] [WORD…]      only the checks whose names hold one of the words

With --seconds checks that have not begun after so many are named and left out. A line per check; exit 1: something failed.
"""
import asyncio
import itertools
import json
import os
import sys
import time
from typing import Literal

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"  # no network but the server's
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["LANGCHAIN_TRACING_V2"] = "false"

import agents  # noqa: E402
import anthropic  # noqa: E402
import litellm  # noqa: E402
import openai  # noqa: E402
from langchain_core.tools import tool as langchain_tool  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402
from pydantic import BaseModel, Field  # noqa: E402

litellm.suppress_debug_info = True

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


CAPITAL = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]


class Person(BaseModel):
    name: str = Field(min_length=2, max_length=20, pattern="^[A-Z][a-z]+$")
    age: int = Field(ge=18, lt=120)
    score: float = Field(gt=0, le=10)


def chat_create(url):
    reply = client(url).chat.completions.create(model=MODEL, temperature=0, max_tokens=MOST_TOKENS, messages=CAPITAL)
    assert "Paris" in reply.choices[0].message.content and reply.choices[0].finish_reason == "stop", reply
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens


def chat_stream(url):
    text, usage = "", None
    for chunk in client(url).chat.completions.create(model=MODEL, temperature=0, max_tokens=MOST_TOKENS, messages=CAPITAL, stream=True,
                                                     stream_options={"include_usage": True}):
        text += chunk.choices[0].delta.content or "" if chunk.choices else ""
        usage = chunk.usage or usage
    whole = client(url).chat.completions.create(model=MODEL, temperature=0, max_tokens=MOST_TOKENS, messages=CAPITAL)
    assert text == whole.choices[0].message.content and usage.completion_tokens == whole.usage.completion_tokens, (text, usage, whole)


def chat_parse(url):
    reply = client(url).chat.completions.parse(model=MODEL, temperature=0, max_tokens=MOST_TOKENS, response_format=Person, messages=[
        {"role": "user", "content": "Anna is 30 years old and scored 7.5. Give name, age and score as JSON."}])
    assert reply.choices[0].message.parsed == Person(name="Anna", age=30, score=7.5), reply.choices[0].message


def chat_tools(url):
    tools = [{"type": "function", "function": {"name": "get_weather", "description": TOOL["description"], "parameters": WEATHER}}]
    asked = [{"role": "user", "content": ASKED}]
    first = client(url).chat.completions.create(model=MODEL, temperature=0, max_tokens=MOST_TOKENS, messages=asked, tools=tools,
                                                tool_choice="required").choices[0]
    (call,) = first.message.tool_calls
    assert first.finish_reason == "tool_calls" and json.loads(call.function.arguments) == {"city": "Paris"}, first
    asked += [first.message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": '{"temperature_celsius": 31}'}]
    answer = client(url).chat.completions.create(model=MODEL, temperature=0, max_tokens=MOST_TOKENS, messages=asked, tools=tools,
                                                  tool_choice="none")
    assert "31" in answer.choices[0].message.content, answer


def messages_create(url):
    reply = claude(url).messages.create(model=MODEL, max_tokens=MOST_TOKENS, messages=CAPITAL, extra_body={"temperature": 0})
    assert "Paris" in reply.content[0].text and reply.stop_reason == "end_turn" and reply.usage.input_tokens > 0, reply
    with claude(url).messages.stream(model=MODEL, max_tokens=MOST_TOKENS, messages=CAPITAL, extra_body={"temperature": 0}) as stream:
        text = "".join(stream.text_stream)
    assert text == reply.content[0].text, (text, reply)


def litellm_chat(url):
    more = {"model": "openai/" + MODEL, "api_base": url + "/v1", "api_key": "none", "temperature": 0, "max_tokens": MOST_TOKENS, "messages": CAPITAL}
    whole = litellm.completion(**more).choices[0].message.content
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in litellm.completion(**more, stream=True) if chunk.choices)
    assert "Paris" in whole and streamed == whole, (whole, streamed)


def langchain_chat(url):
    chat = ChatOpenAI(model=MODEL, base_url=url + "/v1", api_key="none", temperature=0, max_tokens=MOST_TOKENS, max_retries=0, timeout=600)
    whole = chat.invoke(CAPITAL)
    assert "Paris" in whole.content and whole.usage_metadata["total_tokens"] > 0, whole
    assert "".join(chunk.content for chunk in chat.stream(CAPITAL)) == whole.content
    for method in ("json_schema", "function_calling", "json_mode"):
        asked = 'Which city is the capital of France? Answer as JSON with the keys "name" and "country".'
        city = chat.with_structured_output(City, method=method).invoke(asked)
        assert city == City(name="Paris", country="France"), (method, city)

    @langchain_tool
    def get_weather(city: str) -> str:
        """Get the current weather in a city"""
        return city

    calls = chat.bind_tools([get_weather], tool_choice="get_weather").invoke(ASKED).tool_calls
    assert len(calls) == 1 and calls[0]["name"] == "get_weather" and "Paris" in calls[0]["args"]["city"], calls


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


KINDS = ("responses_", "chat_", "messages_", "models_", "litellm_", "langchain_chat")
CHECKS = [value for name, value in list(globals().items()) if name.startswith(KINDS)]


def in_turns(checks):
    """One of each kind after the other, so that all are there where time ends."""
    kinds = {}
    for check in checks:
        kinds.setdefault(check.__name__.split("_")[0], []).append(check)
    return [check for row in itertools.zip_longest(*kinds.values()) for check in row if check]


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: interfaces.py URL [--seconds N] [WORD…]")
    url, words, seconds, begin = sys.argv[1].rstrip("/"), sys.argv[2:], None, time.monotonic()
    if words[:1] == ["--seconds"]:
        seconds, words = float(words[1]), words[2:]
    n_failed = 0
    for check in in_turns(CHECKS):
        if words and not any(word in check.__name__ for word in words):
            continue
        if seconds is not None and time.monotonic() - begin > seconds:
            print(f"left out {check.__name__}", flush=True)
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
