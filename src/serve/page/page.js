// page.js - the page at '/': conversations, streams, and what the cache holds. Talks to this server only.
import { ask, by, confirmed, element, number, problem, say } from './dom.js';
import * as documents from './documents.js';
import { markdown } from './markdown.js';
import * as memory from './memory.js';
import { kept, keep, kStore, readSettings, restore, settingsOfNew, settingsOfRequest, showSettings, titleOf } from './store.js';

let abort = null;   // of the answer that is being streamed
let edited = null;  // {of, tail, documents, pending}: messages that an edited one will replace, back again if it is not sent

// ---- conversations ----

function begin() {
  leave();
  kept.current = { id: String(Date.now()) + Math.random(), title: '', settings: settingsOfNew(), documents: [], messages: [] };
  kept.conversations.unshift(kept.current);
  showAll();
  by('text').focus();
}

// What is shown of a conversation goes, and its answer with it: one is streamed at a time.
function leave() {
  cancelEdit();
  if (abort) abort.abort();
  documents.forget();
  memory.setMap(null);
}

function choose(one) {
  leave();
  kept.current = one;
  closePanels();
  showAll();
}

async function remove(one) {
  if (!await confirmed('Delete “' + titleOf(one) + '”? It cannot be brought back.', 'Delete')) return;
  kept.conversations = kept.conversations.filter((other) => other !== one);
  if (one === kept.current) {
    leave();
    kept.current = kept.conversations[0] || null;
  }
  if (kept.current) { keep(); showAll(); by('new').focus(); } else { begin(); keep(); }
  say('Deleted');
}

// Another tab has written: what it has is there, too. What is shown here stays, above all an answer that is being streamed.
function adopt() {
  const mine = kept.current;
  restore();
  const at = kept.conversations.findIndex((one) => one.id === mine.id);
  if (at >= 0 && abort === null && edited === null) kept.current = kept.conversations[at];
  else if (at >= 0) kept.conversations[at] = mine;
  else kept.conversations.unshift(mine);
  showAll();
}

function showList() {
  by('list').replaceChildren(...kept.conversations.map((one) => {
    const open = element('button', { type: 'button', textContent: titleOf(one), title: titleOf(one), onclick: () => choose(one) });
    if (one === kept.current) open.setAttribute('aria-current', 'true');
    const drop = element('button', { type: 'button', textContent: '×', onclick: () => remove(one) });
    drop.setAttribute('aria-label', 'Delete ' + titleOf(one));
    return element('li', {}, open, drop);
  }));
}

// ---- messages ----

function actions(message, index) {
  const row = element('div', { className: 'row' });
  const add = (name, act) => row.append(element('button', { type: 'button', textContent: name, disabled: abort !== null, onclick: act }));
  const messages = kept.current.messages;
  if (message.role === 'user') add('Edit', () => edit(index));
  if (index === messages.length - 1) add('Retry', () => { messages.length = message.role === 'user' ? index + 1 : index; answer(); });
  if (message.cost) row.append(element('span', { className: 'cost', textContent: message.cost }));
  return row;
}

// The documents of what is edited wait beside the message again.
function edit(index) {
  cancelEdit();
  const one = kept.current;
  const tail = one.messages.splice(index);
  const first = Math.min(one.documents.length, ...tail.flatMap((message) => message.documents));
  edited = { of: one, tail, documents: one.documents.splice(first), pending: documents.pending.splice(0) };
  documents.pending.push(...edited.documents.slice(0, tail[0].documents.length));
  by('text').value = tail[0].content;
  showAll();
  by('text').focus();
}

function cancelEdit() {
  if (!edited) return;
  edited.of.messages.push(...edited.tail);
  edited.of.documents.push(...edited.documents);
  documents.pending.splice(0, Infinity, ...edited.pending);
  edited = null;
  by('text').value = '';
}

