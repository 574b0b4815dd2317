// markdown.js - Markdown as elements: headings, lists, quotes, tables, code, emphasis, links. Every piece of the text becomes a text
// node, so HTML in it is shown and never read; a link leads to the web or to mail, and a picture is a link to it.
// Text that is still coming is read, too: a block of code without its end ends with the text. Cost: O(n) for a text without nesting.
import { element } from './dom.js';

const kDeepest = 12;  // lists in lists, emphasis in emphasis

// ---- in a line ----

const kInline = new RegExp([
  '(?<ticks>`+)(?<code>.+?)(?<!`)\\k<ticks>(?!`)',
  '!?\\[(?<label>[^\\]\\n]*)\\]\\((?<address>[^\\s()]*(?:\\([^\\s()]*\\)[^\\s()]*)*)\\)',
  '\\*\\*(?<strong>(?=\\S).+?(?<=\\S))\\*\\*(?!\\*)',
  '(?<!\\w)__(?<strong2>(?=\\S).+?(?<=\\S))__(?!\\w)',
  '\\*(?<em>(?=[^\\s*]).+?(?<=[^\\s*]))\\*(?!\\*)',
  '(?<!\\w)_(?<em2>(?=[^\\s_]).+?(?<=[^\\s_]))_(?!\\w)',
  '~~(?<del>(?=\\S).+?(?<=\\S))~~',
  '\\\\(?<escaped>[\\\\`*_{}\\[\\]()#+\\-.!~|>])',
].join('|'), 's');

function inline(text, depth = 0) {
  const made = document.createDocumentFragment();
  for (let rest = text; rest !== '';) {
    const found = depth < kDeepest ? kInline.exec(rest) : null;
    if (!found) { made.append(rest); break; }
    made.append(rest.slice(0, found.index), inlineElement(found, depth));
    rest = rest.slice(found.index + found[0].length);
  }
  return made;
}

function inlineElement(found, depth) {
  const { code, label, address, strong, strong2, em, em2, del, escaped } = found.groups;
  if (code !== undefined) return element('code', { textContent: code.replace(/^ (.+) $/, '$1') });
  if (escaped !== undefined) return escaped;
  if (label !== undefined) {
    if (!/^(https?|mailto):/i.test(address)) return found[0];  // javascript:, data: and what leads into this page stay text
    return element('a', { href: address, target: '_blank', rel: 'noopener noreferrer nofollow' }, inline(label || address, depth + 1));
  }
  if (del !== undefined) return element('del', {}, inline(del, depth + 1));
  const name = strong !== undefined || strong2 !== undefined ? 'strong' : 'em';
  return element(name, {}, inline(strong ?? strong2 ?? em ?? em2, depth + 1));
}

// ---- blocks ----

const kFence = /^( {0,3})(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const kHeading = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const kRule = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const kItem = /^(\s*)([-*+]|\d{1,9}[.)])(\s+)(?=\S)/;
const kQuote = /^ {0,3}> ?/;
const kColumns = /^\s*\|?(\s*:?-+:?\s*\|)+\s*(:?-+:?)?\s*$/;

function codeBlock(language, lines) {
  const code = element('code', { textContent: lines.join('\n') });
  const copy = element('button', { type: 'button', textContent: 'Copy', className: 'copy' });
  copy.setAttribute('aria-label', 'Copy the ' + (language || 'code'));
  copy.onclick = async () => {
    try { await navigator.clipboard.writeText(code.textContent); copy.textContent = 'Copied'; } catch { copy.textContent = 'Not allowed'; }
  };
  const block = element('pre', { tabIndex: 0 }, code);
  block.setAttribute('aria-label', language ? language + ' code' : 'Code');
  block.setAttribute('role', 'region');
  return element('div', { className: 'code' }, element('div', { className: 'code-head' }, element('span', { textContent: language }), copy), block);
}

function cells(line) { return line.trim().replace(/^\||\|$/g, '').split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, '|')); }

