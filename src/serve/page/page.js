// page.js - the page at '/': conversations, streams, and what the cache holds. Talks to this server only.
'use strict';

const by = (id) => document.getElementById(id);
const kStore = 'pith.conversations';
const number = new Intl.NumberFormat('en');

let conversations = [];   // [{id, title, policy, budget, document: {name, text}, messages: [{role, content, reasoning, cost}]}]
let current = null;       // one of them
let abort = null;         // of the answer that is being streamed
let pending = null;       // a document for the next message
let lastMap = null;       // of the newest answer
let edited = null;        // {of, tail, document}: messages that an edited one will replace, back again if it is not sent
let pieces = null;        // [{begin, end}] of the document, the tokens that it stands in

// ---- what is kept in the browser ----

function restore() {
  try { conversations = JSON.parse(localStorage.getItem(kStore) || '[]'); } catch { conversations = []; }
  if (!Array.isArray(conversations)) conversations = [];
}

// Another tab has written: what it has is there, too. What is shown here stays, above all an answer that is being streamed.
function adopt() {
  const mine = current;
  restore();
  const at = conversations.findIndex((one) => one.id === mine.id);
  if (at >= 0 && abort === null && edited === null) current = conversations[at];
  else if (at >= 0) conversations[at] = mine;
  else conversations.unshift(mine);
  showAll();
}

function keep() {
  try {
    localStorage.setItem(kStore, JSON.stringify(conversations));
  } catch {
    problem('This browser has no room left for the conversations: they last until the page is closed. Delete some.');
  }
}

// ---- small things ----

function problem(text) { by('problem').textContent = text; }
function say(text) { by('status').textContent = text; }

function element(name, properties, ...inside) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...inside);
  return made;
}

function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; ++i; }
  return (i === 0 ? n : n.toFixed(1)) + ' ' + units[i];
}

function headers() {
  const key = by('key').value.trim();
  return { 'Content-Type': 'application/json', ...(key ? { Authorization: 'Bearer ' + key } : {}) };
}

async function ask(path, body, signal) {
  const reply = await fetch(path, body === undefined ? { headers: headers(), signal }
    : { method: 'POST', headers: headers(), body: JSON.stringify(body), signal });
  if (reply.ok) return reply;
  let message = 'the server answered ' + reply.status;
  try { message = (await reply.json()).error.message; } catch { /* no JSON */ }
  const wait = reply.headers.get('Retry-After');
  throw new Error(message + (wait ? ' (again in ' + wait + ' s)' : ''));
}

// ---- conversations ----

function begin() {
  leave();
  current = { id: String(Date.now()) + Math.random(), title: '', policy: by('policy').value.trim(),
    budget: by('budget').value.trim(), document: null, messages: [] };
  conversations.unshift(current);
  showAll();
  by('text').focus();
}

// What is shown of a conversation goes, and its answer with it: one is streamed at a time.
function leave() {
  cancelEdit();
  if (abort) abort.abort();
  lastMap = null;
  pieces = null;
}

function choose(one) {
  leave();
  current = one;
  closePanels();
  showAll();
}

function remove(one) {
  conversations = conversations.filter((other) => other !== one);
  if (one === current) {
    leave();
    current = conversations[0] || null;
  }
  if (!current) { begin(); return; }
  keep();
  showAll();
  by('new').focus();
}

function titleOf(one) { return one.title || 'New conversation'; }

function showList() {
  by('list').replaceChildren(...conversations.map((one) => {
    const open = element('button', { type: 'button', textContent: titleOf(one), title: titleOf(one), onclick: () => choose(one) });
    if (one === current) open.setAttribute('aria-current', 'true');
    const drop = element('button', { type: 'button', textContent: '×', onclick: () => remove(one) });
    drop.setAttribute('aria-label', 'Delete ' + titleOf(one));
    return element('li', {}, open, drop);
  }));
}

function actions(message, index) {
  const row = element('div', { className: 'row' });
  const add = (text, act) => {
    row.append(element('button', { type: 'button', textContent: text, disabled: abort !== null, onclick: act }));
  };
  if (message.role === 'user') {
    add('Edit', () => edit(index));
  }
  if (index === current.messages.length - 1) {
    add('Retry', () => { current.messages.length = message.role === 'user' ? index + 1 : index; answer(); });
  }
  if (message.cost) row.append(element('span', { className: 'cost', textContent: message.cost }));
  return row;
}