function article(message, index) {
  const mine = message.role === 'user';
  const made = element('article', { className: message.role }, element('h3', { textContent: mine ? 'You' : 'Pith' }));
  if (message.documents.length > 0) made.append(documents.chips(message));
  if (message.reasoning) {
    made.append(element('details', {}, element('summary', { textContent: 'Thoughts' }), message.reasoning));
  }
  made.append(mine ? element('div', { className: 'said', textContent: message.content })
    : element('div', { className: 'said' }, markdown(message.content)), actions(message, index));
  return made;
}

function showMessages() {
  by('title').textContent = titleOf(kept.current);
  const log = by('messages');
  log.replaceChildren(...kept.current.messages.map(article));
  log.scrollTop = log.scrollHeight;
}

// The newest message alone, while it comes.
function showNewest() {
  const log = by('messages');
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  const index = kept.current.messages.length - 1;
  const made = article(kept.current.messages[index], index);
  const old = log.children[index];
  const open = old && old.querySelector('details');
  if (open && open.open && made.querySelector('details')) made.querySelector('details').open = true;
  if (old) old.replaceWith(made); else log.append(made);
  if (atEnd) log.scrollTop = log.scrollHeight;
}

function showAll() {
  showList();
  showMessages();
  documents.showPending();
  showSettings(kept.current.settings);
  memory.showNumbers();
  documents.showDocument();
  by('send').disabled = abort !== null;
  by('stop').hidden = abort === null;
  by('edit-cancel').hidden = edited === null;
}

// ---- answers ----

function requestBody() {
  const { messages, settings } = kept.current;
  const said = messages.map((message) => ({ role: message.role, content: documents.contentOf(kept.current, message) }));
  return { messages: settings.system ? [{ role: 'system', content: settings.system }, ...said] : said, stream: true,
    stream_options: { include_usage: true }, return_kv_map: true, return_progress: true, timings_per_token: true, ...settingsOfRequest(settings) };
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
  const told = kept.current;
  const message = { role: 'assistant', content: '', reasoning: '', documents: [] };
  const body = requestBody();
  told.messages.push(message);
  abort = new AbortController();
  problem('');
  say('Pith is answering');
  documents.forget();
  showAll();
  const found = told.documents.length > 0 ? documents.find(body.messages, told, abort.signal) : null;
  let usage = null;
  let timings = null;
  let next = 0;
  try {
    const reply = await ask('v1/chat/completions', body, abort.signal);
    for await (const event of events(reply)) {
      if (event.kv_map) {
        if (told === kept.current) { documents.setMap(event.kv_map); memory.setMap(event.kv_map); }
        continue;
      }
      if (event.prompt_progress && message.content === '') {
        const { processed, total } = event.prompt_progress;
        message.cost = 'reading: ' + number.format(processed) + ' of ' + number.format(total) + ' tokens';
      }
      usage = event.usage || usage;
      timings = event.timings || timings;
      const delta = event.choices && event.choices.length > 0 ? event.choices[0].delta : {};
      message.content += delta.content || '';
      message.reasoning += delta.reasoning_content || '';
      if (event.timings && event.timings.predicted_n > 1) message.cost = speed(timings);
      const now = performance.now();
      if (now > next && told === kept.current) {
        showNewest();
        next = performance.now() + Math.max(50, 4 * (performance.now() - now));  // a long text takes its time to be shown
      }
    }
    say('Pith: ' + message.content.slice(0, 400));
  } catch (error) {
    if (error.name !== 'AbortError') problem(error.message);
    say(error.name === 'AbortError' ? 'Stopped' : 'Failed');
  }
  await found;
  abort = null;
  if (message.content === '' && message.reasoning === '') told.messages.pop();
  message.cost = timings && timings.predicted_n > 1 ? speed(timings) : '';
  if (usage) told.cost = { usage, timings };
  keep();
  showAll();  // whatever conversation is shown by now: it may be asked again
  memory.showMeter();
}

