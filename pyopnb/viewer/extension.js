// The prebuilt JupyterLab extension, written by hand: what a bundler would put around two small modules is the object at the
// end. It draws Netron for outputs and for .onnx files, and tells the kernel of a notebook which node was clicked.
//
// Everything comes from the folder that this file is served from, so it works behind any base URL, token or proxy.
(() => {
  'use strict';

  const NAME = 'pyopnb-netron';
  const MIME = 'application/vnd.pyopnb.onnx+json';
  const FILE = 'application/x-onnx';
  const TARGET = 'pyopnb.netron';
  const HERE = document.currentScript.src.replace(/[^/]*$/, '');

  let scope;  // JupyterLab's shared modules
  let notebooks;  // its tracker of notebooks; none in an application without them

  const shared = async (name) => {
    // Several extensions may offer a module; JupyterLab's own, which is loaded, is the one whose classes and tokens count.
    const offers = Object.values(scope[name] || {});
    const offer = offers.find(({from}) => /application-top/.test(from)) || offers.find(({loaded}) => loaded) || offers[0];
    if (!offer) {
      throw new Error(`JupyterLab does not share ${name}`);
    }
    return (await offer.get())();
  };

  const fetched = new Map();
  const fetchOnce = (file) => {
    if (!fetched.has(file)) {
      const answer = fetch(HERE + file).then(async (response) => {
        if (!response.ok) {
          throw new Error(`${response.status} for ${file}`);
        }
        // A proxy may have decompressed it on the way.
        const bytes = new Uint8Array(await response.arrayBuffer());
        return JSON.parse(bytes[0] === 0x1f ? await gunzip(bytes) : new TextDecoder().decode(bytes));
      });
      answer.catch(() => fetched.delete(file));  // to be tried again
      fetched.set(file, answer);
    }
    return fetched.get(file);
  };

  const stream = (bytes) => new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip')));
  const gunzip = (bytes) => stream(bytes).text();
  const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const isDark = () => document.body.dataset.jpThemeLight === 'false';

  // Show a model in `node`; `selected` is called with the name of each node that is clicked. Gives what takes it away again.
  const show = async (node, {model, documentation, name, selected}) => {
    const {page, modules} = await fetchOnce('assets.json.gz');
    const frame = document.createElement('iframe');
    frame.setAttribute('sandbox', 'allow-scripts allow-downloads');
    frame.title = `Netron: ${name}`;
    frame.style.cssText = 'width:100%;height:100%;border:0;display:block';
    const tell = (message) => frame.contentWindow?.postMessage({pyopnb: 'netron', ...message}, '*');
    const listen = ({source, data}) => {
      if (!source || source !== frame.contentWindow || !data || data.pyopnb !== 'netron') {
        return;
      }
      if (data.do === 'ask') {  // also when the frame was moved in the page, which loads it anew
        tell({do: 'open', modules, documentation, model, dark: isDark()});
      } else if (data.do === 'select' && typeof data.node === 'string') {
        selected(data.node);
      }
    };
    window.addEventListener('message', listen);
    const theme = new MutationObserver(() => tell({do: 'paint', dark: isDark()}));
    theme.observe(document.body, {attributes: true, attributeFilter: ['data-jp-theme-light']});
    frame.srcdoc = page;
    node.replaceChildren(frame);
    return () => {
      window.removeEventListener('message', listen);
      theme.disconnect();
      frame.remove();
    };
  };

  const renderer = async () => {
    const {Panel, Widget} = await shared('@lumino/widgets');
    const {OutputArea, OutputAreaModel} = await shared('@jupyterlab/outputarea');

    return class Netron extends Panel {
      constructor({mimeType, resolver}) {
        super();
        this.mimeType = mimeType;
        this.resolver = resolver;
        this.view = new Widget();
        this.addWidget(this.view);
        this.addClass('pyopnb-netron-renderer');
      }

      async renderModel({data}) {
        const content = data[this.mimeType];
        this.stop?.();
        this.stop = null;
        try {
          const what = this.mimeType === FILE ? await this.file(content) : await this.output(content);
          this.stop = await show(this.view.node, {...what, selected: (node) => this.selected(content.view, node)});
        } catch (error) {
          this.view.node.textContent = `Netron cannot show this model: ${error.message}`;
        }
        if (this.isDisposed) {
          this.stop?.();
        }
      }

      async file(content) {
        this.node.style.height = this.view.node.style.height = '100%';
        const name = (this.resolver?.path || 'model.onnx').split('/').pop();
        return {name, model: bytesOf(content), documentation: await fetchOnce('documentation.json.gz')};
      }

      async output({model, documentation, name, caption, height}) {
        this.view.node.style.height = `${Number(height) || 480}px`;
        this.view.node.style.border = '1px solid var(--jp-border-color2)';
        this.view.node.style.boxSizing = 'border-box';
        if (!this.caption) {
          this.caption = new Widget();
          this.caption.node.style.cssText = 'opacity:.75;font-size:90%;color:var(--jp-content-font-color1)';
          this.addWidget(this.caption);
        }
        this.caption.node.textContent = String(caption);
        const bytes = new Uint8Array(await stream(bytesOf(model)).arrayBuffer());
        return {name: String(name), model: bytes, documentation};
      }

      // Tell the kernel, and show below the view what comes of it: prints, displays, tracebacks.
      selected(view, node) {
        const panel = notebooks?.find((found) => found.node.contains(this.node));
        const kernel = panel?.sessionContext.session?.kernel;
        if (!view || !kernel || kernel.status === 'dead') {
          return;
        }
        if (!this.comm || this.comm.isDisposed || this.kernel !== kernel) {
          this.kernel = kernel;
          this.comm = kernel.createComm(TARGET);
          this.comm.open({});
        }
        if (!this.answers) {
          this.answers = new OutputArea({model: new OutputAreaModel({trusted: true}), rendermime: panel.content.rendermime});
          this.addWidget(this.answers);
        }
        this.answers.future = this.comm.send({view, node});
      }

      dispose() {
        this.stop?.();
        if (this.comm && !this.comm.isDisposed) {
          this.comm.close();
        }
        super.dispose();
      }
    };
  };

  const modules = {
    // safe: what it draws is in a frame of its own origin, so no trust is asked for.
    './mimeExtension': async () => {
      const Netron = await renderer();
      const factory = (mimeType) => ({safe: true, mimeTypes: [mimeType], createRenderer: (options) => new Netron(options)});
      return [
        {id: `${NAME}:output`, rendererFactory: factory(MIME), rank: 0, dataType: 'json'},
        {
          id: `${NAME}:file`,
          rendererFactory: factory(FILE),
          rank: 0,
          dataType: 'string',
          fileTypes: [
            {name: 'onnx', displayName: 'ONNX model', extensions: ['.onnx'], mimeTypes: [FILE], fileFormat: 'base64', contentType: 'file'},
          ],
          documentWidgetFactoryOptions: {
            name: 'Netron', modelName: 'base64', primaryFileType: 'onnx', fileTypes: ['onnx'], defaultFor: ['onnx'],
          },
        },
      ];
    },
    './extension': async () => {
      const {INotebookTracker} = await shared('@jupyterlab/notebook');
      return {
        id: `${NAME}:clicks`,
        description: 'Tells the kernel of a notebook which node was clicked in Netron.',
        autoStart: true,
        optional: [INotebookTracker],
        activate: (app, tracker) => {
          notebooks = tracker;
        },
      };
    },
  };

  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB[NAME] = {
    init: (given) => {
      scope = given;
    },
    get: async (name) => {
      const exported = await modules[name]();
      return () => ({__esModule: true, default: exported});
    },
  };
})();
