// Runs in the sandboxed frame, at the end of Netron's own page: loads Netron's modules and opens a model.
// The frame has an origin of its own and a policy that forbids all requests, so neither this code nor a model can reach the
// notebook.
//
// The model arrives in one of two ways:
//   - in two <script type="text/plain"> elements, if the page contains everything (an output as HTML);
//   - in a message {pyopnb: 'netron', do: 'open', ...} from the parent page (the JupyterLab extension).
// The frame sends {do: 'ask'} to the parent page first, and then 'ready', 'failed' and 'select'.
(() => {
  'use strict';

  const post = (message) => parent.postMessage({pyopnb: 'netron', ...message}, '*');

  // Netron follows the color scheme of the system, but a notebook has a theme of its own, so Netron's rules are switched here.
  const paint = (dark) => {
    for (const sheet of document.styleSheets) {
      for (const rule of sheet.cssRules) {
        if (rule.media && /prefers-color-scheme|^\(m(in|ax)-width: -?1px\)$/.test(rule.media.mediaText)) {
          rule.media.mediaText = dark ? '(min-width: 1px)' : '(max-width: -1px)';
        }
      }
    }
    document.documentElement.style.colorScheme = dark ? 'dark' : 'light';
  };

  // Each module becomes a blob. Relative imports do not work from a blob, so they are rewritten to the URLs of other blobs.
  const loader = (modules) => {
    const urls = new Map();
    const urlOf = (name) => {
      if (!Object.hasOwn(modules, name)) {
        throw new Error(`module '${name}' is not part of this view`);
      }
      if (!urls.has(name)) {
        const text = modules[name]
          .replace(/from\s*(['"])\.\/([\w-]+)\.js\1/g, (_, quote, other) => `from '${urlOf(other)}'`)
          .replace(/\bimport\(\s*(['"])\.\/([\w-]+)\.js\1\s*\)/g, (_, quote, other) => `window.__pyopnb('${other}')`);
        urls.set(name, URL.createObjectURL(new Blob([text], {type: 'text/javascript'})));
      }
      return urls.get(name);
    };
    return async (name) => import(urlOf(name));
  };

  // Netron draws its nodes again when another graph is opened, so the colors are put on again.
  const color = ({nodes = {}, legend} = {}) => {
    const dress = () => {
      for (const [name, [fill, ink, about]] of Object.entries(nodes)) {
        const node = document.getElementById(`node-name-${name}`);
        if (node && !node.dataset.pyopnb) {
          node.dataset.pyopnb = 'colored';
          const head = node.querySelector('.node-item-type') || node.querySelector('.node-item');
          if (fill && head) {
            head.querySelector('path').style.fill = fill;
            head.querySelector('text').style.fill = ink;
          }
          const title = document.createElementNS('http://www.w3.org/2000/svg', 'title');
          title.textContent = about;
          node.prepend(title);
        }
      }
    };
    dress();
    new MutationObserver(dress).observe(document.body, {childList: true, subtree: true});
    if (Object.values(nodes).some(([fill]) => fill)) {
      // Netron's own colors, by kind of operator, would be taken for some of ours.
      const neutral = document.createElement('style');
      neutral.textContent = '.node .node-item-type path { fill: #757b82 } .node .node-item-type text { fill: #ffffff }';
      document.head.append(neutral);
    }
    if (legend) {
      const box = document.createElement('div');
      box.id = 'pyopnb-legend';
      box.style.cssText = 'position:fixed;top:8px;left:36px;width:180px;font:10px sans-serif;pointer-events:none;z-index:1';
      const bar = document.createElement('div');
      bar.style.cssText = `height:8px;background:linear-gradient(to right,${legend.stops.join()})`;
      const ends = document.createElement('div');
      ends.style.cssText = 'display:flex;justify-content:space-between';
      ends.append(...legend.ends.map((end) => Object.assign(document.createElement('span'), {textContent: end})));
      box.append(legend.title, bar, ends);
      document.body.append(box);
    }
  };

  const open = async ({modules, documentation, model, dark, colors}) => {
    paint(dark);
    const load = window.__pyopnb = loader(modules);
    window.exports = {};
    const browser = await load('browser');
    const view = await load('view');
    const View = view.View || window.exports.view.View;
    const started = performance.now();

    class Host extends browser.Host {
      constructor() {
        super();
        this._telemetry = {set() {}, send() {}, get() {}, async start() {}};
        Object.assign(this._environment, {serial: true, menu: false, type: 'Python'});  // serial: no worker
      }

      async view(view) {  // Netron's own checks the version's age, asks for consent and starts telemetry
        this._view = view;
      }

      async start() {
        const file = new File([model], 'model.onnx');
        await this._open(file, [file]);
      }

      async require(id) {
        const name = id.replace(/^\.\//, '');
        // For a file that is not an ONNX model, Netron tries its readers of all other formats, which are not part of this view.
        return Object.hasOwn(modules, name) ? load(name) : {ModelFactory: class { async match() {} }};
      }

      async asset(file) {
        if (file === 'onnx-metadata.json') {
          return JSON.stringify(documentation);
        }
        throw new Error(`${file} is not part of this view`);
      }

      async request(file) {  // the name of asset() in Netron 8
        return this.asset(file);
      }

      async fetch(file) {
        throw new Error(`${file} is not part of this view`);
      }

      get() {}

      set() {}

      delete() {}

      event() {}

      openURL(url) {
        this.message(url, true, 'OK');
      }

      exception(error) {
        post({do: 'failed', why: String(error && error.message || error)});
      }
    }

    class ClickableView extends View {
      showNodeProperties(node, ...rest) {
        if (node && typeof node.name === 'string') {
          post({do: 'select', node: node.name});
        }
        return super.showNodeProperties(node, ...rest);
      }
    }

    const host = new Host();
    // A link in the documentation would replace the page in this frame.
    document.addEventListener('click', (event) => {
      const link = event.target.closest?.('a[href]');
      if (link && /^https?:/.test(link.href)) {
        event.preventDefault();
        host.openURL(link.href);
      }
    }, true);
    await new ClickableView(host).start();
    color(colors);
    const nodes = document.querySelectorAll('g.node').length;
    post({do: 'ready', nodes, milliseconds: Math.round(performance.now() - started)});
  };

  const fail = (error) => {
    document.body.className = '';
    document.body.textContent = `Netron cannot show this model: ${error.message}`;
    post({do: 'failed', why: String(error.message)});
  };

  const unpack = async (id) => {
    const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))).json();
  };

  let opened = false;
  window.addEventListener('message', ({source, data}) => {
    if (source !== parent || !data || data.pyopnb !== 'netron') {
      return;
    }
    if (data.do === 'paint') {
      paint(data.dark);
    } else if (data.do === 'open' && !opened) {
      opened = true;
      open(data).catch(fail);
    }
  });

  if (document.getElementById('pyopnb-model')) {
    opened = true;
    Promise.all([unpack('pyopnb-netron'), unpack('pyopnb-model')])
      .then(([netron, {model, documentation, colors}]) => open({
        modules: netron,
        documentation,
        colors,
        model: Uint8Array.from(atob(model), (c) => c.charCodeAt(0)),
        dark: matchMedia('(prefers-color-scheme: dark)').matches,
      }))
      .then(() => post({do: 'ask'}))  // for the theme of the parent page, if it has our script
      .catch(fail);
  } else {
    post({do: 'ask'});
  }
})();
