// npm.mjs - the clients that people use, against a server: chat, streams, abort, log-probabilities, tools, schemas, errors, retries.
import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { Output, generateText, jsonSchema, streamText, tool } from 'ai';
import OpenAI from 'openai';

const [url, apiKey] = process.argv.slice(2);
const model = 'built-in';
const messages = [{ role: 'user', content: 'What is the colour of the sky?' }];
const city = { type: 'object', properties: { city: { type: 'string', enum: ['Elm', 'Oak'] } }, required: ['city'], additionalProperties: false };
const openai = new OpenAI({ baseURL: url + '/v1', apiKey, maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: url, apiKey, maxRetries: 0 });
const compatible = createOpenAICompatible({ name: 'pith', baseURL: url + '/v1', apiKey, supportsStructuredOutputs: true })(model);

const tests = [];
const test = (name, run) => tests.push({ name, run });
const slots = async () => (await fetch(url + '/slots', { headers: { 'X-Api-Key': apiKey } })).json();
const allIdle = async () => {
  for (let i = 0; i < 100; ++i) {
    if ((await slots()).every((slot) => !slot.is_processing)) return true;
    await new Promise((done) => setTimeout(done, 50));
  }
  return false;
};

test('openai: chat, and the same streamed', async () => {
  const asked = { model, messages, max_tokens: 12, temperature: 0 };
  const whole = await openai.chat.completions.create(asked);
  assert.ok(whole.choices[0].message.content.length > 0);
  assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens);
  let text = '';
  let usage = null;
  for await (const chunk of await openai.chat.completions.create({ ...asked, stream: true, stream_options: { include_usage: true } })) {
    text += chunk.choices[0]?.delta?.content ?? '';
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
});

test('openai: text, models, log-probabilities', async () => {
  const text = await openai.completions.create({ model, prompt: 'The sky is', max_tokens: 5, temperature: 0 });
  assert.equal(typeof text.choices[0].text, 'string');
  assert.equal((await openai.models.list()).data.length, 1);
  const chat = await openai.chat.completions.create({ model, messages, max_tokens: 4, logprobs: true, top_logprobs: 3 });
  for (const one of chat.choices[0].logprobs.content) {
    assert.ok(one.logprob <= 0);
    assert.equal(one.top_logprobs.length, 3);
  }
});

test('openai: an aborted stream ends the work', async () => {
  const stream = await openai.chat.completions.create({ model, messages, max_tokens: 1500, stream: true, ignore_eos: true });
  let n = 0;
  for await (const chunk of stream) {
    n += chunk.choices.length;
    if (n > 5) stream.controller.abort();
  }
  assert.ok(await allIdle());
});

test('openai: a function that must be called, its result, a schema', async () => {
  const tools = [{ type: 'function', function: { name: 'weather', description: 'How the weather will be', parameters: city } }];
  const asked = { model, messages, tools, tool_choice: 'required', parallel_tool_calls: false, max_tokens: 200, temperature: 0 };
  const whole = await openai.chat.completions.create(asked);
  assert.equal(whole.choices[0].finish_reason, 'tool_calls');
  const call = whole.choices[0].message.tool_calls[0];
  assert.equal(call.function.name, 'weather');
  assert.ok(['Elm', 'Oak'].includes(JSON.parse(call.function.arguments).city));
  const stream = openai.chat.completions.stream(asked);
  const streamed = await stream.finalChatCompletion();
  assert.equal(streamed.choices[0].message.tool_calls[0].function.arguments, call.function.arguments);
  const after = await openai.chat.completions.create({ model, max_tokens: 4, tools,
    messages: [...messages, whole.choices[0].message, { role: 'tool', tool_call_id: call.id, content: 'dry' }] });
  assert.equal(after.object, 'chat.completion');
  const formed = await openai.chat.completions.create({ model, messages, max_tokens: 60, temperature: 0,
    response_format: { type: 'json_schema', json_schema: { name: 'place', schema: city, strict: true } } });
  assert.ok(['Elm', 'Oak'].includes(JSON.parse(formed.choices[0].message.content).city));
});