function send() {
  const text = by('text').value.trim();
  if (abort || (text === '' && documents.pending.length === 0)) return;
  const one = kept.current;
  edited = null;  // what it replaces is gone
  const message = { role: 'user', content: text, documents: documents.pending.map((_, i) => one.documents.length + i) };
  one.documents.push(...documents.pending.splice(0));
  one.messages.push(message);
  if (!one.title) one.title = (text || one.documents[0].name).slice(0, 60);
  by('text').value = '';
  answer();
}

// ---- the page ----

const kPanels = [['show-list', 'list-panel'], ['show-cache', 'cache-panel']];

function closePanels() {
  for (const [button, panel] of kPanels) {
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

function closeSettings() {
  sessionStorage.setItem('pith.key', by('key').value.trim());
  kept.current.settings = readSettings();
  if (kept.current.messages.length > 0) keep();
  by('settings').close();
  memory.showNumbers();
  tellModel();
  say('Settings are kept');
}

function listenToSettings() {
  by('show-settings').onclick = () => { showSettings(kept.current.settings); by('settings').showModal(); };
  by('settings-form').onsubmit = (event) => { event.preventDefault(); closeSettings(); };
  by('settings-cancel').onclick = () => by('settings').close();
}

function listenToDocuments() {
  by('document-add').onclick = () => by('document-file').click();
  by('document-file').onchange = async (event) => { await documents.take([...event.target.files]); event.target.value = ''; };
  document.addEventListener('dragover', (event) => { event.preventDefault(); document.body.classList.add('dropping'); });
  document.addEventListener('dragleave', (event) => { if (!event.relatedTarget) document.body.classList.remove('dropping'); });
  document.addEventListener('drop', (event) => {
    event.preventDefault();
    document.body.classList.remove('dropping');
    documents.take([...event.dataTransfer.files]);
  });
}

function listen() {
  by('new').onclick = () => { closePanels(); begin(); };
  by('ask').onsubmit = (event) => { event.preventDefault(); send(); };
  by('text').onkeydown = (event) => {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
  };
  by('edit-cancel').onclick = () => { cancelEdit(); showAll(); by('text').focus(); };
  by('stop').onclick = () => { if (abort) abort.abort(); by('text').focus(); };
  for (const [button, panel] of kPanels) by(button).onclick = () => togglePanel(button, panel);
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || document.querySelector('dialog[open]')) return;  // a dialog closes by itself
    closePanels();
    if (abort) abort.abort();
  });
  addEventListener('storage', (event) => { if (event.key === kStore && event.newValue !== null) adopt(); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', memory.showMap);
  setInterval(() => { if (!document.hidden) memory.showMeter(); }, 5000);
}

function placeholder(name, value) {
  if (name === 'seed' && value === 0xFFFFFFFF) return 'random';
  if (name === 'max_tokens' && value < 0) return 'no limit';
  return Number.isInteger(value) || typeof value !== 'number' ? String(value) : String(Number(value.toPrecision(4)));  // floats of 32 bits
}

// The model, and the settings that it runs with where the fields are empty.
async function tellModel() {
  try {
    by('model').textContent = (await (await ask('v1/models')).json()).data[0].id;
    const { params } = (await (await ask('props')).json()).default_generation_settings;
    for (const [name, value] of Object.entries({ ...params, policy: params.kv_policy, budget: params.kv_budget })) {
      const field = document.querySelector('#settings input[name="' + name + '"]');
      if (field) field.placeholder = placeholder(name, value);
    }
    problem('');
    memory.showMeter();
  } catch (error) {
    problem(error.message + (error.status === 401 ? ' (its place is in the settings)' : ''));
  }
}

by('key').value = sessionStorage.getItem('pith.key') || '';
restore();
listen();
listenToSettings();
listenToDocuments();
if (kept.conversations.length > 0) { kept.current = kept.conversations[0]; showAll(); } else begin();
tellModel();
