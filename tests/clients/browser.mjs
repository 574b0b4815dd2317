// browser.mjs - the page at '/' in Chromium: chat, stop, retry, edit, a document with two questions, map, reload, two widths, the
// accessibility tree, no error on the console. Screenshots are left beside it.
import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';

const [url, apiKey] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox'] });
const words = 'The sky is blue. The grass is green. The sun is yellow. Here we go. ';

async function open(width, scheme) {
  const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme: scheme });
  await context.addInitScript((key) => sessionStorage.setItem('pith.key', key), apiKey);
  const page = await context.newPage();
  const problems = [];
  page.on('console', (message) => { if (message.type() === 'error') problems.push(message.text()); });
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('request', (request) => { if (!request.url().startsWith(url) && !request.url().startsWith('data:')) problems.push('fetched ' + request.url()); });
  await page.goto(url);
  return { page, problems };
}

const ended = (page) => page.waitForFunction(() => document.getElementById('stop').hidden, null, { timeout: 60_000 });
const said = (page) => page.locator('article.assistant .said').last().textContent();

async function ask(page, text) {
  await page.getByRole('textbox', { name: 'Message', exact: true }).fill(text);
  await page.getByRole('button', { name: 'Send' }).click();
}

async function noSidewaysScrolling(page) {
  const [wide, seen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(wide <= seen, 'the page is ' + wide + ' pixels wide, the window ' + seen);
}

{
  const { page, problems } = await open(1280, 'light');
  await page.getByText('pith-reference.gguf').waitFor();
  await ask(page, 'What is the colour of the sky?');
  await ended(page);
  assert.ok((await said(page)).length > 0);
  assert.equal(await page.getByRole('button', { name: 'Retry' }).count(), 1);
  await page.getByRole('button', { name: 'Retry' }).click();
  await ended(page);
  assert.equal(await page.locator('article').count(), 2);
  await page.getByRole('button', { name: 'Edit' }).click();
  assert.equal(await page.locator('#text').inputValue(), 'What is the colour of the sky?');
  assert.equal(await page.locator('article').count(), 0);
  // What an edited message replaces is there until it is sent: again if the edit is cancelled, and after a reload.
  await page.getByRole('button', { name: 'Cancel the edit' }).click();
  assert.equal(await page.locator('article').count(), 2);
  assert.equal(await page.locator('#text').inputValue(), '');
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.reload();
  assert.equal(await page.locator('article').count(), 2);
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.locator('#text').fill('What is the colour of the grass?');
  await page.getByRole('button', { name: 'Send' }).click();
  await ended(page);
  assert.equal(await page.locator('article').count(), 2);
  assert.match(await page.locator('article.user .said').textContent(), /grass/);
  assert.match(await page.locator('article.assistant .cost').textContent(), /tokens\/s/);

  // Two tabs of one browser lose nothing of each other's.
  const second = await page.context().newPage();
  await second.goto(url);
  await second.getByRole('button', { name: 'New conversation', exact: true }).first().click();
  await ask(second, 'And the sun?');
  await ended(second);
  await page.waitForFunction(() => document.querySelectorAll('#list li').length === 2);
  await page.getByRole('button', { name: 'Retry' }).click();
  await ended(page);
  assert.equal(await page.evaluate(() => JSON.parse(localStorage.getItem('pith.conversations')).length), 2);
  await second.close();

  // A document under a budget: two questions, a map with holes, a text that is shaded.
  await page.locator('#policy').fill('snapkv');
  await page.locator('#budget').fill('64');
  await page.getByRole('button', { name: 'New conversation', exact: true }).first().click();
  await page.locator('#document-file').setInputFiles({ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from(words.repeat(25)) });
  await page.getByText('notes.txt, ').waitFor();
  for (const question of ['What is the colour of the sky?', 'And of the grass?']) {
    await ask(page, question);
    await ended(page);
  }
  assert.equal(await page.locator('article').count(), 4);
  await page.locator('#document span').first().waitFor();
  const shown = await page.locator('#document').textContent();
  assert.equal(shown.trim(), words.repeat(25).trim());
  assert.match(await page.locator('#map-text').textContent(), /layers of \d+ heads: \d+ % of the entries/);
  const colours = await page.evaluate(() => {
    const canvas = document.getElementById('map');
    const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    let empty = 0;
    for (let i = 3; i < data.length; i += 4) empty += data[i] === 0;
    return { all: data.length / 4, empty };
  });
  assert.ok(colours.empty > 0 && colours.empty < colours.all, JSON.stringify(colours));
  assert.match(await page.locator('#numbers').textContent(), /snapkv/);
  await page.screenshot({ path: 'wide-light.png' });

  // Everything is there after a reload, and on another page of the same browser.
  await page.reload();
  assert.equal(await page.locator('article').count(), 4);
  assert.equal(await page.locator('#list li').count(), 3);
  await page.locator('#list li button').nth(2).click();
  await noSidewaysScrolling(page);

  // Who cannot see finds landmarks, names, and what happens: the tree that a screen reader gets.
  const tree = await page.locator('body').ariaSnapshot();
  for (const line of ['- link "Skip to the message"', '- heading "Pith pith-reference.gguf" [level=1]', '- navigation "Conversations":',
    '- log ', '- textbox "Message"', '- button "Send"', '- complementary "What the cache holds":', '- heading "Cache" [level=2]',
    '- img "Layers and heads by position']) {
    assert.ok(tree.includes(line), line + ' is not in\n' + tree);
  }
  for (const role of ['navigation', 'main', 'complementary', 'banner']) assert.equal(await page.getByRole(role).count(), 1, role);
  const nameless = await page.evaluate(() => [...document.querySelectorAll('button, input:not([hidden]), textarea')]
    .filter((one) => !(one.textContent.trim() || one.getAttribute('aria-label') || (one.labels && one.labels.length > 0))).map((one) => one.outerHTML));
  assert.deepEqual(nameless, []);
  assert.deepEqual(problems, []);
  await page.context().close();
}

{
  const { page, problems } = await open(360, 'dark');
  await page.getByText('pith-reference.gguf').waitFor();
  await noSidewaysScrolling(page);
  // Sent and stopped by the keyboard alone; the answer would be long.
  await page.route('**/v1/chat/completions', (route) =>
    route.continue({ postData: JSON.stringify({ ...route.request().postDataJSON(), ignore_eos: true, max_tokens: 1800 }) }));
  await page.locator('#text').focus();
  await page.keyboard.type('Tell me a long story of the sky.');
  await page.keyboard.press('Enter');
  await page.locator('#stop').waitFor({ state: 'visible' });
  await page.keyboard.press('Escape');
  await ended(page);
  await page.screenshot({ path: 'narrow-dark.png' });
  // An answer that is left while it comes ends, and leaves the next conversation free to ask: a new one, or one that was there.
  for (const leave of [() => page.getByRole('button', { name: 'New conversation', exact: true }).first().click(),
    () => page.locator('#list li button').nth(2).click()]) {
    await page.locator('#text').fill('Tell me another.');
    await page.keyboard.press('Enter');
    await page.locator('#stop').waitFor({ state: 'visible' });
    await page.getByRole('button', { name: 'Conversations' }).click();
    await leave();
    await ended(page);
    assert.equal(await page.locator('#send').isDisabled(), false);
    assert.equal(await page.locator('#list li button[aria-current]').count(), 1);
  }
  await page.getByRole('button', { name: 'Cache' }).click();
  assert.equal(await page.getByRole('button', { name: 'Cache' }).getAttribute('aria-expanded'), 'true');
  await page.locator('#map').waitFor({ state: 'visible' });
  await noSidewaysScrolling(page);
  await page.screenshot({ path: 'narrow-cache.png' });
  await page.keyboard.press('Escape');
  await page.locator('#cache-panel').waitFor({ state: 'hidden' });
  assert.deepEqual(problems, []);
  await page.context().close();
}

await browser.close();
console.log('ok');
