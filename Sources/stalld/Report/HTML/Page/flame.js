// The flame graph: callers above what they call, as wide as the stalled milliseconds.
{
  const host = document.getElementById('flame');
  const status = document.getElementById('flame-status');
  const search = document.getElementById('search');
  const ROW = 19, DEPTH = 120, FOLD = -3;
  let root = null, zoomed = null, needle = '', focused = null;

  // Calls from several lines of a function are one frame: its name in its module.
  const functionOf = frame => frame < 0 ? frame : data.frames[frame][0] * data.texts.length + data.frames[frame][3];

  function grow(weights) {
    const root = { frame: -9, key: -9, ms: 0, count: 0, children: new Map(), parent: null, depth: 0 };
    const add = (at, ms, count) => { at.ms += ms; at.count += count; };
    for (const [stack, , , ms, count] of weights) {
      let at = root;
      add(at, ms, count);
      for (const item of shownStack(stack).slice(0, DEPTH)) {
        const isFold = typeof item !== 'number', frame = isFold ? FOLD : item;
        const key = isFold ? `frames of ${item.origin}` : functionOf(frame);
        let child = at.children.get(key);
        if (!child) at.children.set(key, child = { frame, key, isOneLine: true, ms: 0, count: 0, children: new Map(), parent: at, depth: at.depth + 1 });
        else if (child.frame !== frame) child.isOneLine = false;
        add(child, ms, count);
        at = child;
      }
    }
    return root;
  }

  const nameOf = (it, isWhole) => it === root ? 'all stalls' : it.frame === FOLD ? it.key : frameName(it.frame, isWhole);
  // A name always has the same tint, so that neighbours can be distinguished.
  const tint = name => [...name].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) % 997, 7) % 3;
  const isMatch = it => needle !== '' && it !== root && [nameOf(it, false), nameOf(it, true)].some(name => name.toLowerCase().includes(needle));
  const path = it => { const path = []; for (; it; it = it.parent) path.push(it.key); return path.reverse(); };

  // The time under frames that match, none counted twice.
  function matched(it) {
    if (isMatch(it)) return it.ms;
    let sum = 0;
    for (const child of it.children.values()) sum += matched(child);
    return sum;
  }

  function draw() {
    const above = [];
    for (let it = zoomed.parent; it; it = it.parent) above.unshift(it);
    const nodes = [];
    let deepest = 0;
    const place = (it, left, width, isAbove) => {
      deepest = Math.max(deepest, it.depth);
      const name = nameOf(it);
      const button = node('button', { type: 'button', tabindex: '-1', class: [isMatch(it) ? 'match' : isOwn(it.frame) ? 'own' : '', `tint${tint(name)}`, isAbove ? 'above' : ''].join(' ').trim(),
        'aria-label': `${name}, ${duration(it.ms)}, ${percent(it.ms / Math.max(root.ms, 1e-9))}` });
      if (width > 0.012) button.textContent = name;
      button.style.left = `${left * 100}%`;
      button.style.width = `${width * 100}%`;
      button.style.top = `${it.depth * ROW}px`;
      button.flame = it;
      it.button = button;
      it.isDrawn = true;
      nodes.push(button);
    };
    const clear = it => { it.isDrawn = false; it.button = null; it.children.forEach(clear); };
    clear(root);
    for (const it of above) place(it, 0, 1, true);
    const spread = (it, left, width) => {
      place(it, left, width, false);
      for (const child of [...it.children.values()].sort((a, b) => b.ms - a.ms)) {
        const part = it.ms > 0 ? child.ms / zoomed.ms : 0;
        // Narrower than a point on a wide screen.
        if (part > 0.0008) spread(child, left, part);
        left += part;
      }
    };
    spread(zoomed, 0, 1);
    host.style.height = `${(deepest + 1) * ROW}px`;
    host.replaceChildren(...nodes);
    focused = focused && focused.isDrawn ? focused : zoomed;
    focused.button.tabIndex = 0;
    document.getElementById('flame-reset').disabled = zoomed === root;
    tell(zoomed);
  }

  function tell(it) {
    const share = `${percent(it.ms / Math.max(root.ms, 1e-9))} of ${duration(root.ms)}`;
    const parts = [node('b', { class: 'mono' }, nameOf(it, true)), ` – ${duration(it.ms)}, ${share}, ${plural(it.count, 'stall')}`];
    const where = it === root ? '' : place(it.frame, true).replace(it.isOneLine ? '' : /:\d+$/, '');
    if (where) parts.push(' – ', node('span', { class: 'quiet mono' }, where));
    if (needle) parts.push(node('div', { id: 'matched' }, `Matched “${search.value}”: ${duration(matched(root))}, ${percent(root.ms ? matched(root) / root.ms : 0)} of the time`));
    status.replaceChildren(...parts);
  }

  function zoom(it) {
    zoomed = it;
    focused = it;
    draw();
  }
  function focus(it) {
    if (!it || !it.button) return;
    if (focused && focused.button) focused.button.tabIndex = -1;
    focused = it;
    it.button.tabIndex = 0;
    it.button.focus();
    tell(it);
  }
  const sibling = (it, by) => {
    const row = [...host.children].filter(button => button.flame.depth === it.depth).sort((a, b) => parseFloat(a.style.left) - parseFloat(b.style.left));
    const next = row[row.indexOf(it.button) + by];
    return next && next.flame;
  };
  host.addEventListener('click', event => {
    const it = event.target.flame;
    if (!it) return;
    zoom(it);
    it.button.focus();
  });
  host.addEventListener('pointerover', event => { if (event.target.flame) tell(event.target.flame); });
  host.addEventListener('pointerleave', () => tell(zoomed));
  host.addEventListener('focusin', event => { if (event.target.flame) tell(event.target.flame); });
  host.addEventListener('keydown', event => {
    const it = event.target.flame;
    if (!it) return;
    const widest = () => [...it.children.values()].filter(child => child.isDrawn).sort((a, b) => b.ms - a.ms)[0];
    const keys = { ArrowUp: () => focus(it.parent), ArrowDown: () => focus(widest()), ArrowLeft: () => focus(sibling(it, -1)), ArrowRight: () => focus(sibling(it, 1)),
      Escape: () => { zoom(root); focus(root); }, Home: () => { zoom(root); focus(root); } };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  const whole = document.getElementById('whole');
  whole.addEventListener('click', () => {
    choose({ isWhole: !chosen.isWhole });
    whole.setAttribute('aria-pressed', String(chosen.isWhole));
  });
  document.getElementById('flame-reset').addEventListener('click', () => zoom(root));
  search.addEventListener('input', () => { needle = search.value.trim().toLowerCase(); draw(); });
  search.addEventListener('keydown', event => { if (event.key === 'Escape') { search.value = ''; needle = ''; draw(); } });

  views.push(selection => {
    const before = zoomed ? path(zoomed) : [];
    root = zoomed = grow(selection.weights);
    focused = null;
    for (const key of before.slice(1)) {
      if (!zoomed.children.has(key)) { zoomed = root; break; }
      zoomed = zoomed.children.get(key);
    }
    draw();
  });
}
