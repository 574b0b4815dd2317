// memory.js - what the cache holds: the conversation's numbers and map, and the meter of all K/V memory of the server.
import { ask, by, bytes, element, number } from './dom.js';
import { shares } from './documents.js';
import { kept } from './store.js';

let map = null;  // of the newest answer

export function setMap(next) {
  map = next;
  showMap();
}

export function showMap() {
  const canvas = by('map');
  const ink = canvas.getContext('2d');
  const lanes = map ? map.layers.flat() : [];
  const n = lanes.reduce((most, lane) => Math.max(most, lane.length), 0);
  canvas.width = Math.max(1, n);
  canvas.height = Math.max(1, lanes.length);
  ink.clearRect(0, 0, canvas.width, canvas.height);
  if (n === 0) { by('map-text').textContent = 'Shown when an answer comes.'; return; }
  const style = getComputedStyle(document.documentElement);
  const colours = [style.getPropertyValue('--kept'), style.getPropertyValue('--pinned')];
  const isPinned = Array.from({ length: n }, (_, i) => map.pinned.some(([begin, end]) =>
    i * map.bin_tokens < end && (i + 1) * map.bin_tokens > begin));
  lanes.forEach((lane, y) => {
    for (let x = 0; x < lane.length; ++x) {
      if (lane[x] === '0') continue;
      ink.globalAlpha = Number(lane[x]) / 9;
      ink.fillStyle = colours[Number(isPinned[x])];
      ink.fillRect(x, y, 1, 1);
    }
  });
  const share = shares(map);
  const held = share.reduce((a, b) => a + b, 0) / share.length;
  by('map-text').textContent = number.format(map.n_tokens) + ' tokens, ' + map.layers.length + ' layers of ' +
    map.layers[0].length + ' heads: ' + Math.round(100 * held) + ' % of the entries are held.';
}

export function showNumbers() {
  const { settings, cost } = kept.current;
  const rows = [['Policy', settings.policy || 'the server’s'], ['Budget', settings.budget || 'the server’s']];
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
}

// K/V held by all users of the server, of its ceiling; without a ceiling, of the most that was ever held.
export async function showMeter() {
  let told;
  try { told = await (await ask('metrics')).text(); } catch { return; }  // tellModel() says what is wrong
  const value = (name) => Number((told.split('\n').find((line) => line.startsWith(name + ' ')) || ' NaN').split(' ')[1]);
  const held = value('pith_kv_bytes{state="held"}');
  const idle = value('pith_kv_bytes{state="idle"}');
  const ceiling = value('pith_kv_budget_bytes');
  if (Number.isNaN(held) || Number.isNaN(ceiling)) return;
  const most = ceiling > 0 ? ceiling : Math.max(1, value('pith_kv_peak_bytes'));
  const meter = by('memory');
  meter.max = most;
  meter.high = ceiling > 0 ? 0.9 * most : most;
  meter.value = held;
  const text = bytes(held) + (ceiling > 0 ? ' of ' + bytes(ceiling) : ', no ceiling');
  by('memory-text').textContent = text;
  meter.title = text + (idle > 0 ? '; ' + bytes(idle) + ' of it is kept of earlier prompts and goes first' : '');
  meter.setAttribute('aria-valuetext', meter.title);
}
