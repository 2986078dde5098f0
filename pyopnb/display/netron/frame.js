// Runs inside the sandboxed frame, at the end of Netron's own page: loads Netron's modules and opens one model in them.
// The frame has an origin of its own and a policy without any request, so nothing here, nor in a model, reaches the notebook.
//
// What it opens comes in one of two ways:
//   - two <script type="text/plain"> elements, when the page holds everything (an output that is HTML);
//   - a message {pyopnb: 'netron', do: 'open', ...} from the page around it (the JupyterLab extension).
// It tells the page around it: {do: 'ask'} at first, then 'ready', 'failed' and 'select'.
(() => {
  'use strict';

  const tell = (message) => parent.postMessage({pyopnb: 'netron', ...message}, '*');

  // Netron asks for the system's colour scheme; a notebook has its own. Its rules are switched by hand.
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

  // Each module becomes a blob; './x.js' cannot be found from a blob, so imports are rewritten to blobs as well.
  const loader = (modules) => {
    const made = new Map();
    const address = (name) => {
      if (!Object.hasOwn(modules, name)) {
        throw new Error(`module '${name}' is not part of this view`);
      }
      if (!made.has(name)) {
        const text = modules[name]
          .replace(/from\s*(['"])\.\/([\w-]+)\.js\1/g, (_, quote, other) => `from '${address(other)}'`)
          .replace(/\bimport\(\s*(['"])\.\/([\w-]+)\.js\1\s*\)/g, (_, quote, other) => `window.__pyopnb('${other}')`);
        made.set(name, URL.createObjectURL(new Blob([text], {type: 'text/javascript'})));
      }
      return made.get(name);
    };
    return async (name) => import(address(name));
  };

  const open = async ({modules, documentation, model, dark}) => {
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

      async view(view) {  // Netron's own asks for the age of the version, for consent, and starts its telemetry
        this._view = view;
      }

      async start() {
        const file = new File([model], 'model.onnx');
        await this._open(file, [file]);
      }

      async require(id) {
        const name = id.replace(/^\.\//, '');
        // Of a file that is no ONNX model Netron asks its readers of all other formats; none of them is here.
        return Object.hasOwn(modules, name) ? load(name) : {ModelFactory: class { async match() {} }};
      }

      async asset(file) {
        if (file === 'onnx-metadata.json') {
          return JSON.stringify(documentation);
        }
        throw new Error(`${file} is not part of this view`);
      }

      async request(file) {  // its name in Netron 8
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
        tell({do: 'failed', why: String(error && error.message || error)});
      }
    }

    class Clicked extends View {
      showNodeProperties(node, ...rest) {
        if (node && typeof node.name === 'string') {
          tell({do: 'select', node: node.name});
        }
        return super.showNodeProperties(node, ...rest);
      }
    }

    const host = new Host();
    // A link in some documentation would put another page into this frame, or nothing.
    document.addEventListener('click', (event) => {
      const link = event.target.closest?.('a[href]');
      if (link && /^https?:/.test(link.href)) {
        event.preventDefault();
        host.openURL(link.href);
      }
    }, true);
    await new Clicked(host).start();
    const nodes = document.querySelectorAll('g.node').length;
    tell({do: 'ready', nodes, milliseconds: Math.round(performance.now() - started)});
  };

  const fail = (error) => {
    document.body.className = '';
    document.body.textContent = `Netron cannot show this model: ${error.message}`;
    tell({do: 'failed', why: String(error.message)});
  };

  const unpacked = async (id) => {
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
    Promise.all([unpacked('pyopnb-netron'), unpacked('pyopnb-model')])
      .then(([netron, {model, documentation}]) => open({
        modules: netron,
        documentation,
        model: Uint8Array.from(atob(model), (c) => c.charCodeAt(0)),
        dark: matchMedia('(prefers-color-scheme: dark)').matches,
      }))
      .then(() => tell({do: 'ask'}))  // for the theme of the page around it, if anybody there listens
      .catch(fail);
  } else {
    tell({do: 'ask'});
  }
})();
