// The report's data, what is chosen of it, and how it is written. Texts become nodes by textContent alone: names from services are never parsed as HTML.
const data = JSON.parse(document.getElementById('data').textContent);

// A stall is a row: seconds after the first, milliseconds, cause, group, service, host, stack, state, how many stalls it represents, id, loop.
const START = 0, MS = 1, CAUSE = 2, GROUP = 3, SERVICE = 4, HOST = 5, STACK = 6, STATE = 7, COUNT = 8, ID = 9, LOOP = 10;
const FATAL = 2, SUMMARY = 4;
const span = Math.max(data.totals.last - data.totals.first, 1);

// Causes with the most time first: so they are stacked and listed everywhere.
const causeTime = data.causes.map(() => 0);
for (const [, , cause, ms] of data.weights) causeTime[cause] += ms;
const byCauseTime = (a, b) => causeTime[b[0]] - causeTime[a[0]] || a[0] - b[0];

const chosen = { causes: new Set(data.causes.keys()), group: null, from: 0, to: span, isWhole: false };
const views = [];
const isTimeChosen = () => chosen.from > 0 || chosen.to < span;
const isFiltered = () => chosen.group !== null || isTimeChosen() || chosen.causes.size < data.causes.length;

function choose(change) {
  Object.assign(chosen, change);
  render();
}

function render() {
  const selection = select();
  for (const view of views) view(selection);
}

// What is chosen, as the views want it: groups with their numbers, weighted stacks, rows.
function select() {
  const isChosen = (cause, group) => chosen.causes.has(cause) && (chosen.group === null || chosen.group === group);
  const rows = data.stalls.filter(row => isChosen(row[CAUSE], row[GROUP]));
  const inTime = rows.filter(row => row[START] + row[MS] / 1000 >= chosen.from && row[START] <= chosen.to);
  if (!isFiltered()) return { rows, inTime, weights: data.weights, groups: data.groups.map((group, number) => ({ ...group, number })) };
  const isWhole = data.complete;
  const weights = isWhole
    ? inTime.map(row => [row[STACK], row[GROUP], row[CAUSE], row[MS], row[COUNT]])
    : data.weights.filter(weight => isChosen(weight[2], weight[1]));
  const groups = new Map();
  for (const [stack, number, cause, ms, count] of weights) {
    if (number < 0) continue;
    let group = groups.get(number);
    if (!group) groups.set(number, group = { ...data.groups[number], number, ms: 0, count: 0, p50: null, p95: null, p99: null, max: null, hosts: null, suppressed: null, fatal: null, first: null, last: null });
    group.ms += ms;
    group.count += count;
    const times = (group.times ??= new Map()).get(cause) ?? { ms: 0, stacks: new Map() };
    group.times.set(cause, times);
    times.ms += ms;
    times.stacks.set(stack, (times.stacks.get(stack) ?? 0) + ms);
  }
  // The cause with the most time, and the stack with the most time of that cause: what a row shows belongs together.
  for (const group of groups.values()) {
    const [cause, times] = [...group.times].reduce((a, b) => b[1].ms > a[1].ms ? b : a);
    const stacks = [...times.stacks].filter(([stack]) => stack >= 0);
    group.cause = data.causes[cause];
    group.stack = stacks.length ? stacks.reduce((a, b) => b[1] > a[1] ? b : a)[0] : -1;
  }
  if (isWhole) {
    const told = new Map();
    for (const row of inTime) {
      if (!told.has(row[GROUP])) told.set(row[GROUP], []);
      told.get(row[GROUP]).push(row);
    }
    for (const [number, stalls] of told) {
      const group = groups.get(number);
      if (!group) continue;
      const durations = stalls.filter(row => row[STATE] !== SUMMARY).map(row => row[MS]).sort((a, b) => a - b);
      const rank = share => durations.length ? durations[Math.max(0, Math.ceil(share * durations.length) - 1)] : null;
      Object.assign(group, { p50: rank(0.5), p95: rank(0.95), p99: rank(0.99), max: rank(1), hosts: new Set(stalls.map(row => row[HOST])).size,
        suppressed: stalls.filter(row => row[STATE] === SUMMARY).reduce((sum, row) => sum + row[COUNT], 0), fatal: stalls.filter(row => row[STATE] === FATAL).length,
        first: data.totals.first + Math.min(...stalls.map(row => row[START])), last: data.totals.first + Math.max(...stalls.map(row => row[START] + row[MS] / 1000)) });
    }
  }
  return { rows, inTime, weights, groups: [...groups.values()] };
}

// MARK: Words