function edit(index) {
  cancelEdit();
  const tail = current.messages.splice(index);
  edited = { of: current, tail, document: null };
  if (tail[0].document) {
    edited.document = pending = current.document;
    current.document = null;
  }
  by('text').value = tail[0].content;
  showAll();
  by('text').focus();
}

function cancelEdit() {
  if (!edited) return;
  edited.of.messages.push(...edited.tail);
  if (edited.document) {
    edited.of.document = edited.document;
    pending = null;
  }
  edited = null;
  by('text').value = '';
}

function article(message, index) {
  const mine = message.role === 'user';
  const made = element('article', { className: message.role }, element('h3', { textContent: mine ? 'You' : 'Pith' }));
  if (message.document) made.append(element('p', { className: 'cost', textContent: 'Document: ' + current.document.name }));
  if (message.reasoning) {
    made.append(element('details', {}, element('summary', { textContent: 'Thoughts' }), document.createTextNode(message.reasoning)));
  }
  made.append(element('div', { className: 'said', textContent: message.content }), actions(message, index));
  return made;
}

function showMessages() {
  by('title').textContent = titleOf(current);
  const log = by('messages');
  log.replaceChildren(...current.messages.map(article));
  log.scrollTop = log.scrollHeight;
}

// The newest message alone, while it comes.
function showNewest() {
  const log = by('messages');
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  const index = current.messages.length - 1;
  const made = article(current.messages[index], index);
  const old = log.children[index];
  const open = old && old.querySelector('details');
  if (open && open.open && made.querySelector('details')) made.querySelector('details').open = true;
  if (old) old.replaceWith(made); else log.append(made);
  if (atEnd) log.scrollTop = log.scrollHeight;
}

function showAll() {
  showList();
  showMessages();
  showPending();
  showCache();
  by('send').disabled = abort !== null;
  by('stop').hidden = abort === null;
  by('edit-cancel').hidden = edited === null;
}

// ---- documents ----

function showPending() {
  by('document-line').hidden = pending === null;
  by('document-add').hidden = current.document !== null || pending !== null;
  if (pending) by('document-name').textContent = pending.name + ', ' + number.format(pending.text.length) + ' characters';
}

async function take(file) {
  if (!file) return;
  if (current.document) { problem('This conversation has its document: begin a new one for another.'); return; }
  const text = await file.text();
  if (text.includes('\0')) { problem(file.name + ' is no text.'); return; }
  pending = { name: file.name, text };
  problem('');
  say(file.name + ' is added');
  showPending();
  by('text').focus();
}

// ---- answers ----

function sentMessages() {
  return current.messages.map((message) => ({ role: message.role,
    content: message.document ? current.document.text + '\n\n' + message.content : message.content }));
}

function requestBody() {
  const body = { messages: sentMessages(), stream: true, stream_options: { include_usage: true }, return_kv_map: true, return_progress: true,
    timings_per_token: true };
  if (current.policy) body.kv_policy = current.policy;
  if (current.budget) body.kv_budget = /^\d+$/.test(current.budget) ? Number(current.budget) : current.budget;
  return body;
}

// Events of a stream; an error among them is thrown.
async function* events(reply) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const line = text.slice(0, end);
      text = text.slice(end + 2);
      if (!line.startsWith('data: ') || line === 'data: [DONE]') continue;
      const event = JSON.parse(line.slice(6));
      if (event.error) throw new Error(event.error.message);
      yield event;
    }
  }
}

function speed(timings) { return Math.round(timings.predicted_per_second) + ' tokens/s'; }

async function answer() {
  const told = current;
  const message = { role: 'assistant', content: '', reasoning: '' };
  const body = requestBody();
  told.messages.push(message);
  abort = new AbortController();
  problem('');
  say('Pith is answering');
  showAll();
  pieces = null;
  if (told.document) findDocument(body.messages, told);
  let usage = null;
  let timings = null;
  let next = 0;
  const show = () => { if (told === current) showNewest(); };
  try {
    const reply = await ask('v1/chat/completions', body, abort.signal);
    for await (const event of events(reply)) {
      if (event.kv_map) { if (told === current) { lastMap = event.kv_map; showCache(); } continue; }
      if (event.prompt_progress && message.content === '') {
        const { processed, total } = event.prompt_progress;
        message.cost = 'reading: ' + number.format(processed) + ' of ' + number.format(total) + ' tokens';
      }
      usage = event.usage || usage;
      timings = event.timings || timings;
      const delta = event.choices.length > 0 ? event.choices[0].delta : {};
      message.content += delta.content || '';
      message.reasoning += delta.reasoning_content || '';
      if (event.timings && event.timings.predicted_n > 1) message.cost = speed(timings);
      if (performance.now() > next) { show(); next = performance.now() + 50; }
    }
    say('Pith: ' + message.content.slice(0, 400));
  } catch (error) {
    if (error.name !== 'AbortError') problem(error.message);
    say(error.name === 'AbortError' ? 'Stopped' : 'Failed');
  }
  abort = null;
  if (message.content === '' && message.reasoning === '') told.messages.pop();
  message.cost = timings ? speed(timings) : '';
  if (usage) told.cost = { usage, timings };
  keep();
  showAll();  // whatever conversation is shown by now: it may be asked again
}

