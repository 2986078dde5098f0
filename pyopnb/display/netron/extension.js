// The prebuilt JupyterLab extension, written by hand: what a bundler would put around two small modules is the object at the
// end. It draws Netron for outputs and for .onnx files, and tells the kernel of a notebook which node was clicked. It also draws
// the controls of pyopnb.interact while they live, and what they said at first where they do not.
//
// Everything comes from the folder that this file is served from, so it works behind any base URL, token or proxy.
(() => {
  'use strict';

  const NAME = 'pyopnb-netron';
  const MIME = 'application/vnd.pyopnb.onnx+json';
  const FILE = 'application/x-onnx';
  const CONTROLS = 'application/vnd.pyopnb.controls+json';
  const WIDGET = 'application/vnd.jupyter.widget-view+json';
  const HTML = 'text/html';
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
    // Netron measures its labels, and what JupyterLab does not draw, as it is far below, has no measures.
    const seen = new IntersectionObserver((entries) => {
      if (entries.some(({isIntersecting}) => isIntersecting)) {
        seen.disconnect();
        node.replaceChildren(frame);
      }
    });
    seen.observe(node);
    return () => {
      seen.disconnect();
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

  // A widget whose model is gone says "model not found", and the HTML beside it is ignored. So the same output has a type of
  // ours, for which both are made here: the widget is shown once there is one, the HTML until then and afterwards.
  const controls = async () => {
    const {Panel, Widget} = await shared('@lumino/widgets');

    return class Controls extends Panel {
      async renderModel(model) {
        this.model = model;
        this.draw();
      }

      onAfterAttach(message) {
        super.onAfterAttach(message);
        this.draw();
      }

      // What can draw the parts is known by the output area that this is in, of a notebook, a console or a copied output.
      get rendermime() {
        let above = this.parent;
        while (above && !above.rendermime) {
          above = above.parent;
        }
        return above?.rendermime;
      }

      draw() {
        const rendermime = this.rendermime;
        if (!this.model || !rendermime || this.drawn === this.model) {
          return;
        }
        this.drawn = this.model;
        const {data, trusted} = this.model;
        this.clear();
        this.still = this.part(rendermime, HTML, data[HTML], trusted);
        // As JupyterLab has it: nothing that may call the kernel for outputs that were not made here.
        if (trusted && data[WIDGET] && rendermime.mimeTypes.includes(WIDGET)) {
          this.animate(rendermime, {...data[WIDGET]});
          // In a notebook that is being opened, what draws widgets is given its manager a moment later, by another factory.
          let tries = 40;
          let factory = rendermime.getFactory(WIDGET);
          this.timer = setInterval(() => {
            const found = rendermime.getFactory(WIDGET);
            if (found && found !== factory) {
              factory = found;
              this.animate(rendermime, {...data[WIDGET]});
            }
            if (--tries === 0 || !this.live.isHidden) {
              clearInterval(this.timer);
            }
          }, 250);
        }
      }

      animate(rendermime, content) {
        this.watcher?.disconnect();
        this.live?.dispose();
        this.live = this.part(rendermime, WIDGET, content, true);
        // It is empty, or a text, until its model is found, which may be when a kernel comes, and after its widget is closed.
        this.watcher = new MutationObserver(() => this.choose());
        this.watcher.observe(this.live.node, {childList: true, subtree: true});
        this.choose();
      }

      part(rendermime, type, content, trusted) {
        const around = new Panel();
        const drawn = rendermime.createRenderer(type);
        around.addWidget(drawn);
        this.addWidget(around);
        drawn.renderModel(rendermime.createModel({data: {[type]: content}, trusted}));
        return around;
      }

      choose() {
        const there = this.live.widgets[0].widgets?.some((widget) => !widget.isDisposed);
        this.live.setHidden(!there);
        this.still.setHidden(there);
      }

      clear() {
        this.stop();
        this.live = null;
        this.widgets.slice().forEach((part) => part.dispose());
      }

      stop() {
        this.watcher?.disconnect();
        clearInterval(this.timer);
      }

      dispose() {
        this.stop();
        super.dispose();
      }
    };
  };

  const modules = {
    // safe: what it draws is in a frame of its own origin, so no trust is asked for.
    './mimeExtension': async () => {
      const Netron = await renderer();
      const Controls = await controls();
      const factory = (mimeType) => ({safe: true, mimeTypes: [mimeType], createRenderer: (options) => new Netron(options)});
      return [
        {id: `${NAME}:output`, rendererFactory: factory(MIME), rank: 0, dataType: 'json'},
        {
          id: `${NAME}:controls`,
          // safe: without trust it draws the HTML alone, which JupyterLab cleans.
          rendererFactory: {safe: true, mimeTypes: [CONTROLS], createRenderer: () => new Controls()},
          rank: -100,  // before the widget, which has -10
          dataType: 'json',
        },
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
