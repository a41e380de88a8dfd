// Draws the charts of the report from the JSON in the page. All text is added as text nodes.
(() => {
  'use strict';
  const data = JSON.parse(document.getElementById('run-data').textContent);
  const SVG = document.querySelector('nav svg').namespaceURI;
  const HEIGHT = 250;
  const MARGIN = {left: 54, right: 12, top: 12, bottom: 26};
  const charts = [];

  // ---- small building blocks -------------------------------------------------------------------
  const make = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const draw = (parent, name, attributes = {}, text) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  };
  const color = (i) => `var(--c${i % 8})`;
  const isNumber = (value) => typeof value === 'number' && Number.isFinite(value);

  const trim = (text) => text.includes('.') ? text.replace(/\.?0+$/, '') : text;
  const short = (value) => {
    const size = Math.abs(value);
    if (size === 0) return '0';
    if (size >= 1e9) return trim((value / 1e9).toPrecision(3)) + ' G';
    if (size >= 1e6) return trim((value / 1e6).toPrecision(3)) + ' M';
    if (size >= 1e4) return trim((value / 1e3).toPrecision(3)) + ' k';
    if (size >= 1e3) return Math.round(value).toLocaleString('en-US');
    if (size >= 1e-3) return trim(value.toPrecision(3));
    return value.toExponential(1).replace('.0e', 'e');
  };
  const formats = {
    number: short,
    percent: (value) => trim((100 * value).toFixed(1)) + ' %',
    seconds: (value) => value >= 1 ? trim(value.toPrecision(3)) + ' s' : trim((1e3 * value).toPrecision(3)) + ' ms',
    bytes: (value) => value >= 2 ** 30 ? trim((value / 2 ** 30).toPrecision(3)) + ' GiB' : trim((value / 2 ** 20).toPrecision(3)) + ' MiB',
    step: (value) => value.toLocaleString('en-US'),
  };

  const niceTicks = (low, high, count) => {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) ticks.push(i * step);
    return ticks;
  };
  // Memory is counted in powers of two, so its ticks are too.
  const byteTicks = (low, high, count) => {
    const unit = high >= 2 ** 30 ? 2 ** 30 : 2 ** 20;
    return niceTicks(low / unit, high / unit, count).map((tick) => tick * unit);
  };
  const logTicks = (low, high) => {
    const ticks = [];
    for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); ++p)
      for (const m of high / low > 30 ? [1] : [1, 2, 5]) {
        const tick = m * 10 ** p;
        if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
      }
    return ticks;
  };
  // A running mean, mostly over `window` values; it starts at the first value without a lag.
  const smooth = (values, window) => {
    const keep = 1 - 1 / Math.max(1, window);
    let sum = 0, weight = 0;
    return values.map((value) => {
      if (!isNumber(value)) return null;
      sum = keep * sum + (1 - keep) * value;
      weight = keep * weight + (1 - keep);
      return sum / weight;
    });
  };
  const path = (xs, ys, x, y) => {
    let text = '', pen = false;
    ys.forEach((value, i) => {
      if (!isNumber(value)) { pen = false; return; }
      text += `${pen ? 'L' : 'M'}${x(xs[i]).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = true;
    });
    return text;
  };
  const nearest = (xs, x) => {
    let low = 0, high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] < x) low = middle; else high = middle;
    }
    return Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
  };

  // ---- one chart -------------------------------------------------------------------------------
  // spec: id, format, stacked, zero (axis from 0), top (axis up to), log (offer it), smooth,
  //       window (of the running mean; default: 1/40 of the run), perPoint (steps of a point),
  //       series [{name, values, x (default: the steps), points (draw dots), quiet (no name of its
  //       own: it goes with the series of its name)}]
  class Chart {
    constructor(spec) {
      this.spec = spec;
      this.host = document.getElementById(spec.id);
      this.format = formats[spec.format];
      this.series = spec.series.map((each, i) => ({x: data.step, ...each, color: each.color ?? color(i), on: true}))
        .filter((each) => each.values.some(isNumber));
      if (this.series.length === 0) {
        this.host.append(make('p', {class: 'about'}, 'The run recorded no values for this chart.'));
        return;
      }
      for (const each of this.series) each.smooth = spec.smooth && each.values.length >= 60 && !each.points ? smooth(each.values, spec.window ?? each.values.length / 40) : null;
      this.log = false;
      this.addSwitches();
      this.plot = make('div', {class: 'plot'});
      this.host.append(this.plot);
      this.clipped = make('p', {class: 'clipped'});
      this.host.append(this.clipped);
      this.addLegend();
      this.tip = make('div', {class: 'tip', hidden: ''});
      this.host.append(this.tip);
      charts.push(this);
      this.render();
    }

    addSwitches() {
      if (!this.spec.log) return;
      const button = make('button', {class: 'switch', 'aria-pressed': 'false'}, 'log scale');
      button.addEventListener('click', () => {
        this.log = !this.log;
        button.setAttribute('aria-pressed', String(this.log));
        this.render();
      });
      this.host.parentElement.querySelector('.switches').append(button);
    }

    addLegend() {
      const named = this.series.filter((each) => !each.quiet);
      if (named.length < 2) return;
      const legend = make('div', {class: 'legend'});
      for (const each of named) {
        const mark = make('i', {style: `background:${each.dashed ? `repeating-linear-gradient(90deg, ${each.color} 0 4px, transparent 4px 7px)` : each.color}`});
        const button = make('button', {'aria-pressed': 'true'}, mark, each.name);
        button.addEventListener('click', () => {
          each.on = !each.on;
          for (const other of this.series) if (other.quiet && other.name === each.name) other.on = each.on;
          button.setAttribute('aria-pressed', String(each.on));
          this.render();
        });
        legend.append(button);
      }
      this.host.append(legend);
    }

    // The tooltip reads the smooth line where there is one.
    line(each) { return each.smooth ?? each.values; }

    range(shown) {
      let low = Infinity, high = -Infinity;
      if (this.spec.stacked) {
        low = 0;
        const sums = data.step.map((_, i) => shown.reduce((sum, each) => sum + (each.values[i] ?? 0), 0)).sort((a, b) => a - b);
        // A few long steps must not flatten the rest; the chart's note says what they reach.
        const most = sums[sums.length - 1] * 1.04;
        high = Math.min(most, sums[Math.floor((sums.length - 1) * 0.85)] * 1.3);
        const above = sums.filter((sum) => sum > high).length;
        this.clipped.textContent = above === 0 ? '' : `${above} of ${sums.length} are above, up to ${this.format(sums[sums.length - 1])}`;
      } else {
        for (const each of shown) {
          // A few spikes must not flatten the curve: the axis covers 99 % of the raw values.
          const raw = each.values.filter(isNumber).sort((a, b) => a - b);
          if (raw.length === 0) continue;
          const cut = raw.length > 200 ? raw[Math.floor(raw.length * 0.99)] : raw[raw.length - 1];
          const line = this.line(each).filter(isNumber);
          low = Math.min(low, raw[0]);
          high = Math.max(high, cut, line.reduce((a, b) => Math.max(a, b), -Infinity));
        }
      }
      if (this.spec.zero && !this.log) low = Math.min(0, low);
      if (this.spec.top !== undefined && !this.log) high = Math.max(high, this.spec.top);
      if (this.log) {
        const positive = shown.flatMap((each) => each.values.filter((value) => isNumber(value) && value > 0));
        low = positive.reduce((a, b) => Math.min(a, b), Infinity);
        if (!isNumber(low)) { low = 0.1; high = 1; }
      }
      if (!isNumber(low) || !isNumber(high)) return [0, 1];
      if (high - low <= 1e-12 * Math.abs(high)) { const pad = Math.abs(high) || 1; return [Math.min(low, low - pad * 0.1), high + pad * 0.1]; }
      if (this.log) return [low, high];
      return [this.spec.zero || low === 0 ? low : low - 0.04 * (high - low), this.spec.top === high ? high : high + 0.04 * (high - low)];
    }

    render() {
      const width = Math.max(260, this.plot.clientWidth || this.host.clientWidth);
      this.width = width;
      const shown = this.series.filter((each) => each.on);
      const steps = this.series.flatMap((each) => [each.x[0], each.x[each.x.length - 1]]);
      const first = Math.min(...steps), last = Math.max(...steps);
      const [low, high] = this.range(shown.length ? shown : this.series);
      const inner = {width: width - MARGIN.left - MARGIN.right, height: HEIGHT - MARGIN.top - MARGIN.bottom};
      const x = (step) => MARGIN.left + (last === first ? 0.5 : (step - first) / (last - first)) * inner.width;
      const share = this.log ? (v) => Math.log(Math.max(v, low) / low) / Math.log(high / low) : (v) => (v - low) / (high - low);
      const y = (value) => MARGIN.top + (1 - Math.min(1.02, share(value))) * inner.height;
      const svg = document.createElementNS(SVG, 'svg');
      svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
      svg.setAttribute('height', HEIGHT);
      svg.setAttribute('role', 'img');
      svg.setAttribute('aria-label', this.host.dataset.label);
      const ticks = this.log ? logTicks : this.spec.format === 'bytes' ? byteTicks : niceTicks;
      for (const tick of ticks(low, high, 5)) {
        draw(svg, 'line', {class: 'gridline', x1: MARGIN.left, x2: width - MARGIN.right, y1: y(tick), y2: y(tick)});
        draw(svg, 'text', {x: MARGIN.left - 9, y: y(tick) + 4, 'text-anchor': 'end'}, this.format(tick));
      }
      draw(svg, 'line', {class: 'axis', x1: MARGIN.left, x2: width - MARGIN.right, y1: HEIGHT - MARGIN.bottom, y2: HEIGHT - MARGIN.bottom});
      const stepTicksOf = (count) => niceTicks(first, last, count).filter(Number.isInteger);
      let stepTicks = last === first ? [first] : stepTicksOf(Math.max(2, Math.floor(width / 110)));
      // In a narrow chart, an unlucky choice of round steps would leave only one tick.
      for (let count = 3; last !== first && stepTicks.length < 3 && count < 8; ++count) stepTicks = stepTicksOf(count);
      for (const tick of stepTicks)
        draw(svg, 'text', {x: Math.min(x(tick), width - MARGIN.right - 12), y: HEIGHT - 8, 'text-anchor': 'middle'}, formats.step(tick));
      if (this.spec.stacked) this.areas(svg, shown, x, y); else this.lines(svg, shown, x, y);
      this.hover(svg, shown, x, y, first, last, inner);
      this.plot.replaceChildren(svg);
    }

    lines(svg, shown, x, y) {
      const faint = shown.length <= 2;
      for (const each of shown) {
        const look = {fill: 'none', stroke: each.color, 'stroke-linejoin': 'round', 'stroke-linecap': 'round'};
        if (each.smooth && faint) draw(svg, 'path', {...look, d: path(each.x, each.values, x, y), 'stroke-width': 1, opacity: 0.28});
        draw(svg, 'path', {...look, class: 'series', d: path(each.x, this.line(each), x, y), 'stroke-width': each.strong ? 2.6 : 1.9, 'stroke-dasharray': each.dashed ? '5 4' : 'none'});
        if (each.points || each.values.length === 1)
          each.values.forEach((value, i) => { if (isNumber(value)) draw(svg, 'circle', {cx: x(each.x[i]), cy: y(value), r: 3.2, fill: each.color}); });
      }
    }

    areas(svg, shown, x, y) {
      // Areas show shares, not single steps, so at most 120 means are drawn.
      const width = Math.max(1, Math.ceil(data.step.length / 120));
      const starts = data.step.map((_, i) => i).filter((i) => i % width === 0);
      const mean = (values, i) => {
        const piece = values.slice(i, i + width).filter(isNumber);
        return piece.length ? piece.reduce((a, b) => a + b, 0) / piece.length : 0;
      };
      const last = data.step.length - 1;
      const at = starts.map((i, k) => x(data.step[k === 0 ? 0 : k === starts.length - 1 ? last : Math.min(last, i + (width >> 1))]));
      let floor = starts.map(() => 0);
      for (const each of shown) {
        const top = floor.map((value, k) => value + mean(each.values, starts[k]));
        const up = at.map((px, k) => `${px.toFixed(1)} ${y(top[k]).toFixed(1)}`);
        const back = at.map((px, k) => `${px.toFixed(1)} ${y(floor[k]).toFixed(1)}`).reverse();
        draw(svg, 'path', {class: 'series', d: `M${up.join('L')}L${back.join('L')}Z`, fill: each.color, opacity: 0.82});
        floor = top;
      }
    }

    hover(svg, shown, x, y, first, last, inner) {
      const cursor = draw(svg, 'line', {class: 'cursor', y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom, visibility: 'hidden'});
      const cover = draw(svg, 'rect', {x: MARGIN.left, y: MARGIN.top, width: inner.width, height: inner.height, fill: 'transparent'});
      const hide = () => { cursor.setAttribute('visibility', 'hidden'); this.tip.hidden = true; };
      cover.addEventListener('pointerleave', hide);
      cover.addEventListener('pointermove', (event) => {
        if (shown.length === 0) return;
        const box = svg.getBoundingClientRect();
        const at = (event.clientX - box.left) / box.width * this.width;
        const step = first + (at - MARGIN.left) / inner.width * (last - first);
        // Curves may end at different steps; the cursor stands at the nearest step of any.
        const curves = shown.filter((each) => !each.points);
        const near = (curves.length ? curves : shown).map((each) => each.x[nearest(each.x, step)]);
        const anchor = near.reduce((a, b) => Math.abs(b - step) < Math.abs(a - step) ? b : a);
        cursor.setAttribute('x1', x(anchor));
        cursor.setAttribute('x2', x(anchor));
        cursor.setAttribute('visibility', 'visible');
        this.fillTip(shown, anchor);
        this.tip.hidden = false;
        const right = x(anchor) + 14 + this.tip.offsetWidth > this.width;
        this.tip.style.left = `${right ? x(anchor) - this.tip.offsetWidth - 14 : x(anchor) + 14}px`;
        this.tip.style.top = `${this.plot.offsetTop + MARGIN.top}px`;
      });
    }

    fillTip(shown, step) {
      const rows = [];
      let total = 0;
      for (const each of shown) {
        if (each.quiet || !each.points && (step < each.x[0] || step > each.x[each.x.length - 1])) continue;
        const value = this.line(each)[nearest(each.x, step)];
        if (!isNumber(value)) continue;
        total += value;
        const mark = make('i', {style: `background:${each.color}`});
        rows.push(make('span', {}, make('em', {}, mark, each.name), this.format(value)));
      }
      if (this.spec.stacked && rows.length > 1) rows.push(make('span', {}, make('em', {}, 'sum'), this.format(total)));
      const perPoint = this.spec.perPoint ?? data.steps_per_point;
      const many = perPoint > 1 ? ` (mean of ${perPoint})` : '';
      this.tip.replaceChildren(make('b', {}, `step ${formats.step(step)}${many}`), ...rows);
    }
  }

  // ---- the charts of the page ------------------------------------------------------------------
  const held = data.validation;
  const build = (spec) => { if (document.getElementById(spec.id)) new Chart(spec); };
  const against = data.against ?? [];
  build({id: 'chart-against', format: 'number', zero: true, log: true, smooth: true, perPoint: against[0]?.steps_per_point,
    window: Math.max(...against.map((each) => each.loss.length)) / 40, series: against.map((each, i) => (
      {name: each.name, x: each.step, values: each.loss, color: color(i)}))});
  build({id: 'chart-loss', format: 'number', zero: true, log: true, smooth: true, series: [
    {name: 'all sources', values: data.loss, color: 'var(--ink)', strong: true},
    ...data.loss_by_source.map((each, i) => ({...each, color: color(i)})),
    {name: 'held out', x: held.step, values: held.loss, color: 'var(--ink)', points: true, dashed: true}]});
  build({id: 'chart-held-out', format: 'percent', zero: true, top: 1, series:
    Object.entries(held.accuracy).sort(([a], [b]) => (b === 'overall') - (a === 'overall')).map(([name, values], i) => (
      {name, x: held.step, values, points: true, strong: name === 'overall', color: name === 'overall' ? 'var(--ink)' : color(i - 1)}))});
  build({id: 'chart-learning-rate', format: 'number', zero: true, series: [{name: 'learning rate', values: data.learning_rate}]});
  build({id: 'chart-gradient', format: 'number', zero: true, log: true, smooth: true, series: [
    {name: 'all modules', values: data.grad_norm, color: 'var(--ink)', strong: true},
    // Of one module both curves are the same.
    ...(data.grad_norm_by_module.length > 1 ? data.grad_norm_by_module : []).map((each, i) => ({...each, color: color(i)}))]});
  build({id: 'chart-update', format: 'number', zero: true, log: true, smooth: true, perPoint: data.updates.steps_per_point,
    window: data.updates.step.length / 40, series: data.updates.modules.map((each, i) => ({...each, x: data.updates.step, color: color(i)}))});
  const drawn = data.drawn;
  build({id: 'chart-drawn', format: 'percent', zero: true, series: drawn.shares.flatMap((each, i) => [
    {...each, color: color(i)},
    {name: each.name, values: data.step.map(() => each.asked), color: color(i), dashed: true, quiet: true}])});
  build({id: 'chart-targets', format: 'number', stacked: true, zero: true, series: drawn.targets.map((each, i) => ({...each, color: color(i)}))});
  build({id: 'chart-throughput', format: 'number', zero: true, smooth: true, series: [{name: 'tokens/s', values: data.tokens_per_second, color: color(5)}]});
  build({id: 'chart-phases', format: 'seconds', stacked: true, zero: true, series:
    data.seconds.map((each, i) => ({...each, color: color([6, 0, 1, 2, 7, 3, 4, 5][i % 8])}))});
  build({id: 'chart-fill', format: 'percent', zero: true, top: 1, smooth: true, series: [
    {name: 'fill', values: data.fill, color: color(3)}, {name: 'padding', values: data.padding, color: color(1)}]});
  build({id: 'chart-machine', format: 'percent', zero: true, smooth: true, series: [
    // Without recompute both curves are the same.
    ...(data.hfu.some((value, i) => value !== data.mfu[i]) ? [{name: 'HFU, with recompute', values: data.hfu, color: color(1), dashed: true}] : []),
    {name: 'MFU', values: data.mfu, color: color(4)}
  ].filter((each) => each.values.some((value) => value !== null))});
  build({id: 'chart-waiting', format: 'seconds', zero: true, smooth: true, series: data.waiting.map((each, i) => ({...each, color: color([6, 3][i])}))});
  build({id: 'chart-flow', format: 'seconds', zero: true, smooth: true, series: data.flow.map((each, i) => ({...each, color: color([6, 3][i])}))});
  build({id: 'chart-encoders', format: 'seconds', zero: true, smooth: true, series: data.encoders.map((each, i) => ({...each, color: color([5, 3, 6][i])}))});
  build({id: 'chart-rates', format: 'number', zero: true, smooth: true, series: data.rates.map((each, i) => ({...each, color: color([3, 0][i])}))});
  build({id: 'chart-members', format: 'number', zero: true, series: data.members.filter((each) => each.values.some((value) => value !== null))
    .map((each, i) => ({...each, color: color([3, 1][i]), dashed: i === 1}))});
  build({id: 'chart-pool', format: 'bytes', zero: true, series: data.pool.map((each) => ({...each, color: color(5)}))});
  build({id: 'chart-memory', format: 'bytes', zero: true, series: [{name: 'peak bytes', values: data.bytes, color: color(7)}]});

  let pending = 0;
  const redraw = () => {
    cancelAnimationFrame(pending);
    pending = requestAnimationFrame(() => charts.forEach((chart) => chart.render()));
  };
  window.addEventListener('resize', redraw);

  // ---- filters, enlarged pictures --------------------------------------------------------------
  const cards = [...document.querySelectorAll('.prediction')];
  const chosen = {result: '', source: ''};
  for (const button of document.querySelectorAll('.filters button')) {
    button.addEventListener('click', () => {
      const {group, value} = button.dataset;
      chosen[group] = value;
      for (const other of document.querySelectorAll(`.filters button[data-group="${group}"]`))
        other.setAttribute('aria-pressed', String(other === button));
      for (const card of cards)
        card.hidden = (chosen.result !== '' && card.dataset.result !== chosen.result) || (chosen.source !== '' && card.dataset.source !== chosen.source);
    });
  }
  const dialog = document.querySelector('dialog');
  for (const image of document.querySelectorAll('.pictures img'))
    image.addEventListener('click', () => {
      dialog.replaceChildren(make('img', {src: image.src, alt: image.alt}));
      dialog.showModal();
    });
  dialog.addEventListener('click', () => dialog.close());
})();