test('openai: errors are the classes that callers catch', async () => {
  await assert.rejects(openai.chat.completions.create({ model, messages: [] }), OpenAI.BadRequestError);
  await assert.rejects(openai.chat.completions.create({ model, messages, temperature: -1 }), /temperature/);
  await assert.rejects(new OpenAI({ baseURL: url + '/v1', apiKey: 'wrong', maxRetries: 0 }).models.list(), OpenAI.AuthenticationError);
  await assert.rejects(openai.get('/nothing'), OpenAI.NotFoundError);
});

test('openai: a full line is tried again', async () => {
  const patient = new OpenAI({ baseURL: url + '/v1', apiKey, maxRetries: 20 });
  const asked = { model, messages, max_tokens: 150, temperature: 0, ignore_eos: true };
  const once = await Promise.allSettled(Array.from({ length: 10 }, () => openai.chat.completions.create(asked)));
  const refused = once.filter((one) => one.status === 'rejected');
  assert.ok(refused.length > 0 && refused.every((one) => one.reason instanceof OpenAI.RateLimitError));
  const all = await Promise.all(Array.from({ length: 10 }, () => patient.chat.completions.create(asked)));
  assert.equal(new Set(all.map((one) => one.choices[0].message.content)).size, 1);
});

test('ai: text, streams, a tool, an object', async () => {
  const whole = await generateText({ model: compatible, messages, maxOutputTokens: 12, temperature: 0 });
  assert.ok(whole.text.length > 0);
  let text = '';
  for await (const piece of streamText({ model: compatible, messages, maxOutputTokens: 12, temperature: 0 }).textStream) text += piece;
  assert.equal(text, whole.text);
  const weather = tool({ description: 'How the weather will be', inputSchema: jsonSchema(city) });
  const called = await generateText({ model: compatible, messages, maxOutputTokens: 200, temperature: 0, tools: { weather }, toolChoice: 'required' });
  assert.equal(called.toolCalls[0].toolName, 'weather');
  assert.ok(['Elm', 'Oak'].includes(called.toolCalls[0].input.city));
  const formed = await generateText({ model: compatible, messages, maxOutputTokens: 60, temperature: 0, output: Output.object({ schema: jsonSchema(city) }) });
  assert.ok(['Elm', 'Oak'].includes(formed.output.city));
});

test('anthropic: messages, streams, a tool, tokens counted, errors', async () => {
  const asked = { model, messages, max_tokens: 12, temperature: 0, system: 'Be brief.' };
  const whole = await anthropic.messages.create(asked);
  assert.equal(whole.content[0].type, 'text');
  assert.ok(whole.usage.input_tokens > 0);
  const streamed = await anthropic.messages.stream(asked).finalMessage();
  assert.equal(streamed.content[0].text, whole.content[0].text);
  assert.equal(streamed.stop_reason, whole.stop_reason);
  const counted = await anthropic.messages.countTokens({ model, messages, system: 'Be brief.' });
  assert.equal(counted.input_tokens, whole.usage.input_tokens + whole.usage.cache_read_input_tokens);
  const tools = [{ name: 'weather', description: 'How the weather will be', input_schema: city }];
  const called = await anthropic.messages.stream({ model, messages, max_tokens: 200, temperature: 0, tools, tool_choice: { type: 'tool', name: 'weather' } }).finalMessage();
  assert.equal(called.stop_reason, 'tool_use');
  const use = called.content.find((block) => block.type === 'tool_use');
  assert.ok(['Elm', 'Oak'].includes(use.input.city));
  await anthropic.messages.create({ model, max_tokens: 4, tools, messages: [...messages, { role: 'assistant', content: called.content },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id, content: 'dry' }] }] });
  await assert.rejects(anthropic.messages.create({ model, max_tokens: 4, messages: [] }), Anthropic.BadRequestError);
  await assert.rejects(new Anthropic({ baseURL: url, apiKey: 'wrong', maxRetries: 0 }).messages.create(asked), Anthropic.AuthenticationError);
});

let failed = 0;
for (const { name, run } of tests) {
  try {
    await run();
    console.log('ok      ' + name);
  } catch (error) {
    ++failed;
    console.log('FAILED  ' + name + '\n' + error.stack);
  }
}
process.exit(failed === 0 ? 0 : 1);
