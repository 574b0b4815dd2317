// documents.js - texts that are sent with messages: as chips, and shaded by what the cache still holds of them.
import { ask, by, element, number, problem, say } from './dom.js';
import { kept } from './store.js';

export const pending = [];  // [{name, text}]: they go with the next message
let pieces = [];            // for each document of the conversation: {found: [{token, begin, end}], text}, or nothing
let shown = 0;              // which of them is shown beside its shares
let map = null;             // of the newest answer

export function forget() { pieces = []; map = null; shown = 0; }

export function showPending() {
  by('document-line').hidden = pending.length === 0;
  by('document-line').replaceChildren(...pending.map((one, i) => {
    const remove = element('button', { type: 'button', textContent: '×', onclick: () => {
      pending.splice(i, 1);
      say(one.name + ' is removed');
      showPending();
      by('text').focus();
    } });
    remove.setAttribute('aria-label', 'Remove ' + one.name);
    return element('li', { className: 'chip' }, one.name + ', ' + number.format(one.text.length) + ' characters ', remove);
  }));
}

export async function take(files) {
  for (const file of files) {
    const text = await file.text();
    if (text.includes('\0')) { problem(file.name + ' is no text.'); continue; }
    if (text.trim() === '') { problem(file.name + ' is empty.'); continue; }
    pending.push({ name: file.name, text });
    problem('');
    say(file.name + ' is added');
  }
  showPending();
  by('text').focus();
}

function keptText(one) {
  if (one.kept === undefined) return 'not read yet';
  return one.kept > 0 && one.kept < 0.01 ? 'less than 1 % kept' : Math.round(100 * one.kept) + ' % kept';
}

// Of a message: each says how much of it the cache held at the end of the last answer, and shows it where a map is there.
export function chips(message) {
  return element('ul', { className: 'chips' }, ...message.documents.map((i) => {
    const one = kept.current.documents[i];
    const chip = element('button', { type: 'button', className: 'chip', onclick: () => { shown = i; showDocument(); reveal(); } },
      one.name + ' ', element('span', { className: 'kept-share', textContent: keptText(one) }));
    return element('li', {}, chip);
  }));
}

function reveal() {
  if (by('document-part').hidden) { say('What is kept of it shows when an answer comes'); return; }
  by('cache-panel').classList.add('open');
  by('show-cache').setAttribute('aria-expanded', 'true');
  by('document').focus();
}

export function contentOf(conversation, message) {
  return [...message.documents.map((i) => conversation.documents[i].text), message.content].join('\n\n');
}

// Which tokens the documents stand in: the prompt as the template writes it, cut into tokens.
export async function find(messages, told, signal) {
  try {
    const prompt = (await (await ask('apply-template', { messages }, signal)).json()).prompt;
    const tokens = (await (await ask('tokenize', { content: prompt, add_special: true, with_pieces: true }, signal)).json()).tokens;
    if (told !== kept.current) return;
    const encoder = new TextEncoder();
    const lengths = tokens.map((token) => typeof token.piece === 'string' ? encoder.encode(token.piece).length : token.piece.length);
    // A begin-of-text token stands in front of what the template writes, unless it writes it itself.
    const all = encoder.encode(prompt).length;
    let first = 0;
    for (let sum = lengths.reduce((a, b) => a + b, 0); sum > all && first < lengths.length; ++first) sum -= lengths[first];
    let from = 0;
    pieces = told.documents.map((one) => {
      const words = one.text.trim();  // templates trim messages
      const at = prompt.indexOf(words, from);
      if (at < 0) return null;
      from = at + words.length;
      return { text: encoder.encode(words), begin: encoder.encode(prompt.slice(0, at)).length, found: [] };
    });
    for (let i = first, place = 0; i < tokens.length; place += lengths[i++]) {
      for (const piece of pieces) {
        if (!piece) continue;
        const begin = Math.max(0, place - piece.begin);
        const end = Math.min(piece.text.length, place - piece.begin + lengths[i]);
        if (end > begin) piece.found.push({ token: i, begin, end });
      }
    }
    share();
  } catch { /* the map is there without it */ }
}

// Of each run of positions, the share that layers and heads hold.
export function shares(of) {
  const lanes = of.layers.flat().filter((lane) => lane.length > 0);
  const n = lanes.length > 0 ? lanes[0].length : 0;
  return Array.from({ length: n }, (_, i) => lanes.reduce((sum, lane) => sum + Number(lane[i]), 0) / (9 * lanes.length));
}

const heldOf = (share, piece) => share[Math.min(share.length - 1, Math.floor(piece.token / map.bin_tokens))] || 0;

export function setMap(next) {
  map = next;
  share();
}

// What is kept of every document, where both its tokens and a map are known.
function share() {
  if (!map || pieces.length === 0) { showDocument(); return; }
  const share = shares(map);
  pieces.forEach((piece, i) => {
    const one = kept.current.documents[i];
    if (one && piece && piece.found.length > 0) one.kept = piece.found.reduce((sum, at) => sum + heldOf(share, at), 0) / piece.found.length;
  });
  for (const chip of document.querySelectorAll('article .chips')) {
    const message = kept.current.messages[[...by('messages').children].indexOf(chip.closest('article'))];
    [...chip.querySelectorAll('.kept-share')].forEach((text, k) => { text.textContent = keptText(kept.current.documents[message.documents[k]]); });
  }
  showDocument();
}

export function showDocument() {
  const one = kept.current.documents[shown];
  const piece = pieces[shown];
  by('document-part').hidden = !(one && piece && map);
  if (by('document-part').hidden) return;
  const share = shares(map);
  const decoder = new TextDecoder();
  const runs = [];
  for (const at of piece.found) {
    const held = heldOf(share, at);
    const level = held < 0.02 ? 0 : Math.min(4, 1 + Math.floor(held * 4));
    const last = runs[runs.length - 1];
    if (last && last.level === level) last.end = at.end; else runs.push({ level, begin: at.begin, end: at.end });
  }
  by('document-title').textContent = one.name + ': ' + keptText(one);
  by('document').replaceChildren(...runs.map((run) =>
    element('span', { className: 'h' + run.level, textContent: decoder.decode(piece.text.subarray(run.begin, run.end)) })));
}
