// Draws the report's charts. The page works without it: tables and bars are
// plain HTML.
(() => {
  'use strict';
  const root = document.documentElement;
  const charts = JSON.parse(document.getElementById('charts').textContent);
  const byId = new Map(charts.map((c) => [c.id, c]));
  const built = new Map();
  let logarithmic = true;

  const colour = (name) => getComputedStyle(root).getPropertyValue('--' + name).trim();
  // The figures as the tables show them: three significant digits.
  const figure = (v) => {
    const a = Math.abs(v);
    const digits = (x) => (x === 0 ? '0' : Math.abs(x) >= 100 ? x.toFixed(0) : String(Number(x.toPrecision(3))));
    if (a >= 1e9) return digits(v / 1e9) + ' G';
    if (a >= 1e6) return digits(v / 1e6) + ' M';
    if (a >= 1e4) return digits(v / 1e3) + ' k';
    return digits(v);
  };
  // A percentile p stands at log10(1 / (1 - p)): each nine takes as much room.
  const percentile = (x) => {
    const p = 100 - 100 / Math.pow(10, x);
    return Number(p.toFixed(Math.max(0, Math.ceil(x) - 1 + (Number.isInteger(x) ? 0 : 1)))) + ' %';
  };

  const logSplits = (u, axis, low, high) => {
    const within = (steps) => {
      const out = [];
      for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
        for (const s of steps) {
          const v = Number((s * Math.pow(10, e)).toPrecision(6));
          if (v >= low && v <= high) out.push(v);
        }
      }
      return out;
    };
    for (const steps of [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 7]]) {
      const splits = within(steps);
      if (splits.length >= 4 || steps.length === 7) return splits;
    }
  };
  const logRange = (u, low, high) => {
    if (!(low > 0)) return [0.1, 10];
    const pad = Math.max(Math.pow(high / low, 0.06), 1.05);
    return [low / pad, high * pad];
  };
  const linearRange = (u, low, high) => [0, high > 0 ? high * 1.06 : 1];

  const options = (chart, width) => {
    const curve = chart.kind === 'percentiles';
    const log = logarithmic && chart.unit === 'ms';
    const axis = (more) => ({
      stroke: () => colour('soft'),
      grid: { stroke: () => colour('line'), width: 1 },
      ticks: { stroke: () => colour('line'), width: 1, size: 5 },
      font: '12px system-ui, sans-serif', labelFont: '12px system-ui, sans-serif',
      labelSize: 20, ...more,
    });
    const xAxis = axis({
      label: curve ? 'Percentile, log scale of what remains' : 'Time since the measured part began (s)',
      size: 30, space: curve ? 0 : 60,
      ...(curve && {
        splits: (u, i, low, high) => {
          const decade = u.bbox.width / devicePixelRatio / (high - low);
          return [0, ...(decade > 110 ? [Math.log10(2)] : []), 1, 2, 3, 4, 5, 6].filter((x) => x <= high + 1e-9);
        },
        // A label that would run into the one before is left out.
        filter: (u, splits) => {
          let free = -Infinity;
          return splits.map((x) => {
            const half = percentile(x).length * 3.4;
            const at = u.valToPos(x, 'x');
            if (at - half < free) return null;
            free = at + half + 6;
            return x;
          });
        },
        values: (u, splits) => splits.map((x) => (x == null ? '' : percentile(x))),
      }),
    });
    const yAxis = axis({
      label: chart.axis, size: 54,
      values: (u, splits) => splits.map(figure),
      // uPlot's own filter leaves out most labels of a log axis.
      ...(log && { splits: logSplits, filter: (u, splits) => splits }),
    });
    return {
      width, height: 300, padding: [10, curve ? 34 : 16, 0, 0],
      legend: { live: true, markers: { width: 3, dash: (u, i) => (chart.series[i - 1]?.dash ? 'dashed' : 'solid') } },
      // A thin series belongs to the one before it and comes and goes with it.
      hooks: {
        setSeries: [(u, i, set) => {
          if (i != null && set.show != null && chart.series[i]?.thin) u.setSeries(i + 1, { show: set.show });
        }],
      },
      cursor: {
        points: { size: 7 }, drag: { x: true, y: false },
        ...(curve ? {} : { sync: { key: chart.group } }),
      },
      scales: {
        x: { time: false, range: (u, low, high) => [curve ? 0 : low, high > low ? high : low + 1] },
        y: { distr: log ? 3 : 1, range: log ? logRange : linearRange },
      },
      axes: [xAxis, yAxis],
      series: [
        { label: curve ? 'at' : 'second', value: (u, x) => (x == null ? '–' : curve ? percentile(x) : figure(x) + ' s') },
        ...chart.series.map((s) => ({
          label: s.label, width: s.thin ? 1 : 2,
          stroke: () => colour(s.slot),
          dash: s.thin ? [2, 3] : s.dash || undefined,
          points: { show: chart.x.length === 1, size: 7 },
          spanGaps: false,
          value: (u, v) => (v == null ? '–' : figure(v) + (chart.unit ? ' ' + chart.unit : '')),
        })),
      ],
    };
  };

  const build = (box) => {
    const chart = byId.get(box.dataset.chart);
    const old = built.get(box);
    if (old) old.destroy();
    const plot = new uPlot(options(chart, box.clientWidth), [chart.x, ...chart.series.map((s) => s.y)], box);
    chart.series.forEach((s, i) => { box.querySelectorAll('.u-legend .u-series')[i + 1].hidden = s.thin; });
    const canvas = box.querySelector('canvas');
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', box.dataset.label);
    // A finger moves the cursor sideways; up and down still scrolls the page.
    plot.over.style.touchAction = 'pan-y';
    plot.over.addEventListener('touchmove', (e) => {
      const at = plot.over.getBoundingClientRect();
      plot.setCursor({ left: e.touches[0].clientX - at.left, top: e.touches[0].clientY - at.top });
    }, { passive: true });
    built.set(box, plot);
    root.dataset.charts = built.size;
  };

  // Charts are drawn as they come near: a matrix has more canvases than a phone
  // has memory. A few are drawn at once, for those who print or take pictures.
  const few = 24;
  const boxes = [...document.querySelectorAll('[data-chart]')];
  const seen = new IntersectionObserver((entries) => {
    for (const e of entries) {
      if (e.isIntersecting) { seen.unobserve(e.target); build(e.target); }
    }
  }, { rootMargin: '600px' });
  const resized = new ResizeObserver((entries) => {
    for (const e of entries) {
      const plot = built.get(e.target);
      if (plot && Math.abs(plot.width - e.contentRect.width) >= 1) {
        plot.setSize({ width: e.contentRect.width, height: 300 });
      }
    }
  });
  for (const box of boxes) { seen.observe(box); resized.observe(box); }
  if (boxes.length <= few) {
    setTimeout(() => {
      for (const box of boxes) {
        seen.unobserve(box);
        if (!built.has(box)) build(box);
      }
    }, 0);
  }

  const scale = document.getElementById('scale');
  if (scale) {
    scale.hidden = false;
    scale.addEventListener('click', () => {
      logarithmic = !logarithmic;
      scale.textContent = logarithmic ? 'Linear ms' : 'Log ms';
      for (const box of built.keys()) build(box);
    });
  }

  const dark = matchMedia('(prefers-color-scheme: dark)');
  const theme = document.getElementById('theme');
  const redraw = () => {
    const isDark = root.dataset.theme ? root.dataset.theme === 'dark' : dark.matches;
    theme.textContent = isDark ? 'Light' : 'Dark';
    theme.setAttribute('aria-label', isDark ? 'Switch to light colours' : 'Switch to dark colours');
    for (const box of built.keys()) build(box);
  };
  // A page opened from a file may be denied storage.
  const remember = (v) => { try { localStorage.setItem('posthouse-theme', v); } catch { /* the choice lasts as long as the page */ } };
  try { const v = localStorage.getItem('posthouse-theme'); if (v) root.dataset.theme = v; } catch { /* as above */ }
  theme.hidden = false;
  theme.addEventListener('click', () => {
    const isDark = root.dataset.theme ? root.dataset.theme === 'dark' : dark.matches;
    root.dataset.theme = isDark ? 'light' : 'dark';
    remember(root.dataset.theme);
    redraw();
  });
  dark.addEventListener('change', redraw);
  redraw();

  addEventListener('beforeprint', () => {
    root.dataset.theme = 'light';
    for (const d of document.querySelectorAll('details')) d.open = true;
    for (const box of boxes) build(box);
  });
})();