function send() {
  const text = by('text').value.trim();
  if (abort || (text === '' && pending === null)) return;
  const message = { role: 'user', content: text };
  if (pending) { message.document = true; current.document = pending; pending = null; }
  edited = null;  // what it replaces is gone
  current.messages.push(message);
  if (!current.title) current.title = (text || current.document.name).slice(0, 60);
  by('text').value = '';
  answer();
}

// ---- the cache ----

// Which tokens the document stands in: the prompt as the template writes it, cut into tokens.
async function findDocument(messages, told) {
  try {
    const prompt = (await (await ask('apply-template', { messages })).json()).prompt;
    const tokens = (await (await ask('tokenize', { content: prompt, add_special: true, with_pieces: true })).json()).tokens;
    const encoder = new TextEncoder();
    const at = prompt.indexOf(told.document.text);
    if (at < 0 || told !== current) return;
    const begin = encoder.encode(prompt.slice(0, at)).length;
    const text = encoder.encode(told.document.text);
    const found = [];
    let place = 0;
    // A begin-of-text token stands in front of what the template writes, unless it writes it itself.
    const lengths = tokens.map((token) => typeof token.piece === 'string' ? encoder.encode(token.piece).length : token.piece.length);
    const all = encoder.encode(prompt).length;
    let first = 0;
    for (let sum = lengths.reduce((a, b) => a + b, 0); sum > all && first < lengths.length; ++first) sum -= lengths[first];
    for (let i = first; i < tokens.length; ++i) {
      const from = Math.max(0, place - begin);
      const to = Math.min(text.length, place - begin + lengths[i]);
      if (to > from) found.push({ token: i, begin: from, end: to });
      place += lengths[i];
    }
    pieces = { found, text };
    showDocument();
  } catch { /* the map is there without it */ }
}

// Of each run of positions, the share that layers and heads hold.
function shares(map) {
  const lanes = map.layers.flat().filter((lane) => lane.length > 0);
  const n = lanes.length > 0 ? lanes[0].length : 0;
  return Array.from({ length: n }, (_, i) => lanes.reduce((sum, lane) => sum + Number(lane[i]), 0) / (9 * lanes.length));
}

function showDocument() {
  const part = by('document-part');
  part.hidden = !(pieces && lastMap && current.document);
  if (part.hidden) return;
  const share = shares(lastMap);
  const decoder = new TextDecoder();
  const runs = [];
  for (const piece of pieces.found) {
    const held = share[Math.min(share.length - 1, Math.floor(piece.token / lastMap.bin_tokens))];
    const level = held < 0.02 ? 0 : Math.min(4, 1 + Math.floor(held * 4));
    const last = runs[runs.length - 1];
    if (last && last.level === level) last.end = piece.end; else runs.push({ level, begin: piece.begin, end: piece.end });
  }
  by('document').replaceChildren(...runs.map((run) =>
    element('span', { className: 'h' + run.level, textContent: decoder.decode(pieces.text.subarray(run.begin, run.end)) })));
}

