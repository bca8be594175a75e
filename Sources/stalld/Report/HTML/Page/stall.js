// One stall: what its report says, its stack, and its call tree where the detail file was given.
function stackList(stack) {
  const list = node('ol', { class: 'stack' });
  if (stack < 0) {
    list.append(node('li', {}, stack === -1 ? 'The report has no stack.' : 'This page does not include the stack.'));
    return list;
  }
  const line = frame => node('li', { class: isOwn(frame) ? 'own' : '' }, node('span', { title: frameName(frame, true) }, frameName(frame)), data.frames[frame][5] ? node('span', { class: 'where' }, data.frames[frame][5] === 1 ? ' (inlined)' : ' (async)') : null,
      place(frame) ? node('span', { class: 'where', title: place(frame, true) }, `  ${place(frame)}`) : null);
  for (const item of shownStack(stack).reverse())
    list.append(typeof item === 'number' ? line(item) : foldedLine(item.frames.length, item.origin, () => [...item.frames].reverse().map(line)));
  return list;
}

// One line for several frames; a click shows them.
function foldedLine(count, origin, unfold, ...before) {
  const item = node('li', { class: before.length ? 'folded leaf' : 'folded' }, ...before, node('button', { type: 'button', onclick: () => {
    const lines = unfold();
    item.replaceWith(...lines);
    lines[0].tabIndex = -1;
    lines[0].focus();
  } }, `${count} frames of ${origin}`));
  return item;
}

// Nodes name their parent, which comes first: [parent, frame, milliseconds, what folds it].
function callTree(nodes) {
  const children = new Map();
  nodes.forEach(([parent], number) => { if (!children.has(parent)) children.set(parent, []); children.get(parent).push(number); });
  const total = (children.get(-1) || []).reduce((sum, number) => sum + nodes[number][2], 0) || 1;
  const words = ([, frame, ms]) => [node('span', { class: 'weight' }, `${duration(ms)} ${percent(ms / total)}`), node('span', { class: isOwn(frame) ? 'own' : '', title: frameName(frame, true) }, frameName(frame)),
    place(frame) ? node('span', { class: 'quiet', title: place(frame, true) }, `  ${place(frame)}`) : null];
  const heaviestFirst = parent => (children.get(parent) || []).sort((a, b) => nodes[b][2] - nodes[a][2]);
  // A chain without a branch stays on one level.
  const list = parent => node('ul', {}, ...heaviestFirst(parent).flatMap(number => {
    const chain = [];
    for (let below = heaviestFirst(number); below.length < 2; below = heaviestFirst(number)) {
      chain.push(number);
      if (!below.length) return lines(chain);
      number = below[0];
    }
    return [...lines(chain), node('li', {}, node('details', { open: true }, node('summary', {}, ...words(nodes[number])), list(number)))];
  }));
  const leaf = number => node('li', { class: 'leaf' }, ...words(nodes[number]));
  // Neighbours that fold are one line.
  function lines(chain) {
    const items = [];
    for (let start = 0, end; start < chain.length; start = end) {
      end = start;
      while (end < chain.length && !chosen.isWhole && nodes[chain[end]][3]) end++;
      const run = chain.slice(start, end);
      const origins = [...new Set(run.map(number => text(nodes[number][3])))];
      if (run.length > 1) items.push(foldedLine(run.length, origins.join(', ').replace(/, ([^,]*)$/, ' and $1'), () => run.map(leaf), words(nodes[run[0]])[0]));
      else items.push(...chain.slice(start, end = Math.max(end, start + 1)).map(leaf));
    }
    return items;
  }
  const tree = list(-1);
  tree.className = 'tree';
  return tree;
}

function openStall(row) {
  const dialog = document.getElementById('stall');
  const id = row[ID];
  const facts = [['When', moment(data.totals.first + row[START])], ['Duration', duration(row[MS]) + (row[STATE] === FATAL ? ', and the process ended' : row[STATE] === 1 ? ', end not reported' : '')],
    ['Cause', badge(row[CAUSE])], ['Service', text(row[SERVICE])], ['Host', text(row[HOST])], ['Loop', text(row[LOOP])], ['stall.id', node('code', {}, id)]];
  const body = [node('dl', { class: 'facts' }, ...facts.map(([name, value]) => node('div', { class: name === 'stall.id' ? 'long' : '' }, node('dt', {}, name), node('dd', {}, value))))];
  if (data.trees[id]) body.push(node('h3', {}, 'Call tree of all samples'), callTree(data.trees[id]), node('h3', {}, 'Stack'));
  else body.push(node('h3', {}, 'Stack, innermost first'));
  body.push(stackList(row[STACK]));
  dialog.replaceChildren(node('div', {},
    node('div', { class: 'top' }, node('h2', { id: 'stall-title', class: 'mono', title: groupName(row[GROUP], true) }, groupName(row[GROUP])),
      node('button', { class: 'plain', type: 'button', onclick: () => dialog.close() }, 'Close')),
    ...body));
  dialog.showModal();
  dialog.scrollTop = 0;
}
document.getElementById('stall').addEventListener('click', event => { if (event.target === event.currentTarget) event.currentTarget.close(); });