function table(head, rows) {
  const row = (line, name) => element('tr', {}, ...cells(line).map((cell) => element(name, {}, inline(cell))));
  return element('div', { className: 'table' },
    element('table', {}, element('thead', {}, row(head, 'th')), element('tbody', {}, ...rows.map((line) => row(line, 'td')))));
}

// Lines of one list from `from` on: each item is what stands behind its mark, and what is indented as far below it.
function list(lines, from, depth) {
  const [, margin, mark] = kItem.exec(lines[from]);
  const ordered = /\d/.test(mark);
  const made = element(ordered ? 'ol' : 'ul', {});
  if (ordered) made.start = parseInt(mark, 10);
  let at = from;
  while (at < lines.length) {
    const found = kItem.exec(lines[at]);
    if (!found || found[1].length > margin.length + 1 || found[1].length < margin.length || /\d/.test(found[2]) !== ordered || kRule.test(lines[at])) break;
    const indent = found[0].length;
    const inside = [lines[at].slice(indent)];
    for (++at; at < lines.length; ++at) {
      const blank = lines[at].trim() === '';
      const deeper = /^\s*/.exec(lines[at])[0].length > margin.length + 1;
      if (blank ? at + 1 >= lines.length || !/^\s{2,}\S/.test(lines[at + 1]) : !deeper) break;
      inside.push(lines[at].slice(Math.min(indent, /^\s*/.exec(lines[at])[0].length)));
    }
    made.append(element('li', {}, blocks(inside, depth + 1, /*tight=*/true)));
    while (at + 1 < lines.length && lines[at].trim() === '' && kItem.test(lines[at + 1])) ++at;
  }
  return [made, at];
}

function blocks(lines, depth, tight = false) {
  const made = document.createDocumentFragment();
  if (depth > kDeepest) { made.append(lines.join('\n')); return made; }
  const begins = (line) => kFence.test(line) || kHeading.test(line) || kRule.test(line) || kItem.test(line) || kQuote.test(line);
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    const fence = kFence.exec(line);
    const heading = kHeading.exec(line);
    if (line.trim() === '') {
      ++at;
    } else if (fence) {
      const inside = [];
      const end = new RegExp('^ {0,3}' + fence[2][0] + '{' + fence[2].length + ',}\\s*$');
      for (++at; at < lines.length && !end.test(lines[at]); ++at) inside.push(lines[at].slice(Math.min(fence[1].length, /^ */.exec(lines[at])[0].length)));
      ++at;
      made.append(codeBlock(fence[3], inside));
    } else if (heading) {  // below "Pith", which is an h3
      made.append(element('h' + Math.min(6, 3 + heading[1].length), {}, inline(heading[2])));
      ++at;
    } else if (kRule.test(line)) {
      made.append(element('hr', {}));
      ++at;
    } else if (kQuote.test(line)) {
      const inside = [];
      for (; at < lines.length && kQuote.test(lines[at]); ++at) inside.push(lines[at].replace(kQuote, ''));
      made.append(element('blockquote', {}, blocks(inside, depth + 1)));
    } else if (kItem.test(line)) {
      const [of, next] = list(lines, at, depth);
      made.append(of);
      at = next;
    } else if (line.includes('|') && at + 1 < lines.length && kColumns.test(lines[at + 1])) {
      const rows = [];
      for (at += 2; at < lines.length && lines[at].includes('|'); ++at) rows.push(lines[at]);
      made.append(table(line, rows));
    } else {
      const words = [];
      do words.push(lines[at++]); while (at < lines.length && lines[at].trim() !== '' && !begins(lines[at]));
      const text = inline(words.join('\n').trim());
      made.append(tight && made.childNodes.length === 0 ? text : element('p', {}, text));  // an item's first line stands beside its mark
    }
  }
  return made;
}

export function markdown(text) { return blocks(text.split(/\r?\n/), 0); }