function showMap() {
  const canvas = by('map');
  const ink = canvas.getContext('2d');
  const lanes = lastMap ? lastMap.layers.flat() : [];
  const n = lanes.reduce((most, lane) => Math.max(most, lane.length), 0);
  canvas.width = Math.max(1, n);
  canvas.height = Math.max(1, lanes.length);
  ink.clearRect(0, 0, canvas.width, canvas.height);
  if (n === 0) { by('map-text').textContent = 'Nothing has been read yet.'; return; }
  const style = getComputedStyle(document.documentElement);
  const kept = style.getPropertyValue('--kept');
  const pinned = style.getPropertyValue('--pinned');
  const isPinned = Array.from({ length: n }, (_, i) => lastMap.pinned.some(([begin, end]) =>
    i * lastMap.bin_tokens < end && (i + 1) * lastMap.bin_tokens > begin));
  lanes.forEach((lane, y) => {
    for (let x = 0; x < lane.length; ++x) {
      if (lane[x] === '0') continue;
      ink.globalAlpha = Number(lane[x]) / 9;
      ink.fillStyle = isPinned[x] ? pinned : kept;
      ink.fillRect(x, y, 1, 1);
    }
  });
  const share = shares(lastMap);
  const held = share.reduce((a, b) => a + b, 0) / share.length;
  by('map-text').textContent = number.format(lastMap.n_tokens) + ' tokens, ' + lastMap.layers.length + ' layers of ' +
    lastMap.layers[0].length + ' heads: ' + Math.round(100 * held) + ' % of the entries are held.';
}

function showCache() {
  const rows = [['Policy', current.policy || 'the server’s'], ['Budget', current.budget || 'the server’s']];
  const cost = current.cost;
  if (cost) {
    const { usage, timings } = cost;
    if (timings) {
      rows[0][1] = timings.kv_policy;
      if (timings.kv_budget_entries > 0) rows[1][1] = number.format(timings.kv_budget_entries) + ' entries a head';
      rows.push(['Answer', timings.predicted_per_second.toFixed(1) + ' tokens/s'],
        ['Prompt', Math.round(timings.prompt_per_second) + ' tokens/s']);
    }
    rows.push(['Prompt tokens', number.format(usage.prompt_tokens)],
      ['of these read before', number.format(usage.prompt_tokens_details.cached_tokens)],
      ['Entries kept', number.format(usage.kv_kept_entries)], ['Entries evicted', number.format(usage.kv_evicted_entries)],
      ['Held', bytes(usage.kv_bytes)], ['Without eviction', bytes(usage.kv_full_bytes)]);
  }
  by('numbers').replaceChildren(...rows.flatMap(([name, value]) => [element('dt', { textContent: name }), element('dd', { textContent: value })]));
  showMap();
  showDocument();
}

// ---- the page ----

function closePanels() {
  for (const [button, panel] of [['show-list', 'list-panel'], ['show-cache', 'cache-panel']]) {
    by(panel).classList.remove('open');
    by(button).setAttribute('aria-expanded', 'false');
  }
}

function togglePanel(button, panel) {
  const open = !by(panel).classList.contains('open');
  closePanels();
  by(panel).classList.toggle('open', open);
  by(button).setAttribute('aria-expanded', String(open));
}

function listen() {
  by('new').onclick = () => { closePanels(); begin(); };
  by('ask').onsubmit = (event) => { event.preventDefault(); send(); };
  by('text').onkeydown = (event) => {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
  };
  by('edit-cancel').onclick = () => { cancelEdit(); showAll(); by('text').focus(); };
  by('stop').onclick = () => { if (abort) abort.abort(); by('text').focus(); };
  by('show-list').onclick = () => togglePanel('show-list', 'list-panel');
  by('show-cache').onclick = () => togglePanel('show-cache', 'cache-panel');
  by('document-add').onclick = () => by('document-file').click();
  by('document-file').onchange = (event) => { take(event.target.files[0]); event.target.value = ''; };
  by('document-remove').onclick = () => { pending = null; showPending(); by('text').focus(); };
  by('key').value = sessionStorage.getItem('pith.key') || '';
  by('key').onchange = () => { sessionStorage.setItem('pith.key', by('key').value.trim()); tellModel(); };
  document.addEventListener('keydown', (event) => { if (event.key === 'Escape') { closePanels(); if (abort) abort.abort(); } });
  document.addEventListener('dragover', (event) => { event.preventDefault(); document.body.classList.add('dropping'); });
  document.addEventListener('dragleave', (event) => { if (!event.relatedTarget) document.body.classList.remove('dropping'); });
  document.addEventListener('drop', (event) => {
    event.preventDefault();
    document.body.classList.remove('dropping');
    take(event.dataTransfer.files[0]);
  });
  addEventListener('storage', (event) => { if (event.key === kStore && event.newValue !== null) adopt(); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', showMap);
}

async function tellModel() {
  try {
    by('model').textContent = (await (await ask('v1/models')).json()).data[0].id;
    problem('');
  } catch (error) {
    problem(error.message);
  }
}

restore();
listen();
if (conversations.length > 0) { current = conversations[0]; showAll(); } else begin();
tellModel();