const text = number => data.texts[number];
const causeName = number => data.causes[number];
const causeClass = number => 'c-' + (/^[a-z]+$/.test(data.causes[number]) ? data.causes[number] : 'unknown');
const plural = (count, one) => `${whole(count)} ${one}${count === 1 ? '' : 's'}`;
const was = count => count === 1 ? 'was' : 'were';
const whole = value => Math.round(value).toLocaleString('en-US');
const percent = share => share >= 0.9995 ? '100 %' : share < 0.001 ? '< 0.1 %' : `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;

function duration(ms) {
  if (ms === null || ms === undefined) return '–';
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 9995) return `${(ms / 1000).toFixed(2)} s`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return seconds % 60 ? `${Math.floor(seconds / 60)} min ${seconds % 60} s` : `${seconds / 60} min`;
  const minutes = Math.round(seconds / 60);
  return minutes < 2880 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${(minutes / 1440).toFixed(1)} d`;
}

// Marks of a logarithmic axis of durations, as people name them.
const axisDuration = ms => ms < 1000 ? `${ms} ms` : ms < 60000 ? `${ms / 1000} s` : ms < 3600000 ? `${ms / 60000} min` : ms < 86400000 ? `${ms / 3600000} h` : `${ms / 86400000} d`;
const NAMED = [1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000, 60000, 180000, 600000, 1800000, 3600000, 10800000, 36000000, 86400000, 259200000, 864000000];
const BETWEEN = [2, 5, 20, 50, 200, 400, 500, 700, 1500, 2000, 5000, 20000];
function namedDurations(lowest, highest, room, least) {
  const marks = [];
  const isWithin = ms => Math.log10(ms) >= lowest && Math.log10(ms) <= highest;
  const apart = ms => marks.every(other => Math.abs(Math.log10(ms / other)) / (highest - lowest) * room >= least);
  const named = NAMED.filter(isWithin);
  for (const ms of named.length < 3 ? [...named, ...BETWEEN.filter(isWithin)] : [...named.filter(ms => Math.log10(ms) % 1 === 0), ...named]) if (apart(ms)) marks.push(ms);
  return marks;
}

// Times are UTC, as in the reports.
function moment(seconds, isShort) {
  if (seconds === null || seconds === undefined) return '–';
  const iso = new Date(seconds * 1000).toISOString();
  return isShort ? iso.slice(0, 16).replace('T', ' ') : iso.replace('T', ' ').replace('Z', ' UTC');
}

// Names are short unless the whole ones are chosen; a title has the whole name.
const groupName = (number, isWhole = chosen.isWhole) => number < 0 ? '(others)' : (!isWhole && data.groups[number].short) || plainName(data.groups[number].key) || '(not known)';
// Swift marks what is private to a file by a hash of it, which means nothing to people.
const plainName = name => name.replace(/\((\S[^()]*) in _[0-9A-F]{32}\)/g, '$1');
const frameName = (frame, isWhole = chosen.isWhole) => frame < 0 ? (frame === -1 ? '(no stack)' : '(other stacks)') : plainName(text(data.frames[frame][isWhole ? 0 : 6]));
const isOwn = frame => frame >= 0 && data.frames[frame][4] === 1;
function place(frame, isLong) {
  if (frame < 0) return '';
  const [, file, line, module] = data.frames[frame];
  const short = path => isLong ? path : path.split('/').pop();
  return file ? short(text(file)) + (line ? `:${line}` : '') : module ? short(text(module)) : '';
}
// A stack's frames, the outermost first.
const stackOf = number => number < 0 ? [number] : data.stacks[number];
// A stack as it is shown: frames, and an object for neighbours that fold.
function shownStack(number) {
  const frames = stackOf(number), items = [];
  let next = 0;
  for (const [start, count, origin] of chosen.isWhole || number < 0 ? [] : data.folds[number]) {
    items.push(...frames.slice(next, start), { frames: frames.slice(start, start + count), origin: text(origin) });
    next = start + count;
  }
  return [...items, ...frames.slice(next)];
}

// MARK: Nodes

function node(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === 'class') element.className = value;
    else if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? '' : value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}

function shape(name, properties = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(properties)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const badge = cause => node('span', { class: `badge ${causeClass(cause)}` }, node('span', { class: 'dot' }), node('span', {}, causeName(cause)));

const tip = node('div', { class: 'tip', role: 'status', hidden: true });
document.body.append(tip);
function showTip(words, x, y) {
  tip.textContent = words;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${y + 16 + box.height > innerHeight ? y - box.height - 10 : y + 16}px`;
}
const hideTip = () => { tip.hidden = true; };

// Draws at once, and again when the width has changed.
function onWidth(element, draw) {
  let width = Math.round(element.clientWidth);
  draw(width);
  new ResizeObserver(entries => {
    const now = Math.round(entries[0].contentRect.width);
    // Not within the observer's turn: what draws changes sizes itself.
    if (now && now !== width) { width = now; requestAnimationFrame(() => draw(now)); }
  }).observe(element);
}
